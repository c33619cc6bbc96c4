import { expect, it } from "vitest";
import { zstdCodec } from "./zstd-codec.ts";

it("frees what it decompressed, of small blocks too, unless it keeps them in Node's pool", () => {
  for (const bytes of [1, 10_000, 100_000]) {
    const raw = new Uint8Array(bytes).fill(7);
    const compressed = zstdCodec.compress(raw);
    const decompressed = zstdCodec.decompress(compressed, bytes);
    expect(decompressed).toEqual(raw);
    zstdCodec.free(decompressed ?? raw);
    expect(decompressed?.length).toBe(0);
  }
  const kept = zstdCodec.decompress(zstdCodec.compress(new Uint8Array(10)), 10, true);
  zstdCodec.free(kept ?? new Uint8Array());
  expect(kept?.length).toBe(10);
});
