import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { EventEmitter } from "node:events";
import { writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createOtlpSource } from "#collector/sources/otlp/otlp-source.ts";
import { serveStatus } from "#collector/status/status-socket.ts";
import { serveMetrics } from "#functions/export/serve-metrics.ts";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import { systemClock } from "#kit/clock.ts";
import { drainOnEscape } from "#kit/contain-failures.ts";
import { createTestLog } from "../fakes/log.ts";
import { startTestIngest, type TestClient } from "../support/ingest.ts";
import { newFolder } from "../support/new-folder.ts";
import { frameTypes, http2Frame } from "../support/raw-http2.ts";
import { startTestWeb } from "../support/web.ts";

/* What no client sends, by hand, to each listener of ours, and faults of ours behind each. */
const runs = 10 * Number(process.env.SVC_FUZZ_RUNS ?? 20);
const seed = Number(process.env.SVC_FUZZ_SEED ?? 20_261_128);
const reportFile = process.env.SVC_FUZZ_REPORT;
const answers: Record<string, Record<string, number>> = {};
const timeout = 120_000 + 50 * runs;

const log = createTestLog();
const failures = () =>
  log.lines.flatMap(({ level, fields }) => (level === "error" ? [String(Object(fields).err)] : []));
const onFailure = (err: unknown) => log.error({ err }, "a request failed");
const address = { host: "127.0.0.1", port: 0, onFailure };
const folder = newFolder();
const web = await startTestWeb();
const core = await listenHttp({ fetch: (request) => web.core.fetch(request) }, address);
const handshakes = { burst: 1e9, perSecond: 1e9, unfinishedMax: 1e3 };
const callers = { faultsBurst: 1e9, connectionsOfIdentityMax: 1e3, callsOfIdentityMax: 1e3 };
const managementPaths = new Set(["/v1/collector/heartbeat"]);
const ingest = await startTestIngest({
  needs: { log },
  listener: { handshakes, callers, managementPaths },
});
const metrics = await serveMetrics(
  address,
  { render: async () => ({ type: "text/plain", content: "" }) },
  onFailure,
);
const listen = { listen: "127.0.0.1:0" };
const otlp = createOtlpSource(
  { grpc: listen, http: listen },
  { append: async () => undefined as never, refused: () => undefined, clock: systemClock, log },
);
await otlp.start();
const status = await serveStatus(folder, () => ({}) as never, log);
const foreign = await startTestIngest();
const certificates: [string, TestClient | undefined][] = [
  ["no", undefined],
  ["a foreign", await foreign.client({})],
  ["an enrolled", await ingest.client({})],
];
const enrolled = { ca: ingest.caPem, ...certificates[2]?.[1] };
afterAll(async () => {
  metrics.close();
  await Promise.all(
    [core, otlp, status, ingest, foreign, web].map((each) =>
      "stop" in each ? each.stop() : each.close(0),
    ),
  );
  if (reportFile !== undefined) writeFileSync(`${reportFile}.listeners`, JSON.stringify(answers));
});

const portOf = (text = "") => Number(text.split(":").at(-1));
const plain = (port: number) => () => connect(port, "127.0.0.1");
const encrypted = (protocol: string) =>
  certificates.map(([name, certificate]): [string, () => Socket] => {
    const to = {
      port: ingest.port,
      host: "localhost",
      ca: ingest.caPem,
      ALPNProtocols: [protocol],
    };
    return [`ingest with ${name} certificate`, () => connectTls({ ...to, ...certificate })];
  });

const authority = fc.constantFrom(
  "x",
  "",
  "[x",
  "x:99999",
  "%2Ftmp%2Fs",
  "::1:8443",
  "[::1]:8443",
  "a b",
  "a@b",
  "\\",
);
const logs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const calls = [
  "/svc.ingest.v1.IngestService/Submit",
  "/svc.ingest.v1.IngestService/Forward",
  logs,
  "/v1/logs",
];
const others = [
  "/",
  "*",
  "//[x",
  "http://[x/",
  "http://x:99999/v1",
  "",
  "/%",
  "/../..",
  "\\",
  "/?[",
  "x",
  "/login",
];
const target = fc.constantFrom(
  ...calls,
  ...others,
  "/v1/collector/heartbeat",
  "/readyz",
  "/v1/operator/whoami",
);
/** The first more often than any other, so that some requests reach a handler. */
const mostly = (first: string, ...rest: string[]) =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(first) }, fc.constantFrom(first, ...rest));
const method = mostly(
  "POST",
  "GET",
  "HEAD",
  "OPTIONS",
  "PUT",
  "CONNECT",
  "TRACE",
  "PRI",
  "post",
  "",
  "G T",
);
const version = mostly("HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.1 x", "");
const header = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(
      fc.constant("content-type"),
      mostly("application/grpc", "application/json", "x"),
    ),
  },
  fc.tuple(fc.constant("host"), authority),
  fc.tuple(
    mostly("expect", "te", "connection", "upgrade", "content-length"),
    mostly("100-continue", "h2c", "5", "-1"),
  ),
);
const headers = fc.uniqueArray(header, { maxLength: 3, selector: ([name]) => name });
const body = mostly("\0\0\0\0\0", "", "{}", "\0\0\0\0\x02\xff\xff");

