import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { compressionGzip } from "@connectrpc/connect-node";
import { toConnectError } from "#functions/ingest/connect-error.ts";
import { Problem } from "#functions/problems.ts";
import { errorCode } from "#kit/describe-error.ts";

const inflate = promisify(gunzip);

/** The smallest chunk that is not a part of Node's pool. */
const inflateChunkBytes = 64 * 1024;

/** zlib interleaves concurrent calls: many at once would fill memory with almost complete outputs. */
const inflatedAtOnceMax = 2;

/**
 * Creates gzip with limited output (G1), whose errors have a reason. Inflates into one chunk with room for one byte more than the trailer's length
 * (RFC 1952): zlib returns to the event loop for each chunk, and copies several.
 */
export const createLimitedGzip = (): typeof compressionGzip => {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    ...compressionGzip,
    decompress: async (bytes, readMaxBytes) => {
      if (bytes.length === 0) return new Uint8Array();
      if (running < inflatedAtOnceMax) running += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        const length = new DataView(
          bytes.buffer,
          bytes.byteOffset + Math.max(0, bytes.length - 4),
        ).getUint32(0, true);
        const chunkSize = Math.max(inflateChunkBytes, Math.min(length, readMaxBytes) + 1);
        return await inflate(bytes, { maxOutputLength: readMaxBytes, chunkSize });
      } catch (cause) {
        const tooLarge = errorCode(cause) === "ERR_BUFFER_TOO_LARGE";
        throw toConnectError(
          new Problem(tooLarge ? "frame_too_large" : "frame_invalid", { cause }),
        );
      } finally {
        const next = waiting.shift();
        if (next === undefined) running -= 1;
        else next();
      }
    },
  };
};
