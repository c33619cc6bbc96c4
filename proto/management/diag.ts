import * as v from "valibot";
import { Id, isRecord, Text, Timestamp } from "../values.ts";
import { ProofFields } from "./proof.ts";

/** Why a host sends no bundle: its own config forbids it, or the bundle is over the limit. */
export const diagRefusals = ["forbidden", "too_large"] as const;

/** One of `diagRefusals`. */
export type DiagRefusal = (typeof diagRefusals)[number];

/** The largest bundle, in bytes of its text as a string of JSON: with it, the request is within the limit of management requests. */
export const diagBytesMax = 60 * 1024;

const isJsonObject = (text: string) => {
  try {
    return isRecord(JSON.parse(text));
  } catch {
    return false;
  }
};

/** Body of `POST /v1/collector/diag`: what `svc-collector diag` prints, or why there is none. Unknown fields are ignored. */
export const DiagRequest = v.pipe(
  v.object({
    ...ProofFields,
    request_id: Id,
    bundle: v.optional(
      v.pipe(
        Text,
        v.maxLength(diagBytesMax, `must be at most ${diagBytesMax} characters`),
        v.check(isJsonObject, "must be the text of a JSON object"),
      ),
    ),
    refusal: v.optional(v.picklist(diagRefusals, "must be one of the refusals")),
  }),
  v.check(
    ({ bundle, refusal }) => (bundle === undefined) !== (refusal === undefined),
    "needs a bundle or a refusal",
  ),
);

/** A parsed answer to a request for diagnostics. */
export type DiagRequest = v.InferOutput<typeof DiagRequest>;

/** Response: when core stored the answer. */
export const DiagResponse = v.object({ received_at: Timestamp });

/** The response on the wire. */
export type DiagResponse = v.InferOutput<typeof DiagResponse>;
