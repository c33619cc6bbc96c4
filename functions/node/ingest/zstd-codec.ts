import { hash } from "node:crypto";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { freeBytes } from "../../../kit/free-bytes.ts";
import type { BlockCodec } from "../../store/ingest/block-codec.ts";

/** The result with `info`, which @types/node leaves out. */
interface Inflated {
  buffer: Buffer<ArrayBuffer>;
  engine: { bytesWritten: number };
}

/** With a checksum, so that damage is no other data. */
const params = { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 };

/** The codec of blocks. At once, not in the thread pool: handing a block over costs as much as the work itself. */
export const zstdCodec: BlockCodec = {
  // In chunks of the default size, which come from Node's pool: one large enough for the whole is garbage that costs half as much again.
  compress: (raw) => zstdCompressSync(raw, { params }),
  decompress(data, rawBytes) {
    try {
      // With room for one byte more than allowed, the whole fits one chunk.
      const options = { maxOutputLength: Math.max(1, rawBytes), chunkSize: Math.max(64, rawBytes + 1), info: true };
      const { buffer, engine } = zstdDecompressSync(data, options) as unknown as Inflated;
      // Node ignores what follows the frame.
      if (buffer.length !== rawBytes || engine.bytesWritten !== data.length) return null;
      return new Uint8Array(buffer.buffer, buffer.byteOffset, rawBytes);
    } catch {
      return null;
    }
  },
  free(decompressed) {
    // A smaller one is a part of Node's pool.
    if (decompressed.buffer.byteLength === decompressed.length + 1) freeBytes(decompressed, { whole: true });
  },
  digest: (raw) => hash("sha256", raw, "buffer"),
};
