import { createHash, hash } from "node:crypto";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { freeBytes } from "#kit/free-bytes.ts";

/** The result with `info`, which @types/node leaves out. */
interface Inflated {
  buffer: Buffer<ArrayBuffer>;
  engine: { bytesWritten: number };
}

/** With a checksum, which detects damage. */
const params = { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 };

/**
 * Returns the content length in the header of a zstd frame (RFC 8878, 3.1.1.1); undefined without one. So a frame with a wrong length is rejected
 * before memory is allocated for it.
 */
const statedBytes = (data: Uint8Array): number | undefined => {
  const descriptor = data[4] ?? 0;
  const isSingle = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const at = 5 + (isSingle ? 0 : 1) + dictionaryBytes;
  const size = [isSingle ? 1 : 0, 2, 4, 8][descriptor >>> 6] ?? 0;
  if (size === 0 || data.length < at + size) return undefined;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  if (size === 8) return Number(bytes.readBigUInt64LE(at));
  return bytes.readUIntLE(at, size) + (size === 2 ? 256 : 0);
};

/** A chunk of fewer bytes is a part of Node's pool, which only a collection of garbage frees. */
const ownBytesMin = Buffer.poolSize / 2;

/** Returns the bytes of a chunk that can be freed. It has room for one byte more than allowed: so the whole fits. */
const chunkBytesOf = (rawBytes: number) => Math.max(ownBytesMin, rawBytes + 1);

/** Frees a chunk for `rawBytes`, unless it is a part of Node's pool. */
const free = (bytes: Uint8Array, rawBytes: number): void => {
  if (bytes.buffer.byteLength === chunkBytesOf(rawBytes)) freeBytes(bytes, { whole: true });
};

/** The codec of blocks. Synchronous: passing a block to the thread pool costs as much as the work itself. */
export const zstdCodec: BlockCodec = {
  // In chunks of the default size, which come from Node's pool: one chunk for the whole would be garbage and cost half as much again.
  compress: (raw) => zstdCompressSync(raw, { params }),
  decompress(data, rawBytes, isJoined = false) {
    const stated = statedBytes(data) ?? rawBytes;
    if (stated > rawBytes || (stated < rawBytes && !isJoined)) return null;
    try {
      const options = {
        maxOutputLength: Math.max(1, rawBytes),
        chunkSize: isJoined ? Math.max(64, rawBytes + 1) : chunkBytesOf(rawBytes),
        info: true,
      };
      const { buffer, engine } = zstdDecompressSync(data, options) as unknown as Inflated;
      const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
      // Node ignores what follows the frame.
      if (buffer.length === rawBytes && engine.bytesWritten === data.length) return bytes;
      free(bytes, rawBytes);
      return null;
    } catch {
      return null;
    }
  },
  free: (decompressed) => free(decompressed, decompressed.length),
  digest(first = new Uint8Array(), ...others) {
    if (others.length === 0) return hash("sha256", first, "buffer");
    const digest = createHash("sha256").update(first);
    for (const part of others) digest.update(part);
    return digest.digest();
  },
};
