/* Faults that are planted in callbacks behind each listener of the programs: each ends its own request alone. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { EventEmitter } from "node:events";
import { request as httpRequest } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { drainOnEscape } from "#kit/contain-failures.ts";
import { managementPath, startListeners } from "../support/listeners.ts";

const { ports, enrolled, statusSocket, failures, log } = await startListeners();

/** How a callback throws: at once, or by what it starts. */
const rethrow = (error: Error): never => {
  throw error;
};
const ways: Record<string, (error: Error) => unknown> = {
  "at once": rethrow,
  "in a tick": (error) => process.nextTick(rethrow, error),
  "in a microtask": (error) => queueMicrotask(() => rethrow(error)),
  "in an immediate": (error) => setImmediate(rethrow, error),
  "in a timer": (error) => setTimeout(rethrow, 1, error),
  "in a promise": (error) => Promise.reject(error),
};
/** Where a callback may be: a diagnostics channel of Node, the member of its message, and an event of that. */
const socketClose = "net.server.socket socket close";
const http1 = [
  ...["request data", "request end", "request close", "response finish", "response close"].map(
    (event) => `http.server.request.start ${event}`,
  ),
  socketClose,
];
const http2 = ["data", "end", "close"].map(
  (event) => `http2.server.stream.created stream ${event}`,
);

const events = ["uncaughtException", "unhandledRejection"];
const listenersOfVitest = events.map((event) => process.rawListeners(event));
const over = Promise.withResolvers<void>();
beforeAll(() => {
  // Vitest would take it for a failure of the test.
  for (const event of events) process.removeAllListeners(event);
  void drainOnEscape(log, () => over.promise);
});
afterAll(() => {
  over.resolve();
  for (const [index, event] of events.entries())
    for (const listener of listenersOfVitest[index] ?? []) process.on(event, listener);
});

/** Returns the status of the response, or `none`, once the exchange has closed. */
const ended = (sent: EventEmitter) =>
  new Promise<string>((resolve) => {
    let answer = "none";
    sent.on("error", () => undefined).once("close", () => resolve(answer));
    sent.on("response", (head) => {
      answer = String(head.statusCode ?? head[":status"]);
      (head.resume?.() ?? Object(sent).resume()).on("error", () => undefined);
    });
  });
const post =
  (port: number, path: string, request: typeof httpsRequest = httpRequest) =>
  () => {
    const to = { host: "localhost", port, path, method: "POST", agent: false, ...enrolled };
    const sent = request({ ...to, headers: { "content-type": "application/json" } });
    sent.end("{}");
    return ended(sent);
  };
const postStream = (url: string, fields: Record<string, string>) => {
  let session: ClientHttp2Session | undefined;
  return () => {
    // Once: a fault must not end the connection. Before its first request it would be idle for too long.
    session ??= connectHttp2(url, enrolled).on("error", () => undefined);
    const sent = session.request({ ":method": "POST", ...fields });
    sent.end(Buffer.alloc(5));
    return ended(sent);
  };
};
const askStatus = () => ended(connect(statusSocket).resume());
const ingestUrl = `https://localhost:${ports.ingest}`;
const otlpUrl = `http://127.0.0.1:${ports.otlpGrpc}`;
const submitCall = "/svc.ingest.v1.IngestService/Submit";
const logsCall = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const grpc = { "content-type": "application/grpc" };
const heartbeat = { ":path": managementPath, "content-length": "5" };

it.each<[string, () => Promise<string>, string[]]>([
  ["core", post(ports.core, "/healthz"), http1],
  ["metrics", post(ports.metrics, "/metrics"), http1],
  ["ingest by HTTP/1.1", post(ports.ingest, "/", httpsRequest), http1],
  ["ingest", postStream(ingestUrl, { ...grpc, ":path": submitCall }), http2],
  ["management", postStream(ingestUrl, heartbeat), http2],
  ["OTLP by HTTP", post(ports.otlpHttp, "/v1/logs"), http1],
  ["OTLP by gRPC", postStream(otlpUrl, { ...grpc, ":path": logsCall }), http2],
  ["the status", askStatus, [socketClose]],
])(
  "W1: a callback that throws ends its request alone, with one report, in each layer of %s",

  async (name, send, layers) => {
    const usual = await send();
    for (const layer of layers)
      for (const [way, act] of Object.entries(ways)) {
        const error = new Error(`${name} ${layer} ${way}`);
        const [channel = "", member = "", event = ""] = layer.split(" ");
        const plant = (message: unknown) => {
          unsubscribe(channel, plant);
          (message as Record<string, EventEmitter>)[member]?.once(event, () => void act(error));
        };
        subscribe(channel, plant);
        const before = failures().length;
        await send();
        const reported = () => failures().slice(before);
        await expect.poll(reported, { interval: 1 }).toEqual([String(error)]);
        expect(await send()).toBe(usual);
      }
  },
);
