import { randomBytes } from "node:crypto";
import { type IncomingMessage, get as requestOf } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { listenHttp } from "./http-listener.ts";

const app = { fetch: () => new Response("fine") };
const get = async (host: string, port: number) => (await fetch(`http://${host}:${port}/`)).text();

it("answers on its configured address and on no other", async () => {
  const listener = await listenHttp(app, { port: 0, host: "127.0.0.1" });
  expect(await get("127.0.0.1", listener.port)).toBe("fine");
  await expect(get("127.0.0.2", listener.port)).rejects.toThrow();
  await listener.close(0);
});

it.each(["1.0", "1.1"])(
  "W1: serves requests of HTTP/%s whatever their Host is, or without one",
  async (version) => {
    const listener = await listenHttp(app, { port: 0, host: "127.0.0.1" });
    for (const host of [
      "",
      "Host:\r\n",
      "Host: [x\r\n",
      "Host: x:99999\r\n",
      "Host: ::1:8443\r\n",
      "Host: a b\r\n",
    ]) {
      const socket = connect(listener.port, "127.0.0.1");
      socket.write(`GET / HTTP/${version}\r\n${host}Connection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1.1 200 OK\r\n.*fine$/s);
    }
    await listener.close(0);
  },
);

it("closes as soon as its last response has ended, though the client keeps the connection", async () => {
  const responding = Promise.withResolvers<Response>();
  const asked = Promise.withResolvers<void>();
  const fetchSlowly = () => {
    asked.resolve();
    return responding.promise;
  };
  const listener = await listenHttp({ fetch: fetchSlowly }, { port: 0, host: "127.0.0.1" });
  const answer = get("127.0.0.1", listener.port);
  await asked.promise;
  const closing = listener.close(60_000).then(() => "closed");
  responding.resolve(new Response("late"));
  expect(await answer).toBe("late");
  const late = systemClock.sleep(10_000).then(() => "still open");
  expect(await Promise.race([closing, late])).toBe("closed");
});

it("answers on every interface without a configured address", async () => {
  const listener = await listenHttp(app, { port: 0, host: null });
  expect(await get("127.0.0.2", listener.port)).toBe("fine");
  await listener.close(0);
});

it("compresses a file as far as the client reads, in bounded memory, and until it disconnects", async () => {
  let sent = 0;
  let before = -1;
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      sent += 1;
      controller.enqueue(randomBytes(16_384));
    },
    cancel: () => {
      isCancelled = true;
    },
  });
  const csv = { fetch: () => new Response(body, { headers: { "Content-Type": "text/csv" } }) };
  const { port, close } = await listenHttp(csv, { port: 0, host: "127.0.0.1" });
  const options = { host: "127.0.0.1", port, headers: { "Accept-Encoding": "zstd" } };
  const response = await new Promise<IncomingMessage>((resolve) => requestOf(options, resolve));
  expect(response.headers["content-encoding"]).toBe("zstd");
  await expect
    .poll(() => {
      const previous = before;
      before = sent;
      return previous === sent;
    })
    .toBe(true);
  const ahead = sent;
  // The kernel's buffers of a loopback connection.
  expect(ahead * 16_384).toBeLessThan(24 * 1024 * 1024);
  response.on("data", () => sent > ahead + 1000 && response.destroy());
  await expect.poll(() => isCancelled).toBe(true);
  await close(0);
});
