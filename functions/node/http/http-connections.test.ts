import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { type Listener, listenHttp } from "./http-listener.ts";

const connectionsMax = 3;
let listener: Listener | undefined;
afterEach(async () => {
  await listener?.close(0);
});

const listen = async () => {
  let requests = 0;
  const app = {
    fetch: async (request: Request) => {
      requests++;
      if (request.method === "POST") await request.text();
      else await sleep(20);
      return new Response("fine");
    },
  };
  listener = await listenHttp(app, { port: 0, host: "127.0.0.1", connectionsMax });
  return { port: listener.port, requests: () => requests };
};

/** A connection that has sent some bytes; `text` resolves with the answers once it has ended. */
const open = async (port: number, bytes: string) => {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  await once(socket, "connect");
  socket.write(bytes);
  return { socket, text: once(socket, "close").then(() => text) };
};

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const answersIn = (text: string) => text.split("HTTP/1.1 200").length - 1;

it("N2: end after the first answer when they pipeline, and at once with many requests", async () => {
  const { port, requests } = await listen();
  const few = await open(port, get.repeat(3));
  expect(answersIn(await few.text)).toBe(1);
  let parsed = 0;
  const count = () => void parsed++;
  subscribe("http.server.request.start", count);
  const many = await open(port, get.repeat(1_500));
  expect(answersIn(await many.text)).toBe(0);
  unsubscribe("http.server.request.start", count);
  expect(requests()).toBe(2);
  expect(parsed).toBeLessThan(200);
});

it("serve any number of requests one after another", async () => {
  const { port } = await listen();
  const { socket, text } = await open(port, get);
  for (let request = 1; request < 5; request++) {
    await once(socket, "data");
    socket.write(get);
  }
  await once(socket, "data");
  socket.end();
  expect(answersIn(await text)).toBe(5);
});

it("N2: end with a body in tiny chunks, and accept one in small chunks", async () => {
  const { port } = await listen();
  const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const tiny = await open(port, `${head}${"1\r\na\r\n".repeat(10_000)}`);
  expect(answersIn(await tiny.text)).toBe(0);
  const small = await open(port, `${head}${`40\r\n${"a".repeat(64)}\r\n`.repeat(2_000)}0\r\n\r\n`);
  await once(small.socket, "data");
  small.socket.end();
  expect(answersIn(await small.text)).toBe(1);
});

it("N2: end the oldest that waits for its client when too many are open", async () => {
  const { port } = await listen();
  const silent = await open(port, "");
  const headers = await open(port, "GET / HTTP/1.1\r\nX-A: a");
  const body = await open(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  for (const stalled of [silent, headers, body]) {
    expect(
      await (await fetch(`http://127.0.0.1:${port}/`, { headers: { Connection: "close" } })).text(),
    ).toBe("fine");
    expect(await stalled.text).toBe("");
    await open(port, "");
  }
});
