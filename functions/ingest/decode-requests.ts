import { fromBinary, fromJsonString } from "@bufbuild/protobuf";
import { type ContextValues, createContextKey } from "@connectrpc/connect";
import {
  type ForwardRequest,
  ForwardRequestSchema,
  type SubmitRequest,
  SubmitRequestSchema,
} from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { createWireCheck } from "../../proto/limits/wire-check.ts";
import { Problem } from "../problems.ts";
import { checkLimits } from "./limit-messages.ts";

/** A Submit's message, decoded before Connect sees it. */
export const submittedKey = createContextKey<SubmitRequest | undefined>(undefined, {
  description: "the decoded SubmitRequest",
});

const forwardWire = createWireCheck(ForwardRequestSchema);

/** Decodes a ForwardRequest. Throws a Problem for other bytes, and for one that holds more than `messageLimits`. */
export const decodeForward = (bytes: Uint8Array): ForwardRequest["message"] => {
  checkLimits(forwardWire.check, bytes);
  try {
    return fromBinary(ForwardRequestSchema, bytes, { readUnknownFields: false }).message;
  } catch (cause) {
    throw new Problem("frame_invalid", { detail: "the message is not a ForwardRequest", cause });
  }
};

/** Decodes a SubmitRequest into the context's values. Returns an empty one for Connect to decode. */
export const decodeSubmit = (
  message: Uint8Array<ArrayBuffer>,
  codec: string,
  values: ContextValues | undefined,
) => {
  if (values === undefined) return message;
  try {
    const isJson = codec === "json";
    values.set(
      submittedKey,
      isJson
        ? fromJsonString(SubmitRequestSchema, strictUtf8.decode(message), {
            ignoreUnknownFields: true,
          })
        : fromBinary(SubmitRequestSchema, message, { readUnknownFields: false }),
    );
    return isJson ? Uint8Array.of(0x7b, 0x7d) : new Uint8Array();
  } catch (cause) {
    throw new Problem("frame_invalid", { detail: "the message is not a SubmitRequest", cause });
  }
};

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
