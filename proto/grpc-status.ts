/**
 * The status of a gRPC call (grpc/doc/PROTOCOL-HTTP2.md, "Responses"; google/rpc/status.proto), for programs that speak gRPC without a
 * library, and without the descriptors of its messages, which would take a seventh of the collector's start.
 */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { decodeText, eachField, readWire, wireTag } from "./wire.ts";

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
    const info = this.#find("ErrorInfo");
    return info === undefined ? null : readReason(info);
  }

  /** Returns the whole seconds of `google.rpc.RetryInfo`, after which to try again; 0 without one. */
  retryAfterSeconds(): number {
    const info = this.#find("RetryInfo");
    return info === undefined ? 0 : readRetryDelay(info);
  }

  #find(type: string): Uint8Array | undefined {
    return this.details.find(({ typeUrl }) => typeUrl.endsWith(`/google.rpc.${type}`))?.value;
  }
}

const field = (number: number) => wireTag(number, WireType.LengthDelimited);
const varintField = (number: number) => wireTag(number, WireType.Varint);

/** Makes a `google.rpc.RetryInfo`. */
export const retryInfo = (seconds: number): GrpcDetail => ({
  typeUrl: "type.googleapis.com/google.rpc.RetryInfo",
  value: new BinaryWriter()
    .uint32(field(1))
    .fork()
    .uint32(varintField(1))
    .int64(seconds)
    .join()
    .finish(),
});

/** Encodes a `google.rpc.Status`. */
export const encodeGrpcStatus = (
  code: GrpcCode,
  message: string,
  details: readonly GrpcDetail[] = [],
): Uint8Array => {
  const writer = new BinaryWriter()
    .uint32(varintField(1))
    .int32(grpcCodes[code])
    .uint32(field(2))
    .string(message);
  for (const { typeUrl, value } of details)
    writer
      .uint32(field(3))
      .fork()
      .uint32(field(1))
      .string(typeUrl)
      .uint32(field(2))
      .bytes(value)
      .join();
  return writer.finish();
};

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
  const details = headers["grpc-status-details-bin"];
  const found = typeof details === "string" ? decodeStatus(details) : undefined;
  return new GrpcError(code, found?.message ?? decodeMessage(headers["grpc-message"]), {
    details: found?.details ?? [],
  });
};

const codeNames = new Map(
  Object.entries(grpcCodes).map(([name, code]) => [code as number, name as GrpcCode]),
);

const decodeStatus = (base64: string): { message: string; details: GrpcDetail[] } | undefined => {
  try {
    const bytes = Uint8Array.fromBase64(base64);
    return readWire(bytes, (reader) => {
      const status = { message: "", details: [] as GrpcDetail[] };
      eachField(reader, bytes.length, (tag, end) => {
        if (tag === field(2)) status.message = decodeText(bytes.subarray(reader.pos, end));
        if (tag !== field(3)) return;
        const detail = { typeUrl: "", value: new Uint8Array() };
        eachField(reader, end, (inner, innerEnd) => {
          if (inner === field(1)) detail.typeUrl = decodeText(bytes.subarray(reader.pos, innerEnd));
          else if (inner === field(2)) detail.value = bytes.slice(reader.pos, innerEnd);
        });
        status.details.push(detail);
      });
      return status;
    });
  } catch {
    return undefined;
  }
};

const readReason = (info: Uint8Array) => {
  try {
    return readWire(info, (reader) => {
      let reason: string | null = null;
      eachField(reader, info.length, (tag, end) => {
        if (tag === field(1)) reason = decodeText(info.subarray(reader.pos, end));
      });
      return reason;
    });
  } catch {
    return null;
  }
};

const readRetryDelay = (info: Uint8Array) => {
  try {
    return readWire(info, (reader) => {
      let seconds = 0;
      eachField(reader, info.length, (tag, end) => {
        if (tag !== field(1)) return;
        eachField(reader, end, (inner) => {
          if (inner === varintField(1)) seconds = Math.max(0, Number(reader.int64()));
        });
      });
      return seconds;
    });
  } catch {
    return 0;
  }
};

const decodeMessage = (encoded: unknown) => {
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
