import { fromBinary } from "@bufbuild/protobuf";
import { RetryInfoSchema } from "../../proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../proto/gen/google/rpc/status_pb.js";
import { decodeText, eachField, readWire } from "../../proto/wire.ts";

/** The outcome of a request at a backend, by the rules of OTLP (its specification, "Failures", "OTLP/HTTP Response"). */
export type OtlpOutcome =
  /** Stored, but for so many items that the backend rejected and that must not be sent again. */
  | { status: "accepted"; rejectedItems: number; message: string }
  /** To be sent again, as the backend says after `afterMs`. */
  | { status: "retry"; afterMs: number | null; reason: string }
  /** This request will never be accepted. */
  | { status: "rejected"; reason: string }
  /** No request of ours is accepted: wrong credentials, or a wrong address. */
  | { status: "refused"; reason: string };

const retryableHttp = new Set([429, 502, 503, 504]);
/** They concern the sender or the address, not the data: every request would be rejected alike. */
const refusedHttp = new Set([401, 403, 404, 405, 407]);
/** CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS. */
const retryableGrpc = new Set([1, 4, 10, 11, 14, 15]);
const resourceExhausted = 8;
/** PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED. */
const refusedGrpc = new Set([7, 12, 16]);
/** A backend cannot stop the export for longer. */
const retryAfterMsMax = 600_000;
const reasonMax = 300;

/** Reads a response of OTLP/HTTP. */
export const readHttpOutcome = (
  status: number,
  { retryAfter, body, now }: { retryAfter: string | undefined; body: Uint8Array; now: number },
): OtlpOutcome => {
  if (status >= 200 && status < 300) return readAccepted(body);
  const reason = oneLine(`HTTP ${status} ${messageOf(body)}`);
  if (retryableHttp.has(status)) return { status: "retry", afterMs: readRetryAfter(retryAfter, now), reason };
  return { status: refusedHttp.has(status) || status < 400 ? "refused" : "rejected", reason };
};

/** The end of a gRPC call. */
export interface GrpcEnd {
  /** `grpc-status`; undefined when the server sent none. */
  code: number | undefined;
  httpStatus: number;
  message: string;
  /** `grpc-status-details-bin`, decoded. */
  details: Uint8Array | null;
  /** The response without its frame. */
  body: Uint8Array;
}

/** Reads the end of a call of OTLP/gRPC. */
export const readGrpcOutcome = ({ code, httpStatus, message, details, body }: GrpcEnd): OtlpOutcome => {
  if (code === undefined) {
    const reason = oneLine(`HTTP ${httpStatus} without a gRPC status`);
    if (httpStatus === 200 || retryableHttp.has(httpStatus)) return { status: "retry", afterMs: null, reason };
    return { status: refusedHttp.has(httpStatus) ? "refused" : "rejected", reason };
  }
  if (code === 0) return readAccepted(body);
  const reason = oneLine(`gRPC ${code} ${message}`);
  const afterMs = details && readRetryInfo(details);
  if (retryableGrpc.has(code) || (code === resourceExhausted && afterMs !== null))
    return { status: "retry", afterMs, reason };
  return { status: refusedGrpc.has(code) ? "refused" : "rejected", reason };
};

/** `partial_success` is field 1 of each response; in it 1 counts the rejected items, and 2 is a message. An unreadable response counts as a plain success. */
const readAccepted = (body: Uint8Array): OtlpOutcome => {
  let rejectedItems = 0;
  let message = "";
  try {
    readWire(body, (reader) =>
      eachField(reader, body.length, (tag, end) => {
        if (tag >>> 3 !== 1) return;
        eachField(reader, end, (inner, innerEnd) => {
          if (inner >>> 3 === 1) rejectedItems = Number(reader.int64());
          if (inner >>> 3 === 2) message = oneLine(decodeText(body.subarray(reader.pos, innerEnd)));
        });
      }),
    );
  } catch {
    return { status: "accepted", rejectedItems: 0, message: "" };
  }
  return { status: "accepted", rejectedItems, message };
};

/** Returns the message of a google.rpc.Status, as OTLP/HTTP sends failures, or a short text as it is. */
const messageOf = (body: Uint8Array): string => {
  try {
    const { message } = fromBinary(StatusSchema, body);
    if (message !== "") return message;
  } catch {
    // Not protobuf: a proxy's text.
  }
  return new TextDecoder().decode(body.subarray(0, reasonMax));
};

const readRetryInfo = (details: Uint8Array): number | null => {
  try {
    for (const { typeUrl, value } of fromBinary(StatusSchema, details).details) {
      if (!typeUrl.endsWith("/google.rpc.RetryInfo")) continue;
      const { retryDelay } = fromBinary(RetryInfoSchema, value);
      return capped(Number(retryDelay?.seconds ?? 0n) * 1000 + (retryDelay?.nanos ?? 0) / 1e6);
    }
  } catch {
    // Details that cannot be read say nothing.
  }
  return null;
};

/** Reads `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). */
const readRetryAfter = (text: string | undefined, now: number): number | null => {
  if (text === undefined) return null;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? null : capped(ms);
};

const capped = (ms: number): number => Math.min(retryAfterMsMax, Math.max(0, ms));

const oneLine = (text: string): string =>
  text
    .replaceAll(/[\p{Cc}\u2028\u2029\ufffd]+/gu, " ")
    .trim()
    .slice(0, reasonMax);
