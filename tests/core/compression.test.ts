import { type IncomingMessage, get as requestOf } from "node:http";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApp } from "../../functions/app.ts";
import { httpPeerOf, listenHttp } from "../../functions/node/http/http-listener.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createWebApp } from "../../ui/bff/app.ts";
import { startTestWeb, type TestWeb } from "../support/web.ts";

/* The bytes of the fleet's page on the wire: from core to a program, and from core through web to a browser. */

const path = "/collector/health?limit=200";
let web: TestWeb;
const closers: (() => Promise<void>)[] = [];
/** The codings of core's answers to web. */
const toWeb: (string | null)[] = [];
let urls: Record<"core" | "web", string>;
beforeAll(async () => {
  web = await startTestWeb();
  await seedFleet(web.core.db, { count: 200, now: new Date(web.clock.now()) });
  const listen = async (app: Parameters<typeof listenHttp>[0]) => {
    const { port, close } = await listenHttp(app, { port: 0, host: "127.0.0.1" });
    closers.push(() => close(0));
    return `http://127.0.0.1:${port}`;
  };
  const core = await listen(createApp(web.core.core, { peerOf: httpPeerOf }));
  const overWire: typeof web.web.fetch = async (url, init) => {
    const answer = await fetch(url.replace("http://core.test", core), init);
    toWeb.push(answer.headers.get("content-encoding"));
    return answer;
  };
  const origin = await listen(createWebApp({ ...web.web, fetch: overWire }, { remoteAddressOf: () => "192.0.2.7" }));
  urls = { core: `${core}/v1${path}`, web: `${origin}/api/core${path}` };
});
afterAll(async () => {
  for (const close of closers) await close();
  await web.close();
});

const get = async (from: "core" | "web", more: Record<string, string>, filter = "") => {
  const headers =
    from === "core"
      ? { Authorization: `Bearer ${await web.core.bridgeToken("auditor")}` }
      : { Cookie: (await web.sessionOf("auditor")).header };
  const response = await new Promise<IncomingMessage>((resolve) =>
    requestOf(`${urls[from]}${filter}`, { headers: { ...headers, ...more } }, resolve),
  );
  return { response, bytes: await buffer(response) };
};

describe.each(["core", "web"] as const)("200 hosts from %s", (from) => {
  it.each([
    ["zstd", zstdDecompressSync],
    ["br", brotliDecompressSync],
    ["gzip", gunzipSync],
  ] as const)("take at most 40 KB with %s, compressed once", async (coding, decompress) => {
    const { response, bytes } = await get(from, { "Accept-Encoding": coding });
    expect([response.statusCode, response.headers["content-encoding"]]).toEqual([200, coding]);
    expect(bytes.length).toBeLessThanOrEqual(40_000);
    const text = decompress(bytes).toString();
    expect(text.length).toBeGreaterThan(250_000);
    expect(JSON.parse(text).items).toHaveLength(200);
    expect(toWeb.filter(Boolean)).toEqual([]);
  });

  it("take no bytes while nothing has changed, but the time", async () => {
    // The evidence of others counts seconds.
    const getHealthy = (headers: Record<string, string>) => get(from, headers, "&state=healthy");
    const first = await getHealthy({});
    expect(JSON.parse(first.bytes.toString()).items.length).toBeGreaterThan(50);
    await web.clock.advance(1);
    const asked = { "If-None-Match": first.response.headers.etag ?? "" };
    const { response, bytes } = await getHealthy(asked);
    const generatedAt = new Date(web.clock.now()).toISOString();
    expect([response.statusCode, response.headers["x-generated-at"], bytes.length]).toEqual([304, generatedAt, 0]);
    // One host becomes stale.
    await web.clock.advance(30_000);
    const changed = await getHealthy(asked);
    expect([changed.response.statusCode, changed.response.headers.etag === asked["If-None-Match"]]).toEqual([
      200,
      false,
    ]);
  });
});