/** Sends all samples, eight at a time. */
const sendAll = async <Sample>(
  of: fc.Arbitrary<Sample>,
  numRuns: number,
  send: (sample: Sample) => Promise<string[]>,
  name: string,
) => {
  const samples = fc.sample(of, { seed, numRuns }).values();
  const counts: Record<string, number> = {};
  const sending = async () => {
    for (const sample of samples)
      for (const end of await send(sample)) counts[end] = (counts[end] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: 8 }, sending));
  answers[name] = counts;
  expect(failures()).toEqual([]);
};
/** Sends bytes on a connection, until `isOver` of what came back, or its end. */
const exchange = (
  socket: Socket,
  bytes: Uint8Array,
  isOver: (received: Buffer) => boolean,
): Promise<Buffer> =>
  new Promise((resolve) => {
    let received = Buffer.alloc(0);
    socket.on("error", () => undefined).once("close", () => resolve(received));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (isOver(received)) socket.destroy();
    });
    socket.write(bytes);
  });

it.each([
  ["web", plain(portOf(web.origin))] as const,
  ["core", plain(core.port)] as const,
  ["metrics", plain(metrics.port)] as const,
  ["OTLP by HTTP", plain(portOf(otlp.addresses.http))] as const,
  ...encrypted("http/1.1"),
])("W1: no start line or Host of HTTP/1 ends %s", { timeout }, (name, open) =>
  sendAll(
    fc.record({ method, target, version, headers, body }),
    runs,
    async (sent) => {
      const length = ["content-length", String(sent.body.length)] as const;
      const isSaid = sent.headers.some(([name]) => name === "content-length");
      const lines = [...sent.headers, ...(isSaid ? [] : [length])]
        .map(([key, value]) => `${key}: ${value}\r\n`)
        .join("");
      const text = `${sent.method} ${sent.target} ${sent.version}\r\n${lines}\r\n${sent.body}`;
      const socket = open();
      // A request that may be incomplete would wait for its rest.
      const received = exchange(socket, Buffer.from(text, "latin1"), (bytes) =>
        bytes.includes("HTTP"),
      );
      if (isSaid) socket.end();
      return [/HTTP\/1.1 (\d+)/.exec((await received).toString("latin1"))?.[1] ?? "none"];
    },
    `HTTP/1 to ${name}`,
  ),
);

const maybe = <Value>(name: string, value: fc.Arbitrary<Value>) =>
  fc.option(fc.tuple(fc.constant(name), value), { freq: 10 });
const pseudo = fc.tuple(
  maybe(":method", method),
  maybe(":scheme", mostly("https", "http", "")),
  maybe(":path", target),
  maybe(":authority", authority),
  fc.option(fc.tuple(mostly(":status", ":protocol", ":x", ":path"), mostly("200")), { freq: 1 }),
);
const literal = (text: string): Buffer =>
  Buffer.from(`${String.fromCharCode(text.length)}${text}`, "latin1");
/** Returns how the streams of a connection ended: with a frame that has END_STREAM, or a reset. */
const endsOf = (received: Buffer): string[] => {
  const ends: string[] = [];
  for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    const [type, flags = 0] = received.subarray(at + 3);
    if (type === frameTypes.reset) ends.push("reset");
    else if ((type === frameTypes.headers || type === frameTypes.data) && flags & 1)
      ends.push("answered");
  }
  return ends;
};
const streams = fc.array(fc.record({ pseudo, headers, body }), { minLength: 8, maxLength: 8 });

