import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createCompressor } from "./compressor.ts";

it.each([
  ["gzip", gunzipSync],
  ["zstd", zstdDecompressSync],
] as const)(
  "compresses one message after the other, each on its own, however well it compresses, by %s",
  async (format, decompress) => {
    const compress = createCompressor(format);
    const entropy = createSeededEntropy(1);
    const line = Buffer.from("2026-11-20T12:00:00.000Z INFO order 7 was paid\n");
    const messages = [
      line,
      Buffer.alloc(4_000_000, line),
      entropy.bytes(300_000),
      new Uint8Array(),
      Buffer.concat([Buffer.alloc(65_536, line), entropy.bytes(65_536)]),
      line,
    ];
    const all: string[] = [];
    for (const message of messages) {
      const taken = Uint8Array.from(message);
      const compressed = Buffer.concat(await compress(taken));
      expect(taken).toHaveLength(0);
      expect(decompress(compressed).equals(message)).toBe(true);
      all.push(compressed.toString("hex"));
    }
    // Nothing of the messages before is in the last one.
    expect(all.at(-1)).toBe(all[0]);
  },
);
