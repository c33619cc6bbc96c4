/** The status of a gRPC call (grpc/doc/PROTOCOL-HTTP2.md, "Responses"), for programs that speak gRPC without a library. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Any, anyUnpack } from "@bufbuild/protobuf/wkt";
import { ErrorInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";

/** gRPC's codes by name (grpc/doc/statuscodes.md). */
export const grpcCodes = {
  canceled: 1,
  unknown: 2,
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  aborted: 10,
  out_of_range: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  data_loss: 15,
  unauthenticated: 16,
} as const;

/** The name of one of gRPC's codes. */
export type GrpcCode = keyof typeof grpcCodes;

/** Why a gRPC call failed. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  readonly code: GrpcCode;
  readonly details: readonly Any[];

  constructor(
    code: GrpcCode,
    message: string,
    { details = [], cause }: { details?: readonly Any[]; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.code = code;
    this.details = details;
  }

  /** Returns `google.rpc.ErrorInfo.reason`, core's stable code; null without one. */
  reason(): string | null {
    for (const detail of this.details) {
      const info = anyUnpack(detail, ErrorInfoSchema);
      if (info !== undefined) return info.reason;
    }
    return null;
  }
}

/** Returns the headers or trailers of a failed call. */
export const grpcStatusHeaders = ({ code, message, details }: GrpcError): Record<string, string> => {
  const status = create(StatusSchema, { code: grpcCodes[code], message, details: [...details] });
  return {
    "grpc-status": String(status.code),
    "grpc-message": encodeURIComponent(message.toWellFormed()),
    ...(details.length === 0
      ? {}
      : { "grpc-status-details-bin": toBinary(StatusSchema, status).toBase64({ omitPadding: true }) }),
  };
};

/** Reads a call's status from its headers or trailers: "ok", its error, or undefined if they contain none. Ignores malformed details. */
export const readGrpcStatus = (headers: Readonly<Record<string, unknown>>): "ok" | GrpcError | undefined => {
  const status = headers["grpc-status"];
  if (status === undefined) return undefined;
  if (status === "0") return "ok";
  const code = codeNames.get(Number(status));
  if (code === undefined) return new GrpcError("unknown", "the server sent an invalid grpc-status");
  const details = headers["grpc-status-details-bin"];
  const found = typeof details === "string" ? decodeStatus(details) : undefined;
  return new GrpcError(code, found?.message ?? decodeMessage(headers["grpc-message"]), {
    details: found?.details ?? [],
  });
};

const codeNames = new Map(Object.entries(grpcCodes).map(([name, code]) => [code as number, name as GrpcCode]));

const decodeStatus = (base64: string) => {
  try {
    return fromBinary(StatusSchema, Uint8Array.fromBase64(base64));
  } catch {
    return undefined;
  }
};

const decodeMessage = (encoded: unknown): string => {
  if (typeof encoded !== "string") return "";
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
};

/** Returns the code for an HTTP status other than 200, which a proxy sends (grpc/doc/http-grpc-status-mapping.md). */
export const grpcCodeOfHttpStatus = (status: number): GrpcCode => httpCodes.get(status) ?? "unknown";

const httpCodes = new Map<number, GrpcCode>([
  [400, "internal"],
  [401, "unauthenticated"],
  [403, "permission_denied"],
  [404, "unimplemented"],
  [429, "unavailable"],
  [502, "unavailable"],
  [503, "unavailable"],
  [504, "unavailable"],
]);
