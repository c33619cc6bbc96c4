/** What a new deployment still lacks until its first host reports (docs/admin.md). Holds no secret. */
import * as v from "valibot";
import { TextOrNull } from "../values.ts";

/** The steps, in the order in which an admin takes them. */
const setupSteps = ["directory", "signer", "ingest", "policy", "token", "host"] as const;

/** One of `setupSteps`. */
export type SetupStep = (typeof setupSteps)[number];

/** Response of `GET /v1/collector/setup`. */
export const Setup = v.strictObject({
  steps: v.array(
    v.strictObject({ step: v.picklist(setupSteps), done: v.boolean(), detail: v.string() }),
  ),
  /** What fills in the command of a host; null where core does not know it. */
  core_url: TextOrNull,
  ingest_address: TextOrNull,
  /** The oldest active policy, and its first prefix. */
  policy: v.nullable(
    v.strictObject({ id: v.string(), name: v.string(), identity_prefix: v.string() }),
  ),
});

/** Response of `GET /v1/collector/setup`. */
export type Setup = v.InferOutput<typeof Setup>;
