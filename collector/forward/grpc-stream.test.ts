import { once } from "node:events";
import {
  constants,
  createServer as createHttp2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { gunzipSync } from "node:zlib";
import { create } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { expect, it, onTestFinished } from "vitest";
import { unpooled } from "#kit/buffer-pool.ts";
import { systemClock } from "#kit/clock.ts";
import { ErrorInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { createGrpcMessageReader, frameGrpcMessages } from "#proto/grpc-framing.ts";
import { GrpcError, grpcStatusHeaders } from "#proto/grpc-status.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { eventually } from "#tests/support/eventually.ts";
import { frameTypes, http2Frame } from "#tests/support/ingest/raw-http2.ts";
import { createCompressor } from "./compressor.ts";
import { type GrpcCall, type GrpcConnectionOptions, openGrpcConnection } from "./grpc-stream.ts";

const options = {
  responseBytesMax: 100,
  pingIntervalMs: 30_000,
  pingTimeoutMs: 10_000,
  clock: systemClock,
};
const grpc = { ":status": 200, "content-type": "application/grpc+proto" };
const bytes = (text: string) => new TextEncoder().encode(text);

const listen = async (server: Server) => {
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${await listenOnLoopback(server)}`;
};

const serve = async (
  handle: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void,
  settings = {},
) => {
  const server = createHttp2Server({ settings });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    handle(stream, headers);
  });
  const sessions: Http2Session[] = [];
  server.on("session", (session) => sessions.push(session));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
  });
  return await listen(server);
};

/** Runs a stream of one request, unless `call` says otherwise; returns what it received. */
const run = async (
  authority: string,
  call: Partial<GrpcCall> = {},
  changed: Partial<GrpcConnectionOptions> = {},
) => {
  const connection = openGrpcConnection({ authority, ...options, ...changed });
  onTestFinished(() => connection.abort());
  const received: string[] = [];
  await connection.run({
    path: "/test.Service/Method",
    requests: requestsOf(bytes("request")),
    onResponse: (message) => void received.push(new TextDecoder().decode(message)),
    signal: new AbortController().signal,
    ...call,
  });
  return received;
};

const requestsOf = async function* (
  ...messages: readonly Uint8Array[]
): AsyncGenerator<Uint8Array> {
  yield* messages;
};

it("W1: names an IPv6 endpoint in brackets, as the authority of a URL", async () => {
  let named: string | undefined;
  const url = await serve((stream, headers) => {
    named = headers[":authority"];
    respond(stream, []);
  });
  const createConnection = () => connect(Number(new URL(url).port), "127.0.0.1") as TLSSocket;
  await run("http://[::1]:8443", {}, { createConnection });
  expect(named).toBe("[::1]:8443");
});

/** Never ends by itself, as a collector's stream. */
const openRequests = async function* (): AsyncGenerator<Uint8Array> {
  yield bytes("request");
  await new Promise(() => undefined);
};

/** Sends these chunks, each in a frame of its own, and then trailers. */
const respond = (
  stream: ServerHttp2Stream,
  chunks: readonly Uint8Array[],
  trailers = { "grpc-status": "0" },
) => {
  stream.respond(grpc, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  const next = (index: number) => {
    const chunk = chunks[index];
    if (chunk === undefined) stream.end();
    else stream.write(chunk, () => setImmediate(next, index + 1));
  };
  next(0);
};

/** Resolves with the messages of a request, decompressed. */
const readRequest = async (stream: ServerHttp2Stream) => {
  const reader = createGrpcMessageReader(10_000_000, unpooled, () => new Error("too large"));
  const messages: string[] = [];
  for await (const chunk of stream)
    for (const { compressed, data } of reader.push(chunk))
      messages.push(new TextDecoder().decode(compressed ? gunzipSync(data) : data));
  return messages;
};

it("receives messages however the frames of HTTP/2 divide them, and resolves at OK", async () => {
  const framed = frameGrpcMessages([bytes("one"), new Uint8Array(), bytes("three")]);
  const halves = [framed.subarray(0, 3), framed.subarray(3, 6), framed.subarray(6)];
  expect(await run(await serve((stream) => respond(stream, [framed])))).toEqual([
    "one",
    "",
    "three",
  ]);
  expect(await run(await serve((stream) => respond(stream, halves)))).toEqual(["one", "", "three"]);
  const each = Array.from(framed, (byte) => Uint8Array.of(byte));
  expect(await run(await serve((stream) => respond(stream, each)))).toEqual(["one", "", "three"]);
});

it("sends its messages in order, plain and with gzip, and says which", async () => {
  const seen: unknown[] = [];
  const authority = await serve((stream, headers) => {
    readRequest(stream).then((messages) => {
      seen.push([headers["grpc-encoding"], headers.te, headers[":path"], messages]);
      respond(stream, []);
    });
  });
  const large = "x".repeat(300_000);
  const messages = ["one", "", large];
  await run(authority, { requests: requestsOf(...messages.map(bytes)) });
  await run(
    authority,
    { requests: requestsOf(...messages.map(bytes)) },
    { compress: createCompressor("gzip") },
  );
  const rest = ["trailers", "/test.Service/Method", messages];
  expect(seen).toEqual([
    [undefined, ...rest],
    ["gzip", ...rest],
  ]);
});

it("requests the next message only when flow control has let the one before leave", async () => {
  let requested = 0;
  const requests = async function* () {
    for (let index = 0; index < 10; index++) {
      requested += 1;
      yield new Uint8Array(50_000);
    }
  };
  const opened = Promise.withResolvers<ServerHttp2Stream>();
  // Does not read: its window of 64 KiB and what Node buffers take a few messages.
  const authority = await serve((stream) => opened.resolve(stream));
  const running = run(authority, { requests: requests() });
  const stream = await opened.promise;
  stream.pause();
  await eventually(() => expect(requested).toBeGreaterThan(1));
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  expect(requested).toBeLessThan(8);
  const messages = await readRequest(stream);
  respond(stream, []);
  await running;
  expect([messages.length, requested]).toEqual([10, 10]);
});

const refusal = new GrpcError("permission_denied", "50 % é", {
  details: [
    anyPack(
      ErrorInfoSchema,
      create(ErrorInfoSchema, { reason: "certificate_revoked", domain: "svc" }),
    ),
  ],
});

it.each<[string, (stream: ServerHttp2Stream) => void, object]>([
  [
    "the status in its trailers, after the messages",
    (stream) =>
      respond(
        stream,
        [frameGrpcMessages([bytes("one")])],
        grpcStatusHeaders(refusal) as { "grpc-status": string },
      ),
    { code: "permission_denied", message: "50 % é" },
  ],
  [
    "a status without a response",
    (stream) => stream.respond({ ...grpc, ...grpcStatusHeaders(refusal) }, { endStream: true }),
    { code: "permission_denied", message: "50 % é" },
  ],
  [
    "a status that is none",
    (stream) => respond(stream, [], { "grpc-status": "99" }),
    { code: "unknown" },
  ],
  [
    "an answer of a proxy",
    (stream) =>
      stream.respond({ ":status": 503, "content-type": "text/html" }, { endStream: true }),
    { code: "unavailable", message: "HTTP 503" },
  ],
  [
    "a page instead of gRPC",
    (stream) =>
      stream.respond({ ":status": 200, "content-type": "text/html" }, { endStream: true }),
    { code: "unknown" },
  ],
  [
    "an end without a status",
    (stream) => stream.respond(grpc, { endStream: true }),
    { code: "unavailable" },
  ],
  [
    "a reset",
    (stream) => stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM),
    { code: "resource_exhausted" },
  ],
  [
    "a reset because it is shutting down",
    (stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM),
    { code: "unavailable" },
  ],
  ["the end of the connection", (stream) => stream.session?.destroy(), { code: "unavailable" }],
  [
    "a message over the limit",
    (stream) => respond(stream, [frameGrpcMessages([new Uint8Array(101)])]),
    { code: "internal", message: "a message of core is too large" },
  ],
  [
    "half a message",
    (stream) => respond(stream, [frameGrpcMessages([bytes("one")]).subarray(0, 6)]),
    { code: "internal", message: "a message of core is incomplete" },
  ],
  [
    "a compressed message, which it did not offer to read",
    (stream) => respond(stream, [Uint8Array.of(1, 0, 0, 0, 0)]),
    { code: "internal", message: "a message of core is compressed" },
  ],
])("rejects by %s, while it would send more", async (_, handle, expected) => {
  await expect(run(await serve(handle), { requests: openRequests() })).rejects.toMatchObject({
    name: "GrpcError",
    ...expected,
  });
});

it("reads core's reason from a status, and none from malformed details", async () => {
  const status = grpcStatusHeaders(refusal);
  const reasonOf = async (headers: Record<string, string>) => {
    const authority = await serve((stream) =>
      stream.respond({ ...grpc, ...headers }, { endStream: true }),
    );
    const error = await run(authority).catch((caught: unknown) => caught);
    return error instanceof GrpcError ? [error.code, error.reason(), error.message] : error;
  };
  expect(await reasonOf(status)).toEqual(["permission_denied", "certificate_revoked", "50 % é"]);
  expect(await reasonOf({ ...status, "grpc-status-details-bin": "!" })).toEqual([
    "permission_denied",
    null,
    "50 % é",
  ]);
});

it("rejects with what its messages or their receiver threw, and resets the stream", async () => {
  const resets: number[] = [];
  const authority = await serve((stream) => {
    stream.on("close", () => resets.push(stream.rstCode));
    stream.respond(grpc);
    stream.write(frameGrpcMessages([bytes("one")]));
    stream.resume();
  });
  const failing = async function* (): AsyncGenerator<Uint8Array> {
    yield bytes("request");
    throw new Error("disk I/O error");
  };
  await expect(run(authority, { requests: failing() })).rejects.toThrow("disk I/O error");
  const onResponse = () => {
    throw new Error("forked");
  };
  await expect(run(authority, { requests: openRequests(), onResponse })).rejects.toThrow("forked");
  await eventually(() =>
    expect(resets).toEqual([constants.NGHTTP2_CANCEL, constants.NGHTTP2_CANCEL]),
  );
});

it("ends at once when it is aborted: before, while it connects, and while it runs", async () => {
  const reason = new Error("stop");
  const silent = await listen(createServer({ pauseOnConnect: true }));
  await expect(run(silent, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const stop = new AbortController();
  const running = run(await serve(() => stop.abort(reason)), {
    requests: openRequests(),
    signal: stop.signal,
  });
  await expect(running).rejects.toBe(reason);
});

it("does not ask for messages while the server is unreachable", async () => {
  let requested = 0;
  const requests = async function* () {
    requested += 1;
    yield bytes("request");
  };
  // Nothing listens on port 1.
  const failure = run("http://127.0.0.1:1", { requests: requests() });
  await expect(failure).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("ECONNREFUSED"),
  });
  expect(requested).toBe(0);
});

it("notices within 30 s of its last bytes that a peer is frozen", async () => {
  const clock = createTestClock();
  const type = Buffer.from("application/grpc+proto");
  const head = Buffer.concat([Buffer.of(0x88, 0x0f, 0x10, type.length), type]);
  const server = createServer();
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const authority = await listen(server);
  const connection = openGrpcConnection({ authority, ...options, pingIntervalMs: 20_000, clock });
  const { signal } = new AbortController();
  const received = Promise.withResolvers<void>();
  const running = connection.run({
    path: "/",
    requests: openRequests(),
    onResponse: () => received.resolve(),
    signal,
  });
  let failure: unknown;
  running.catch((error) => (failure = error));
  const [socket] = await accepted;
  socket.resume().write(http2Frame(frameTypes.settings, 0, 0, Buffer.alloc(0)));
  while (socket.bytesRead < 100) await once(socket, "data");
  await clock.advance(1_000);
  socket.write(http2Frame(frameTypes.headers, 4, 1, head));
  socket.write(http2Frame(frameTypes.data, 0, 1, Buffer.alloc(5)));
  await received.promise;
  await clock.advance(29_000);
  expect(failure).toBeUndefined();
  await clock.advance(1_000);
  await expect(running).rejects.toThrow("core does not answer pings");
  socket.destroy();
});

it("a peer that does not answer ends the stream, and not the process", async () => {
  const server = createServer({ pauseOnConnect: true });
  const accepted = once(server, "connection");
  const authority = await listen(server);
  const connection = openGrpcConnection({
    authority,
    ...options,
    pingIntervalMs: 20,
    pingTimeoutMs: 20,
  });
  const { signal } = new AbortController();
  const call = { path: "/", requests: openRequests(), onResponse: () => undefined, signal };
  await expect(connection.run(call)).rejects.toThrow("core does not answer pings");
  expect(connection.session()).toBeUndefined();
  connection.abort();
  // Only now the session can emit its error.
  const [socket] = await accepted;
  socket.destroy();
  await new Promise(setImmediate);
});
