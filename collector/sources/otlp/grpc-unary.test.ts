import { once } from "node:events";
import {
  type ClientHttp2Session,
  connect,
  createServer,
  type Http2Server,
  type OutgoingHttpHeaders,
} from "node:http2";
import { deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { GrpcError } from "#proto/grpc-status.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createDecompress } from "./decompress.ts";
import { createUnaryGrpcHandler } from "./grpc.ts";
import { createInFlightRequests } from "./in-flight-requests.ts";

const messageBytesMax = 100_000;
const received: Buffer[] = [];
const failures: unknown[] = [];
const unread: string[][] = [];
let server: Http2Server;
let session: ClientHttp2Session;

beforeAll(async () => {
  const methods = new Map([
    [
      "/test.Service/Echo",
      async (request: Uint8Array) => {
        received.push(Buffer.from(request));
        return request;
      },
    ],
    ["/test.Service/Refuse", () => Promise.reject(new GrpcError("unavailable", "50 % é\n"))],
    ["/test.Service/Fail", () => Promise.reject(new Error("a secret"))],
  ]);
  server = createServer();
  const inFlight = createInFlightRequests(1_000_000);
  const decompress = createDecompress({
    bytesMax: messageBytesMax,
    waitingBytesMax: messageBytesMax,
  });
  const onUnread = (path: string, reason: string) => unread.push([path, reason]);
  const onError = (error: unknown) => failures.push(error);
  const options = {
    messageBytesMax,
    inFlight,
    decompress,
    checkCaller: () => undefined,
    onUnread,
    onError,
  };
  server.on("stream", createUnaryGrpcHandler(methods, options));
  const port = await listenOnLoopback(server);
  session = connect(`http://127.0.0.1:${port}`);
});

beforeEach(() => {
  received.length = 0;
  failures.length = 0;
  unread.length = 0;
});

afterAll(() => {
  session.destroy();
  server.close();
});

const framed = (message: Uint8Array, compressed = false) => {
  const prefix = Buffer.of(compressed ? 1 : 0, 0, 0, 0, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
};

const open = (headers: OutgoingHttpHeaders = {}) =>
  session.request({
    ":method": "POST",
    ":path": "/test.Service/Echo",
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });

/** Sends a body; returns headers and trailers in one, and the body. */
const call = async (body: Uint8Array, headers?: OutgoingHttpHeaders) => {
  const stream = open(headers);
  const fields: Record<string, unknown> = {};
  const chunks: Buffer[] = [];
  stream.on("response", (found) => Object.assign(fields, found));
  stream.on("trailers", (found) => Object.assign(fields, found));
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.end(body);
  await once(stream, "close");
  return { fields, body: Buffer.concat(chunks) };
};

it("answers with the response as one message and the status in the trailers", async () => {
  const message = Buffer.alloc(70_000, "abc");
  const { fields, body } = await call(framed(message), { "grpc-timeout": "5S" });
  expect(fields).toMatchObject({
    ":status": 200,
    "content-type": "application/grpc+proto",
    "grpc-status": "0",
  });
  expect(body).toEqual(framed(message));
});

it.each([
  ["gzip", gzipSync("hello")],
  ["zstd", zstdCompressSync("hello")],
  ["deflate", deflateSync("hello")],
  ["snappy", Buffer.from("\x05\x10hello")],
])("accepts %s, and names all that it accepts", async (encoding, message) => {
  const { fields, body } = await call(framed(message, true), { "grpc-encoding": encoding });
  expect(body).toEqual(framed(Buffer.from("hello")));
  expect(fields["grpc-accept-encoding"]).toBe(
    "gzip,zstd,deflate,zlib,snappy,x-snappy-framed,identity",
  );
});

it("accepts an uncompressed message where gzip is announced", async () => {
  const { body } = await call(framed(Buffer.from("plain")), { "grpc-encoding": "gzip" });
  expect(body).toEqual(framed(Buffer.from("plain")));
});

it.each([
  ["no message", Buffer.alloc(0), {}, Code.Unimplemented, "malformed"],
  [
    "half a message",
    framed(Buffer.alloc(100)).subarray(0, 50),
    {},
    Code.Unimplemented,
    "malformed",
  ],
  [
    "two messages",
    Buffer.concat([framed(Buffer.from("a")), framed(Buffer.from("b"))]),
    {},
    Code.Unimplemented,
    "malformed",
  ],
  [
    "a compression that was not announced",
    framed(gzipSync("a"), true),
    {},
    Code.Unimplemented,
    "malformed",
  ],
  [
    "another compression",
    framed(gzipSync("a"), true),
    { "grpc-encoding": "br" },
    Code.Unimplemented,
    "malformed",
  ],
  [
    "repeated compressions, which gRPC lacks",
    framed(gzipSync(gzipSync("a")), true),
    { "grpc-encoding": "gzip, gzip" },
    Code.Unimplemented,
    "malformed",
  ],
  [
    "bytes that are not gzip",
    framed(Buffer.from("a"), true),
    { "grpc-encoding": "gzip" },
    Code.InvalidArgument,
    "malformed",
  ],
  [
    "G1: a message over the limit",
    framed(Buffer.alloc(messageBytesMax + 1)),
    {},
    Code.ResourceExhausted,
    "too_large",
  ],
  [
    "G1: a gzip bomb",
    framed(gzipSync(Buffer.alloc(50_000_000)), true),
    { "grpc-encoding": "gzip" },
    Code.ResourceExhausted,
    "too_large",
  ],
  [
    "G1: a zstd bomb",
    framed(zstdCompressSync(Buffer.alloc(50_000_000)), true),
    { "grpc-encoding": "zstd" },
    Code.ResourceExhausted,
    "too_large",
  ],
  [
    "an unknown method",
    framed(Buffer.from("a")),
    { ":path": "/test.Service/No" },
    Code.Unimplemented,
    undefined,
  ],
])(
  "rejects %s with a status alone, calls no method, and reports why",
  async (_, request, headers, code, reason) => {
    const { fields, body } = await call(request, headers);
    expect(fields).toMatchObject({ ":status": 200, "grpc-status": `${code}` });
    expect(body).toHaveLength(0);
    expect(received).toEqual([]);
    expect(failures).toEqual([]);
    expect(unread).toEqual(reason === undefined ? [] : [["/test.Service/Echo", reason]]);
  },
);

it("reports the error that a method throws, its message percent-encoded", async () => {
  const { fields } = await call(framed(Buffer.alloc(1)), { ":path": "/test.Service/Refuse" });
  expect(fields).toMatchObject({
    "grpc-status": `${Code.Unavailable}`,
    "grpc-message": "50%20%25%20%C3%A9%0A",
  });
});

it("answers a failure with INTERNAL, and reports its cause to the log alone", async () => {
  const { fields } = await call(framed(Buffer.alloc(1)), { ":path": "/test.Service/Fail" });
  expect(fields).toMatchObject({
    "grpc-status": `${Code.Internal}`,
    "grpc-message": "internal%20error",
  });
  expect(failures).toMatchObject([{ message: "a secret" }]);
});

it.each([
  [415, { "content-type": "application/grpc+json" }],
  [415, { "content-type": "application/json" }],
  [405, { ":method": "PUT" }],
])("answers a request that is not binary gRPC with HTTP's %i", async (status, headers) => {
  const { fields } = await call(framed(Buffer.alloc(1)), headers);
  expect(fields).toMatchObject({ ":status": status });
});

it("serves on after a client disconnects in mid-request, and reads the rest of a rejected request", async () => {
  const begun = once(server, "stream");
  const disconnecting = open();
  disconnecting.write(framed(Buffer.alloc(1000)).subarray(0, 500));
  const [stream] = await begun;
  disconnecting.destroy();
  await once(stream, "close");
  const large = framed(Buffer.alloc(4 * messageBytesMax));
  expect((await call(large)).fields).toMatchObject({ "grpc-status": `${Code.ResourceExhausted}` });
  expect((await call(framed(Buffer.from("still here")))).fields).toMatchObject({
    "grpc-status": "0",
  });
  expect(received.map(String)).toEqual(["still here"]);
});
