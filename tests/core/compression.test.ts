import { type IncomingMessage, get as requestOf } from "node:http";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { expect, it } from "vitest";
import { useTestWeb } from "../support/web.ts";

/* The bytes of 200 hosts on the wire to a browser. */

const web = await useTestWeb();
await web.core.seedFleet(200);
const { header: Cookie } = await web.sessionOf("auditor");

const get = async (headers: Record<string, string>, filter = "") => {
  const url = `${web.origin}/api/core/collector/health?limit=200${filter}`;
  const response = await new Promise<IncomingMessage>((resolve) =>
    requestOf(url, { headers: { Cookie, ...headers } }, resolve),
  );
  return { status: response.statusCode, given: response.headers, bytes: await buffer(response) };
};

it.each([
  ["zstd", zstdDecompressSync],
  ["br", brotliDecompressSync],
  ["gzip", gunzipSync],
])("are at most 40 KB with %s", async (coding, decompress) => {
  const { given, bytes } = await get({ "Accept-Encoding": coding });
  expect(given["content-encoding"]).toBe(coding);
  expect(bytes.length).toBeLessThanOrEqual(40_000);
  const text = decompress(bytes).toString();
  expect([text.length > 250_000, JSON.parse(text).items.length]).toEqual([true, 200]);
});

it("are none while nothing has changed, but the time", async () => {
  // The evidence of others counts seconds.
  const healthy = (tag: string) => get({ "If-None-Match": tag }, "&state=healthy");
  const tag = (await healthy("")).given.etag ?? "";
  await web.clock.advance(1);
  const { status, given, bytes } = await healthy(tag);
  const time = new Date(web.clock.now()).toISOString();
  expect([status, given["x-generated-at"], bytes.length]).toEqual([304, time, 0]);
  // One host becomes stale.
  await web.clock.advance(30_000);
  expect((await healthy(tag)).status).toBe(200);
});
