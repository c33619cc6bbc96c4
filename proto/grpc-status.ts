/**
 * The status of a gRPC call (grpc/doc/PROTOCOL-HTTP2.md, "Responses"; google/rpc/status.proto), for programs that speak gRPC without a
 * library, and without the descriptors of its messages, which would take a seventh of the collector's start.
 */
import {
  bytesField,
  declareMessage,
  integerField,
  listField,
  optionalField,
  textField,
} from "./declared-message.ts";

/** A `google.protobuf.Any` beside an error. */
interface GrpcDetail {
  typeUrl: string;
  value: Uint8Array;
}

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
  readonly details: readonly GrpcDetail[];

  constructor(
    code: GrpcCode,
    message: string,
    { details = [], cause }: { details?: readonly GrpcDetail[]; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.code = code;
    this.details = details;
  }

  /** Returns `google.rpc.ErrorInfo.reason`, core's stable code; null without one. */
  reason(): string | null {
    const info = this.#find("ErrorInfo", errorInfo);
    return info?.reason ?? null;
  }

  /** Returns the whole seconds of `google.rpc.RetryInfo`, after which to try again; 0 without one. */
  retryAfterSeconds(): number {
    const info = this.#find("RetryInfo", delayInfo);
    return Math.max(0, info?.delay.seconds ?? 0);
  }

  #find<Info>(type: string, { decode }: { decode(bytes: Uint8Array): Info }) {
    const found = this.details.find(({ typeUrl }) => typeUrl.endsWith(`/google.rpc.${type}`));
    return found && ifWellFormed(() => decode(found.value));
  }
}

const ifWellFormed = <Decoded>(decode: () => Decoded): Decoded | undefined => {
  try {
    return decode();
  } catch {
    return undefined;
  }
};

const statusMessage = declareMessage({
  code: integerField(1),
  message: textField(2),
  details: listField(declareMessage({ typeUrl: textField(1), value: bytesField(2) }).field(3)),
});

const errorInfo = declareMessage({ reason: optionalField(textField(1)) });

const delayInfo = declareMessage({ delay: declareMessage({ seconds: integerField(1) }).field(1) });

/** Creates a `google.rpc.RetryInfo`. */
export const retryInfo = (seconds: number): GrpcDetail => ({
  typeUrl: "type.googleapis.com/google.rpc.RetryInfo",
  value: delayInfo.encode({ delay: { seconds } }),
});

/** Encodes a `google.rpc.Status`. */
export const encodeGrpcStatus = (
  code: GrpcCode,
  message: string,
  details: readonly GrpcDetail[] = [],
): Uint8Array => statusMessage.encode({ code: grpcCodes[code], message, details });

/** Returns the headers or trailers of a failed call. */
export const grpcStatusHeaders = ({
  code,
  message,
  details,
}: GrpcError): Record<string, string> => {
  const text = message.toWellFormed();
  return {
    "grpc-status": String(grpcCodes[code]),
    "grpc-message": encodeURIComponent(text),
    ...(details.length === 0
      ? {}
      : {
          "grpc-status-details-bin": encodeGrpcStatus(code, text, details).toBase64({
            omitPadding: true,
          }),
        }),
  };
};

/** Reads a call's status from its headers or trailers: "ok", its error, or undefined if they contain none. Ignores malformed details. */
export const readGrpcStatus = (
  headers: Readonly<Record<string, unknown>>,
): "ok" | GrpcError | undefined => {
  const status = headers["grpc-status"];
  if (status === undefined) return undefined;
  if (status === "0") return "ok";
  const code = codeNames.get(Number(status));
  if (code === undefined) return new GrpcError("unknown", "the server sent an invalid grpc-status");
  const encoded = headers["grpc-status-details-bin"];
  const found = ifWellFormed(() => statusMessage.decode(Uint8Array.fromBase64(String(encoded))));
  return new GrpcError(code, found?.message ?? decodeText(headers["grpc-message"]), {
    details: found?.details ?? [],
  });
};

const codeNames = new Map(
  Object.entries(grpcCodes).map(([name, code]) => [code as number, name as GrpcCode]),
);

const decodeText = (encoded: unknown) => {
  if (typeof encoded !== "string") return "";
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
};

/** Returns the code for an HTTP status other than 200, which a proxy sends (grpc/doc/http-grpc-status-mapping.md). */
export const grpcCodeOfHttpStatus = (status: number): GrpcCode =>
  httpCodes.get(status) ?? "unknown";

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
