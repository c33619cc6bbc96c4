import { deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ContentEncoding, createDecompress, readContentEncodings } from "./decompress.ts";
import { decodeSnappy } from "./snappy.ts";

const mebibyte = 1024 * 1024;
const text = gzipSync("hello");

it("decompresses gzip, and distinguishes malformed from too large", async () => {
  const decompress = createDecompress({ bytesMax: 100, waitingBytesMax: 1000 });
  expect(String(await decompress(text, ["gzip"]))).toBe("hello");
  await expect(decompress(Buffer.from("plain"), ["gzip"])).rejects.toMatchObject({
    code: "invalid_argument",
  });
  await expect(decompress(gzipSync(Buffer.alloc(101)), ["gzip"])).rejects.toMatchObject({
    code: "resource_exhausted",
  });
  expect(String(await decompress(text, ["gzip"]))).toBe("hello");
});

it("rejects at once when too many bytes wait", async () => {
  const decompress = createDecompress({ bytesMax: 100, waitingBytesMax: 2 * text.length });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 5 }, () => decompress(text, ["gzip"])),
  );
  expect(outcomes.map(({ status }) => status)).toEqual([...Array(4).fill("fulfilled"), "rejected"]);
  expect(outcomes[4]).toMatchObject({ reason: { code: "unavailable" } });
});

it("G1: decompresses two of many small bombs at a time, so that the last call ends last", async () => {
  const decompress = createDecompress({ bytesMax: mebibyte, waitingBytesMax: mebibyte });
  const bomb = gzipSync(Buffer.alloc(mebibyte));
  let ended = 0;
  const bombs = Array.from({ length: 20 }, async () => {
    const { length } = await decompress(bomb, ["gzip"]);
    ended += 1;
    return length;
  });
  await decompress(text, ["gzip"]);
  expect(ended).toBeGreaterThanOrEqual(19);
  expect(await Promise.all(bombs)).toEqual(Array(20).fill(mebibyte));
});

/** "hello hello hello hello", as Google's library encodes it. */
const snappyBlock = Buffer.from("171468656c6c6f20420600", "hex");
const snappyFrames = Buffer.from(
  "ff060000734e61507059000f00008a1fb154171468656c6c6f20420600",
  "hex",
);
const hellos = "hello hello hello hello";

it.each<[string, ContentEncoding[], Uint8Array]>([
  ["zstd", ["zstd"], zstdCompressSync(hellos)],
  [
    "two frames of zstd",
    ["zstd"],
    Buffer.concat(["hello hello ", "hello hello"].map((half) => zstdCompressSync(half))),
  ],
  ["zlib", ["deflate"], deflateSync(hellos)],
  ["deflate without a header", ["deflate"], deflateRawSync(hellos)],
  ["zlib by its name", ["zlib"], deflateSync(hellos)],
  ["a block of Snappy", ["snappy"], snappyBlock],
  ["frames of Snappy", ["snappy"], snappyFrames],
  ["frames of Snappy by their name", ["x-snappy-framed"], snappyFrames],
  [
    "repeated encodings",
    ["deflate", "gzip", "zstd"],
    zstdCompressSync(gzipSync(deflateSync(hellos))),
  ],
])("decodes %s", async (_, encodings, bytes) => {
  const decompress = createDecompress({ bytesMax: 100, waitingBytesMax: 100 });
  expect(String(await decompress(bytes, encodings))).toBe(hellos);
});

describe("G1: a bomb", () => {
  const zeros = Buffer.alloc(50_000_000);
  const wide = zstdCompressSync(Buffer.alloc(40_000_000, "wide"), { params: { 101: 26 } });
  it.each<[string, ContentEncoding[], Uint8Array]>([
    ["of zstd", ["zstd"], zstdCompressSync(zeros)],
    ["of zstd with a window of 64 MiB", ["zstd"], wide],
    ["of deflate", ["deflate"], deflateRawSync(zeros)],
    ["of a Snappy block's length", ["snappy"], Buffer.of(0xff, 0xff, 0xff, 0x7f, 0)],
    [
      "of Snappy frames",
      ["snappy"],
      Buffer.concat([snappyFrames, ...Array(50_000).fill(snappyFrames)]),
    ],
    ["in its second encoding", ["zstd", "gzip"], gzipSync(zstdCompressSync(zeros))],
    ["in its first of two", ["zstd", "gzip"], gzipSync(zeros)],
  ])("%s is refused within its limit of memory", async (_, encodings, bytes) => {
    const decompress = createDecompress({ bytesMax: mebibyte, waitingBytesMax: mebibyte });
    const before = process.memoryUsage.rss();
    await expect(decompress(bytes, encodings)).rejects.toMatchObject({
      code: "resource_exhausted",
    });
    expect(process.memoryUsage.rss() - before).toBeLessThan(40 * mebibyte);
  });
});

it("decodes a random block of Snappy as written, and refuses a cut or damaged one", () => {
  const literal = fc.uint8Array({ minLength: 1, maxLength: 300 });
  const copy = fc.record({ offset: fc.nat(400), length: fc.integer({ min: 4, max: 64 }) });
  fc.assert(
    fc.property(literal, fc.array(fc.oneof(literal, copy)), (first, rest) => {
      const output: number[] = [];
      const block: number[] = [];
      for (const element of [first, ...rest])
        if (element instanceof Uint8Array) {
          block.push(0xf4, (element.length - 1) & 0xff, (element.length - 1) >> 8, ...element);
          output.push(...element);
        } else {
          const offset = Math.min(element.offset, output.length - 1) + 1;
          block.push(((element.length - 1) << 2) | 2, offset & 0xff, offset >> 8);
          for (let left = element.length; left > 0; left--)
            output.push(output.at(-offset) as number);
        }
      const head = [
        (output.length & 0x7f) | 0x80,
        ((output.length >> 7) & 0x7f) | 0x80,
        output.length >> 14,
      ];
      const bytes = Buffer.from([...head, ...block]);
      expect(decodeSnappy(bytes, mebibyte)).toEqual(Buffer.from(output));
      expect(() => decodeSnappy(bytes.subarray(0, -1), mebibyte)).toThrow();
    }),
  );
  const damaged = Buffer.from(snappyFrames);
  damaged[20] = 0x69;
  expect(() => decodeSnappy(damaged, mebibyte)).toThrow("a chunk is damaged");
  expect(() => decodeSnappy(Buffer.of(4, 0, 1, 1, 1), mebibyte)).toThrow("out of range");
});

it.each([
  [undefined, []],
  ["", []],
  ["identity", []],
  [" GZIP , identity,zstd", ["gzip", "zstd"]],
  ["br", undefined],
  ["gzip, br", undefined],
  ["constructor", undefined],
  ["gzip,gzip,gzip", ["gzip", "gzip", "gzip"]],
  ["gzip,gzip,gzip,gzip", undefined],
])("reads the encodings of %j", (list, encodings) => {
  expect(readContentEncodings(list)).toEqual(encodings);
});
