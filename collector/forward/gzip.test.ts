import { gunzipSync, gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import { createCompressor } from "./gzip.ts";

it("compresses one message after the other, each as a complete gzip file, however well it compresses", async () => {
  const compress = createCompressor();
  const entropy = createSeededEntropy(1);
  const line = Buffer.from("2026-11-20T12:00:00.000Z INFO order 7 was paid\n");
  for (const message of [
    line,
    Buffer.alloc(4_000_000, line),
    entropy.bytes(300_000),
    new Uint8Array(),
    Buffer.concat([Buffer.alloc(65_536, line), entropy.bytes(65_536)]),
    line,
  ]) {
    const taken = Uint8Array.from(message);
    const compressed = Buffer.concat(await compress(taken));
    expect(taken).toHaveLength(0);
    expect(gunzipSync(compressed).equals(message)).toBe(true);
    // Nothing of the messages before is in it.
    expect(gzipSync(message, { level: 1 }).equals(compressed)).toBe(true);
  }
});
