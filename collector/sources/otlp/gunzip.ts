import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { GrpcError } from "#proto/grpc-status.ts";
import { tooLarge, tooMuch } from "./refusals.ts";

/** Decompresses gzip. Throws `GrpcError` if the bytes are not gzip, their output is too large, or too many calls wait. */
export type Gunzip = (compressed: Uint8Array) => Promise<Buffer>;

/** Limits of a `Gunzip`. */
interface GunzipLimits {
  /** The limit of each output. */
  bytesMax: number;
  /** The limit of all waiting inputs together. */
  waitingBytesMax: number;
}

/** zlib interleaves concurrent calls: many at once would fill memory with almost complete outputs. */
const concurrentMax = 2;

const inflate = promisify(gunzip);

/** Creates a `Gunzip` that runs at most two calls at a time. */
export const createGunzip = ({ bytesMax, waitingBytesMax }: GunzipLimits): Gunzip => {
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

  return async (compressed) => {
    await acquireSlot(compressed.length);
    try {
      return await inflate(compressed, { maxOutputLength: bytesMax });
    } catch (cause) {
      const isTooLarge =
        cause instanceof Error && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE";
      throw isTooLarge
        ? tooLarge()
        : new GrpcError("invalid_argument", "the request is not gzip", { cause });
    } finally {
      releaseSlot();
    }
  };
};
