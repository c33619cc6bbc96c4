import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { OAuth2Client } from "arctic";
import { getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { listenOnLoopback } from "#scripts/ports.ts";
import { limitOutgoingRequests } from "./limit-outgoing-requests.ts";

const followed: string[] = [];
const closed = Promise.withResolvers<void>();
const server = createServer((request, response) => {
  followed.push(request.url ?? "");
  if (request.url === "/redirect") response.writeHead(307, { Location: "/elsewhere" }).end();
  else if (request.url === "/many")
    response
      .writeHead(200, { "Content-Encoding": "gzip" })
      .end(gzipSync(`{"id_token":"token","a":[${"{},".repeat(20_000)}{}]}`));
  else if (request.url === "/stall") response.once("close", () => closed.resolve());
  else response.writeHead(200, { "Content-Type": "application/json" }).end('{"id_token":"token"}');
});
let origin = "";
const { fetch } = globalThis;
const dispatcher = getGlobalDispatcher();
beforeAll(async () => {
  limitOutgoingRequests("http://core.example.test/v1", 200);
  const port = await listenOnLoopback(server);
  origin = `http://127.0.0.1:${port}`;
});
afterAll(() => {
  globalThis.fetch = fetch;
  setGlobalDispatcher(dispatcher);
  server.close();
  server.closeAllConnections();
});

/** arctic's code exchange, which takes neither a signal nor a timeout. */
const exchange = (path: string) =>
  new OAuth2Client("id", "secret", null).validateAuthorizationCode(origin + path, "code", null);

it("succeeds when its response is prompt", async () => {
  expect((await exchange("/token")).idToken()).toBe("token");
});

it("O3: fails on an answer of the provider with more values than any token, and accepts it of core", async () => {
  await expect(exchange("/many")).rejects.toThrow("Unexpected error response");
  globalThis.fetch = fetch;
  limitOutgoingRequests(`${origin}/v1`, 200);
  expect((await exchange("/many")).idToken()).toBe("token");
});

it("fails on a redirect, and sends nothing to its target", async () => {
  await expect(exchange("/redirect")).rejects.toThrow("Failed to send request");
  expect(followed).not.toContain("/elsewhere");
});

it("ends with its connection when the server stays silent", async () => {
  await expect(exchange("/stall")).rejects.toThrow("Failed to send request");
  await closed.promise;
});