it.each([["OTLP by gRPC", plain(portOf(otlp.addresses.grpc))] as const, ...encrypted("h2")])(
  "W1: no pseudo-header of HTTP/2 ends %s",
  { timeout },
  (name, open) =>
    sendAll(
      streams,
      runs / 8,
      async (sent) => {
        const frames = sent.flatMap(({ pseudo, headers, body }, index) => {
          const fields = [...pseudo.filter((each) => each !== null), ...headers];
          const block = Buffer.concat(
            fields.flatMap(([key, value]) => [Buffer.of(0), literal(key), literal(value)]),
          );
          const data = Buffer.from(body, "latin1");
          return [
            http2Frame(frameTypes.headers, 4, 2 * index + 1, block),
            http2Frame(frameTypes.data, 1, 2 * index + 1, data),
          ];
        });
        const preface = [
          Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
          http2Frame(frameTypes.settings, 0, 0, Buffer.alloc(0)),
        ];
        return endsOf(
          await exchange(
            open(),
            Buffer.concat([...preface, ...frames]),
            (bytes) => endsOf(bytes).length >= sent.length,
          ),
        );
      },
      `HTTP/2 to ${name}`,
    ),
);

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
const http1 = [
  ...["request data", "request end", "request close", "response finish", "response close"].map(
    (each) => `http.server.request.start ${each}`,
  ),
  "net.server.socket socket close",
];
const http2 = ["data", "end", "close"].map(
  (event) => `http2.server.stream.created stream ${event}`,
);

describe("a callback that throws", () => {
  const events = ["uncaughtException", "unhandledRejection"];
  const own = events.map((event) => process.rawListeners(event));
  const over = Promise.withResolvers<void>();
  beforeAll(() => {
    // Vitest would take it for a failure of the test.
    for (const event of events) process.removeAllListeners(event);
    void drainOnEscape(log, () => over.promise);
  });
  afterAll(() => {
    over.resolve();
    for (const [index, event] of events.entries())
      for (const listener of own[index] ?? []) process.on(event, listener);
  });

  const ended = (exchange: EventEmitter) =>
    new Promise<string>((resolve) => {
      let answer = "none";
      exchange.on("error", () => undefined).once("close", () => resolve(answer));
      exchange.on("response", (head) => {
        answer = String(head.statusCode ?? head[":status"]);
        (head.resume?.() ?? Object(exchange).resume()).on("error", () => undefined);
      });
    });
  const post =
    (port: number, path: string, request: typeof httpsRequest = httpRequest) =>
    () => {
      const type = { "content-type": "application/json" };
      const sent = request({
        host: "localhost",
        port,
        path,
        method: "POST",
        agent: false,
        headers: type,
        ...enrolled,
      });
      sent.end("{}");
      return ended(sent);
    };
  const stream = (url: string, headers: Record<string, string>) => {
    let session: ClientHttp2Session | undefined;
    return () => {
      // Once: a fault must not end the connection. Before its first request it would be idle for too long.
      session ??= connectHttp2(url, enrolled).on("error", () => undefined);
      const sent = session.request({ ":method": "POST", ...headers });
      sent.end(Buffer.alloc(5));
      return ended(sent);
    };
  };
  const ask = () => ended(connect(join(folder, "status.sock")).resume());
  const url = `https://localhost:${ingest.port}`;
  const grpc = { "content-type": "application/grpc" };

  it.each<[string, () => Promise<string>, string[]]>([
    ["core", post(core.port, "/healthz"), http1],
    ["metrics", post(metrics.port, "/metrics"), http1],
    ["ingest by HTTP/1.1", post(ingest.port, "/", httpsRequest), http1],
    ["ingest", stream(url, { ...grpc, ":path": calls[0] ?? "" }), http2],
    [
      "management",
      stream(url, { ":path": "/v1/collector/heartbeat", "content-length": "5" }),
      http2,
    ],
    ["OTLP by HTTP", post(portOf(otlp.addresses.http), "/v1/logs"), http1],
    ["OTLP by gRPC", stream(`http://${otlp.addresses.grpc}`, { ...grpc, ":path": logs }), http2],
    ["the status", ask, ["net.server.socket socket close"]],
  ])(
    "W1: ends its request alone, with one report, in each layer of %s",
    { timeout },
    async (name, send, layers) => {
      const usual = await send();
      for (const layer of layers)
        for (const [way, act] of Object.entries(ways)) {
          const error = new Error(`${name} ${layer} ${way}`);
          const [channel = "", part = "", event = ""] = layer.split(" ");
          const plant = (message: unknown) => {
            unsubscribe(channel, plant);
            (message as Record<string, EventEmitter>)[part]?.once(event, () => void act(error));
          };
          subscribe(channel, plant);
          const before = failures().length;
          await send();
          await expect
            .poll(() => failures().slice(before), { interval: 1 })
            .toEqual([String(error)]);
          expect(await send()).toBe(usual);
        }
    },
  );
});
