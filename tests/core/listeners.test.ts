/* Malformed requests, which no client sends, by hand to each listener of the programs. */
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { encodePem } from "#proto/pem.ts";
import { createTestCa, createTestKey, issueTestCertificate } from "#scripts/lab/ca/test-pki.ts";
import { frameTypes, http2Frame } from "../support/ingest/raw-http2.ts";
import { managementPath, startListeners } from "../support/listeners.ts";

const runs = 10 * Number(process.env.SVC_FUZZ_RUNS ?? 20);
const seed = Number(process.env.SVC_FUZZ_SEED ?? 20_261_128);
const reportFile = process.env.SVC_FUZZ_REPORT;
const timeout = 120_000 + 50 * runs;

const { ports, enrolled, agent, failures } = await startListeners();

/** How many requests to a listener ended in each way. */
const answers: Record<string, Record<string, number>> = {};
afterAll(() => {
  if (reportFile !== undefined) writeFileSync(`${reportFile}.listeners`, JSON.stringify(answers));
});

type Listener = [name: string, open: () => Socket];
const plain = (name: string, port: number): Listener => [name, () => connect(port, "127.0.0.1")];
const key = await createTestKey();
const foreign = {
  key: key.pem,
  cert: encodePem(await issueTestCertificate({ ca: await createTestCa(), key }), "CERTIFICATE"),
};
const credentials = { no: {}, "a foreign": foreign, "an enrolled": enrolled };
const encrypted = (protocol: string) =>
  Object.entries(credentials).map(([whose, certificate]): Listener => {
    const to = { port: ports.ingest, host: "localhost", ALPNProtocols: [protocol] };
    const open = () => connectTls({ ...to, ...certificate, ca: enrolled.ca });
    return [`ingest with ${whose} certificate`, open];
  });

/** One of these texts; the first more often than any other, so that some requests reach a handler. */
const mostly = (first: string, ...others: string[]) =>
  fc.constantFrom(...Array(others.length + 1).fill(first), first, ...others);
const logsCall = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const submitCall = "/svc.ingest.v1.IngestService/Submit";
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
const target = fc.constantFrom(
  submitCall,
  "/svc.ingest.v1.IngestService/Forward",
  logsCall,
  "/v1/logs",
  managementPath,
  "/readyz",
  "/v1/operator/whoami",
  "/login",
  "/",
  "*",
  "//[x",
  "http://[x/",
  "/%",
  "/../..",
  "http://x:99999/v1",
  "",
  "\\",
  "/?[",
  "x",
);
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
const contentType = mostly("application/grpc", "application/json", "x");
const header = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.constant("content-type"), contentType) },
  fc.tuple(fc.constant("host"), authority),
  fc.tuple(
    mostly("expect", "te", "connection", "upgrade", "content-length"),
    mostly("100-continue", "h2c", "5", "-1"),
  ),
);
const headers = fc.uniqueArray(header, { maxLength: 3, selector: ([name]) => name });
const body = mostly("\0\0\0\0\0", "", "{}", "\0\0\0\0\x02\xff\xff");

/** Sends all samples, eight at a time, of which each returns how its requests ended. */
const sendAll = async <Sample>(
  to: string,
  samples: Iterator<Sample> & Iterable<Sample>,
  send: (sample: Sample) => Promise<string[]>,
) => {
  const counts: Record<string, number> = {};
  const sendNext = async () => {
    for (const sample of samples)
      for (const end of await send(sample)) counts[end] = (counts[end] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: 8 }, sendNext));
  answers[to] = counts;
  expect(failures()).toEqual([]);
};

/** Sends bytes on a connection; returns what came back until `isOver` of it, or until the connection closed. */
const exchange = (socket: Socket, bytes: Uint8Array, isOver: (received: Buffer) => boolean) =>
  new Promise<Buffer>((resolve) => {
    let received = Buffer.alloc(0);
    socket.on("error", () => undefined).once("close", () => resolve(received));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (isOver(received)) socket.destroy();
    });
    socket.write(bytes);
  });

it.each([
  plain("web", ports.web),
  plain("core", ports.core),
  plain("metrics", ports.metrics),
  plain("OTLP by HTTP", ports.otlpHttp),
  ...encrypted("http/1.1"),
])("W1: no start line or Host of HTTP/1 ends %s", { timeout }, async (name, open) => {
  const requests = fc.record({ method, target, version, headers, body });
  const samples = fc.sample(requests, { seed, numRuns: runs }).values();
  await sendAll(`HTTP/1 to ${name}`, samples, async (sent) => {
    const hasLength = sent.headers.some(([key]) => key === "content-length");
    const all = hasLength ? sent.headers : [...sent.headers, ["content-length", sent.body.length]];
    const lines = all.map(([key, value]) => `${key}: ${value}\r\n`).join("");
    const text = `${sent.method} ${sent.target} ${sent.version}\r\n${lines}\r\n${sent.body}`;
    const socket = open();
    const bytes = Buffer.from(text, "latin1");
    const received = exchange(socket, bytes, (answer) => answer.includes("HTTP"));
    // A request that may be incomplete would wait for its rest.
    if (hasLength) socket.end();
    return [/HTTP\/1.1 (\d+)/.exec((await received).toString("latin1"))?.[1] ?? "none"];
  });
});

