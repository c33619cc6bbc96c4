import { promisify } from "node:util";
import { constants, gunzip, inflate, inflateRaw, zstdDecompress } from "node:zlib";
import { errorCode } from "#kit/describe-error.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import { tooLarge, tooMuch } from "./refusals.ts";
import { decodeSnappy } from "./snappy.ts";

/** Undoes one encoding, with an output of at most `bytesMax`. */
type Decode = (bytes: Uint8Array, bytesMax: number) => Uint8Array | Promise<Uint8Array>;

const unzip = promisify(gunzip);
const inflateZlib = promisify(inflate);
const inflateBare = promisify(inflateRaw);
const unzstd = promisify(zstdDecompress);

/** The largest window that the OpenTelemetry Collector's levels declare, 32 MiB; RFC 9659 asks senders for 8 MiB at most. */
const zstdOptions = { params: { [constants.ZSTD_d_windowLogMax]: 25 } };

/** RFC 9110 means zlib (8.4.1.2), but some senders omit its header (RFC 1950, 2.2). */
const decodeDeflate: Decode = (bytes, maxOutputLength) => {
  const [method = 0, flags = 0] = bytes;
  const isZlib = (method & 15) === 8 && (method * 256 + flags) % 31 === 0;
  return (isZlib ? inflateZlib : inflateBare)(bytes, { maxOutputLength });
};

/** The encodings of the OpenTelemetry Collector's senders. */
const decoders = {
  gzip: (bytes, maxOutputLength) => unzip(bytes, { maxOutputLength }),
  zstd: (bytes, maxOutputLength) => unzstd(bytes, { ...zstdOptions, maxOutputLength }),
  deflate: decodeDeflate,
  zlib: decodeDeflate,
  snappy: decodeSnappy,
  "x-snappy-framed": decodeSnappy,
} satisfies Record<string, Decode>;

/** An encoding of a body, by its name in HTTP and gRPC. */
export type ContentEncoding = keyof typeof decoders;

/** The encodings that `Decompress` undoes. */
export const contentEncodings = Object.keys(decoders) as readonly ContentEncoding[];

const encodingsMax = 3;

/** Reads a list of encodings, in the order in which they were applied (RFC 9110, 8.4). Returns undefined for an unknown one, or too many. */
export const readContentEncodings = (list = ""): readonly ContentEncoding[] | undefined => {
  const names = list
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
  const isKnown = (name: string): name is ContentEncoding => Object.hasOwn(decoders, name);
  return names.length <= encodingsMax && names.every(isKnown) ? names : undefined;
};

/** Undoes encodings. Throws `GrpcError` if the bytes do not have them, an output is too large, or too many calls wait. */
export type Decompress = (
  compressed: Uint8Array,
  encodings: readonly ContentEncoding[],
) => Promise<Uint8Array>;

/** Limits of a `Decompress`. */
interface DecompressLimits {
  /** The limit of the output of each encoding. */
  bytesMax: number;
  /** The limit of all waiting inputs together. */
  waitingBytesMax: number;
}

/** zlib interleaves concurrent calls: many at once would fill memory with almost complete outputs. */
const concurrentMax = 2;

/** Creates a `Decompress` that runs at most two calls at a time. */
export const createDecompress = ({ bytesMax, waitingBytesMax }: DecompressLimits): Decompress => {
  const waiting: (() => void)[] = [];
  let waitingBytes = 0;
  let running = 0;

  const acquireSlot = async (bytes: number): Promise<void> => {
    if (running < concurrentMax) {
      running += 1;
      return;
    }
    if (waitingBytes + bytes > waitingBytesMax) throw tooMuch();
    waitingBytes += bytes;
    await new Promise<void>((resolve) => waiting.push(resolve));
    waitingBytes -= bytes;
  };
  const releaseSlot = (): void => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return async (compressed, encodings) => {
    if (encodings.length === 0) return compressed;
    await acquireSlot(compressed.length);
    try {
      let bytes = compressed;
      for (const encoding of encodings.toReversed())
        bytes = await decodeOne(encoding, bytes, bytesMax);
      return bytes;
    } finally {
      releaseSlot();
    }
  };
};

/** What zlib and zstd report for an output, or a window, over the limit. */
const tooLargeCodes = ["ERR_BUFFER_TOO_LARGE", "ZSTD_error_frameParameter_windowTooLarge"];

const decodeOne = async (encoding: ContentEncoding, bytes: Uint8Array, bytesMax: number) => {
  try {
    return await decoders[encoding](bytes, bytesMax);
  } catch (cause) {
    if (cause instanceof GrpcError) throw cause;
    throw tooLargeCodes.includes(errorCode(cause) ?? "")
      ? tooLarge()
      : new GrpcError("invalid_argument", `the request is not ${encoding}`, { cause });
  }
};
