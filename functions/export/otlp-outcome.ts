import { fromBinary } from "@bufbuild/protobuf";
import * as v from "valibot";
import { jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import { readRetryAfter } from "#kit/retry-after.ts";
import { RetryInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { decodeText, eachField, eachValue, readWire } from "#proto/wire.ts";

/** The outcome of a request at a backend, by the rules of OTLP (its specification, "Failures", "OTLP/HTTP Response"). */
export type OtlpOutcome =
  /** Stored, except `rejectedItems`, which must not be sent again. */
  | { status: "accepted"; rejectedItems: number; message: string }
  /** To be sent again, after `afterMs` if the backend names it. After a timeout, the backend may have stored it. */
  | { status: "retry"; afterMs: number | null; reason: string; isTimeout?: true }
  /** This request will never be accepted; `isUnsent` if the export itself sees that it is malformed. */
  | { status: "rejected"; reason: string; isUnsent?: true }
  /** No request of ours is accepted: wrong credentials, or a wrong address. */
  | { status: "refused"; reason: string };

const retryableHttp = new Set([429, 502, 503, 504]);
/** The statuses about the sender or the address: the backend would reject every request. */
const refusedHttp = new Set([401, 403, 404, 405, 407]);
/** CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS. */
const retryableGrpc = new Set([1, 4, 10, 11, 14, 15]);
const resourceExhausted = 8;
/** PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED. */
const refusedGrpc = new Set([7, 12, 16]);
/** The longest pause that a backend can demand. */
const retryAfterMsMax = 600_000;
const reasonMax = 300;

/** Reads a response of OTLP/HTTP. */
export const readHttpOutcome = (
  status: number,
  {
    retryAfter,
    contentType,
    body,
    now,
  }: {
    retryAfter: string | undefined;
    contentType?: string | undefined;
    body: Uint8Array;
    now: number;
  },
): OtlpOutcome => {
  if (status >= 200 && status < 300) return readSuccess(`HTTP ${status}`, contentType, body);
  const reason = oneLine(`HTTP ${status} ${messageOf(body)}`);
  if (retryableHttp.has(status))
    return { status: "retry", afterMs: readRetryAfter(retryAfter, now, retryAfterMsMax), reason };
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
export const readGrpcOutcome = ({
  code,
  httpStatus,
  message,
  details,
  body,
}: GrpcEnd): OtlpOutcome => {
  if (code === undefined) {
    const reason = oneLine(`HTTP ${httpStatus} without a gRPC status`);
    if (httpStatus === 200 || retryableHttp.has(httpStatus))
      return { status: "retry", afterMs: null, reason };
    return { status: refusedHttp.has(httpStatus) ? "refused" : "rejected", reason };
  }
  if (code === 0) return readSuccess("gRPC 0", undefined, body);
  const reason = oneLine(`gRPC ${code} ${message}`);
  const afterMs = details && readRetryInfo(details);
  if (retryableGrpc.has(code) || (code === resourceExhausted && afterMs !== null))
    return { status: "retry", afterMs, reason };
  return { status: refusedGrpc.has(code) ? "refused" : "rejected", reason };
};

/**
 * Reads a successful response. One that is not OTLP comes from something else, such as a sign-in page, a proxy or a wrong address: the outcome is
 * unknown, so the request is kept.
 */
const readSuccess = (
  status: string,
  contentType: string | undefined,
  body: Uint8Array,
): OtlpOutcome => {
  const type = contentType?.split(";")[0]?.trim().toLowerCase();
  const notOtlp = (): OtlpOutcome => ({
    status: "refused",
    reason: oneLine(`${status} with ${type ?? "a body"} that is no response of OTLP`),
  });
  if (type === "text/html") return notOtlp();
  if (body.length === 0) return accepted(0n, "");
  try {
    if (type === "application/json") return readJsonResponse(body);
    if (type !== undefined && !protobufTypes.has(type)) return notOtlp();
    return readResponse(body);
  } catch {
    return notOtlp();
  }
};

const protobufTypes = new Set([
  "application/x-protobuf",
  "application/protobuf",
  "application/octet-stream",
]);

/** No request has more items. A larger count would fail the transaction that adds it, and so repeat the request forever. */
const rejectedItemsMax = 1_000_000_000;

const accepted = (rejected: bigint, message: string): OtlpOutcome => ({
  status: "accepted",
  rejectedItems: Math.min(rejectedItemsMax, Math.max(0, Number(rejected))),
  message: oneLine(message),
});

/** `partial_success` is field 1 of each response; in it 1 counts the rejected items, and 2 is a message. */
const readResponse = (body: Uint8Array): OtlpOutcome => {
  let rejected = 0n;
  let message = "";
  readWire(body, (reader) =>
    eachValue(reader, body.length, 1, (end) =>
      eachField(reader, end, (inner, innerEnd) => {
        if (inner >>> 3 === 1) rejected = BigInt(reader.int64());
        if (inner >>> 3 === 2) message = decodeText(body.subarray(reader.pos, innerEnd));
      }),
    ),
  );
  return accepted(rejected, message);
};

/** Reads a response in JSON, which some backends send to any request. Throws for another shape. */
const readJsonResponse = (body: Uint8Array): OtlpOutcome => {
  const { partialSuccess: partial } = v.parse(
    JsonResponse,
    parseForeignJson(body, jsonLimits.backendAnswer),
  );
  const rejected =
    partial?.rejectedSpans ?? partial?.rejectedLogRecords ?? partial?.rejectedDataPoints ?? 0;
  return accepted(BigInt(rejected), partial?.errorMessage ?? "");
};

/** JSON of protobuf writes an int64 as text. */
const RejectedCount = v.optional(
  v.union([v.pipe(v.number(), v.integer()), v.pipe(v.string(), v.regex(/^\d{1,19}$/))]),
);
const JsonResponse = v.object({
  partialSuccess: v.nullish(
    v.object({
      rejectedSpans: RejectedCount,
      rejectedLogRecords: RejectedCount,
      rejectedDataPoints: RejectedCount,
      errorMessage: v.optional(v.string()),
    }),
  ),
});

/** Returns the message of a google.rpc.Status, as OTLP/HTTP sends failures, or a short text as it is. */
const messageOf = (body: Uint8Array) => {
  try {
    const { message } = fromBinary(StatusSchema, body);
    if (message !== "") return message;
  } catch {
    // Not protobuf: a proxy's text.
  }
  return new TextDecoder().decode(body.subarray(0, reasonMax));
};

const readRetryInfo = (details: Uint8Array) => {
  try {
    for (const { typeUrl, value } of fromBinary(StatusSchema, details).details) {
      if (!typeUrl.endsWith("/google.rpc.RetryInfo")) continue;
      const { retryDelay } = fromBinary(RetryInfoSchema, value);
      return capped(Number(retryDelay?.seconds ?? 0n) * 1000 + (retryDelay?.nanos ?? 0) / 1e6);
    }
  } catch {
    // Ignore unreadable details.
  }
  return null;
};

const capped = (ms: number) => Math.min(retryAfterMsMax, Math.max(0, ms));

const oneLine = (text: string) =>
  text
    .replaceAll(/[\p{Cc}\u2028\u2029\ufffd]+/gu, " ")
    .trim()
    .slice(0, reasonMax);