const maybe = <Value>(name: string, value: fc.Arbitrary<Value>) =>
  fc.option(fc.tuple(fc.constant(name), value), { freq: 10 });
const pseudo = fc.tuple(
  maybe(":method", method),
  maybe(":scheme", mostly("https", "http", "")),
  maybe(":path", target),
  maybe(":authority", authority),
  fc.option(fc.tuple(mostly(":status", ":protocol", ":x", ":path"), mostly("200")), { freq: 1 }),
);
const literal = (text: string) => Buffer.from(String.fromCharCode(text.length) + text, "latin1");
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
const preface = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  http2Frame(frameTypes.settings, 0, 0, Buffer.alloc(0)),
]);
const streamsOfConnection = 8;

it.each([plain("OTLP by gRPC", ports.otlpGrpc), ...encrypted("h2")])(
  "W1: no pseudo-header of HTTP/2 ends %s",
  { timeout },
  async (name, open) => {
    const length = { minLength: streamsOfConnection, maxLength: streamsOfConnection };
    const streams = fc.array(fc.record({ pseudo, headers, body }), length);
    const samples = fc.sample(streams, { seed, numRuns: runs / streamsOfConnection }).values();
    await sendAll(`HTTP/2 to ${name}`, samples, async (sent) => {
      const frames = sent.flatMap((stream, index) => {
        const fields = [...stream.pseudo.filter((each) => each !== null), ...stream.headers];
        const block = fields.flatMap(([key, value]) => [
          Buffer.of(0),
          literal(key),
          literal(value),
        ]);
        const data = Buffer.from(stream.body, "latin1");
        return [
          http2Frame(frameTypes.headers, 4, 2 * index + 1, Buffer.concat(block)),
          http2Frame(frameTypes.data, 1, 2 * index + 1, data),
        ];
      });
      const areOver = (received: Buffer) => endsOf(received).length >= sent.length;
      return endsOf(await exchange(open(), Buffer.concat([preface, ...frames]), areOver));
    });
  },
);

const upgrade = [
  "GET /v1/opamp HTTP/1.1",
  "Host: localhost",
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  "\r\n",
].join("\r\n");
const someBytes = fc.uint8Array({ maxLength: 64 });
/** A frame: mostly a whole, masked and binary one, with any beginning of an OpAMP message. */
const webSocketFrame = fc
  .record({
    first: fc.oneof(fc.constant(0x82), fc.nat(255)),
    masked: fc.oneof(fc.constant(0x80), fc.constant(0)),
    length: fc.option(fc.constantFrom(0, 126, 127), { freq: 10, nil: undefined }),
    payload: fc.oneof(
      someBytes,
      someBytes.map((rest) => Uint8Array.of(0, 0x0a, 16, ...new Uint8Array(16), ...rest)),
    ),
  })
  .map(({ first, masked, length, payload }) =>
    Buffer.of(first, masked | (length ?? payload.length), 0, 0, 0, 0, ...payload),
  );

it("refuses a WebSocket outside of ingest, where agents poll through a proxy", async () => {
  const received = await exchange(connect(ports.core, "127.0.0.1"), Buffer.from(upgrade), (so) =>
    so.includes("}"),
  );
  expect(received.toString()).toMatch(
    /^HTTP\/1.1 405 .*\r\nallow: POST\r\n.*"method_not_allowed"/s,
  );
});

it("W1: no frame of a WebSocket ends ingest", { timeout }, async () => {
  const frames = fc.array(webSocketFrame, { minLength: 1, maxLength: 8 });
  const samples = fc.sample(frames, { seed, numRuns: runs }).values();
  await sendAll("WebSocket to ingest", samples, async (sent) => {
    const to = { port: ports.ingest, host: "localhost", ALPNProtocols: ["http/1.1"], ...agent };
    const socket = connectTls(to);
    // A close, so that it ends.
    const close = Buffer.of(0x88, 0x80, 0, 0, 0, 0);
    const bytes = Buffer.concat([Buffer.from(upgrade), ...sent, close]);
    const received = exchange(socket, bytes, () => false);
    // A frame may claim more than follows, for which ingest would wait.
    socket.once("data", () => socket.end());
    return [/HTTP\/1.1 (\d+)/.exec((await received).toString("latin1"))?.[1] ?? "none"];
  });
  expect(Object.keys(answers["WebSocket to ingest"] ?? {})).toContain("101");
});
