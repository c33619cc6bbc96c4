import type { lookup } from "node:dns";
import { createServer, type RequestListener } from "node:http";
import { afterEach, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSendRequest } from "./send-request.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Starts a receiver on loopback that answers as told, and counts its requests. */
const startReceiver = async (answer: RequestListener) => {
  const seen = { requests: 0 };
  const server = createServer((request, response) => {
    seen.requests += 1;
    answer(request, response);
  });
  const port = await listenOnLoopback(server);
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, port };
};

/** A name server that leads every name to these addresses. */
const resolvesTo = (...addresses: string[]) =>
  ((_name: string, _options: object, callback: (error: null, found: object[]) => void) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    )) as unknown as typeof lookup;

const clock = { ...systemClock, now: createTestClock().now };
const send = (
  url: string,
  { allowPrivate = true, resolve = resolvesTo("127.0.0.1"), msMax = 5000 } = {},
) => createSendRequest({ clock, msMax, resolve })({ url, allowPrivate, headers: {}, body: "{}" });
const failed = (reason: string, more: object = {}) => ({
  status: "failed",
  reason,
  isFinal: false,
  afterMs: null,
  ...more,
});
const refused = failed("the receiver's address is not allowed");

it.each<[number, Record<string, string>, object]>([
  [200, {}, { status: "delivered" }],
  [204, {}, { status: "delivered" }],
  [302, { location: "/elsewhere" }, failed("HTTP 302: redirects are not followed")],
  [307, { location: "/elsewhere" }, failed("HTTP 307: redirects are not followed")],
  [400, {}, failed("HTTP 400")],
  [410, {}, failed("HTTP 410: the receiver is gone", { isFinal: true })],
  [429, { "retry-after": "30" }, failed("HTTP 429", { afterMs: 30_000 })],
  [503, { "retry-after": "999999" }, failed("HTTP 503", { afterMs: 3_600_000 })],
  [
    503,
    { "retry-after": new Date(clock.now() + 7000).toUTCString() },
    failed("HTTP 503", { afterMs: 7000 }),
  ],
])("takes %i for what it is, and sends no second request", async (status, headers, outcome) => {
  const { seen, port } = await startReceiver((_, response) =>
    response.writeHead(status, headers).end(),
  );
  expect(await send(`http://receiver.test:${port}/hook`)).toEqual(outcome);
  expect(seen.requests).toBe(1);
});

it("waits no longer than it may for a receiver that accepts and is silent", async () => {
  const { port } = await startReceiver(() => undefined);
  expect(await send(`http://receiver.test:${port}/`, { msMax: 50 })).toEqual(
    failed("no response in time"),
  );
});

it("needs no end of the response", async () => {
  const { port } = await startReceiver((_, response) => response.writeHead(200).write("and on"));
  expect(await send(`http://receiver.test:${port}/`)).toEqual({ status: "delivered" });
});

it("says by its code why there was no connection", async () => {
  const { port } = await startReceiver(() => undefined);
  for (const close of closers.splice(0)) close();
  expect(await send(`http://receiver.test:${port}/`)).toEqual(failed("no response: ECONNREFUSED"));
});

it.each([
  "127.0.0.1",
  "10.1.2.3",
  "192.168.0.7",
  "169.254.169.254",
  "100.64.0.1",
  "0.0.0.0",
  "::1",
  "fe80::1",
  "fd00::1",
  "::ffff:127.0.0.1",
  "64:ff9b::7f00:1",
])(
  "reaches %s only if the receiver allows private addresses, as a name and as an address",
  async (address) => {
    const { seen, port } = await startReceiver((_, response) => response.end());
    const host = address.includes(":") ? `[${address}]` : address;
    expect(
      await send(`https://receiver.test:${port}/`, {
        allowPrivate: false,
        resolve: resolvesTo(address),
      }),
    ).toEqual(refused);
    expect(await send(`https://${host}:${port}/`, { allowPrivate: false })).toEqual(refused);
    expect(seen.requests).toBe(0);
  },
);

it("sends nothing in the clear to a public address", async () => {
  expect(await send("http://receiver.test/", { resolve: resolvesTo("203.0.114.9") })).toEqual(
    refused,
  );
  expect(await send("http://203.0.114.9/")).toEqual(refused);
});

it("goes to the allowed addresses of a name, and to no other", async () => {
  const { seen, port } = await startReceiver((_, response) => response.end());
  const resolve = resolvesTo("203.0.114.9", "127.0.0.1");
  expect(await send(`http://receiver.test:${port}/`, { resolve })).toEqual({
    status: "delivered",
  });
  expect(seen.requests).toBe(1);
});
