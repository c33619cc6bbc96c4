import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { createGunzip } from "./gunzip.ts";

const mebibyte = 1024 * 1024;
const text = gzipSync("hello");

it("decompresses gzip, and distinguishes malformed from too large", async () => {
  const gunzip = createGunzip({ bytesMax: 100, waitingBytesMax: 1000 });
  expect(String(await gunzip(text))).toBe("hello");
  await expect(gunzip(Buffer.from("plain"))).rejects.toMatchObject({ code: "invalid_argument" });
  await expect(gunzip(gzipSync(Buffer.alloc(101)))).rejects.toMatchObject({
    code: "resource_exhausted",
  });
  expect(String(await gunzip(text))).toBe("hello");
});

it("rejects at once when too many bytes wait", async () => {
  const gunzip = createGunzip({ bytesMax: 100, waitingBytesMax: 2 * text.length });
  const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => gunzip(text)));
  expect(outcomes.map(({ status }) => status)).toEqual([...Array(4).fill("fulfilled"), "rejected"]);
  expect(outcomes[4]).toMatchObject({ reason: { code: "unavailable" } });
});

it("G1: decompresses two of many small bombs at a time, so that the last call ends last", async () => {
  const gunzip = createGunzip({ bytesMax: mebibyte, waitingBytesMax: mebibyte });
  const bomb = gzipSync(Buffer.alloc(mebibyte));
  let ended = 0;
  const bombs = Array.from({ length: 20 }, async () => {
    const { length } = await gunzip(bomb);
    ended += 1;
    return length;
  });
  await gunzip(text);
  expect(ended).toBeGreaterThanOrEqual(19);
  expect(await Promise.all(bombs)).toEqual(Array(20).fill(mebibyte));
});
