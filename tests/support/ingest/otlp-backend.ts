import { createServer, type IncomingMessage } from "node:http";
import {
  createServer as createHttp2Server,
  createSecureServer,
  type ServerHttp2Stream,
} from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import type { Server } from "node:net";
import { gunzipSync, gzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { listenOnLoopback } from "#scripts/ports.ts";
import { spansOf } from "#tests/collector/support/otlp.ts";

/** A request that a backend received. */
export interface OtlpCall {
  signal: "traces" | "logs" | "metrics";
  body: Uint8Array;
  headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** How a backend answers; by default it accepts. `"hang"`: not at all. `"reset"`: it ends the connection, the request read. */
export type OtlpAnswer =
  | "accept"
  | "hang"
  | "reset"
  | {
      http?: number;
      headers?: Record<string, string>;
      grpc?: number;
      trailers?: Record<string, string>;
      body?: Uint8Array;
    };

/** A backend of OTLP over HTTP and gRPC on loopback, which keeps what it accepted. */
export interface OtlpBackend {
  httpUrl: string;
  grpcUrl: string;
  /** All requests, answered or not. */
  calls: OtlpCall[];
  /** Requests that it accepted. */
  accepted: OtlpCall[];
  /** The texts of all accepted log records, in their order. */
  lines(): string[];
  /** The names of all accepted spans. */
  spanNames(): string[];
  answer: (call: OtlpCall) => OtlpAnswer | Promise<OtlpAnswer>;
  close(): Promise<void>;
}

/** Starts a backend on `ports`, or free ones. */
export const startOtlpBackend = async (
  options: {
    tls?: { key: string; cert: string; ca: string };
    ports?: readonly [number, number];
  } = {},
): Promise<OtlpBackend> => {
  const tls = options.tls && { ...options.tls, requestCert: true, rejectUnauthorized: true };
  const backend: Pick<OtlpBackend, "calls" | "accepted" | "answer"> = {
    calls: [],
    accepted: [],
    answer: () => "accept",
  };
  const sockets = new Set<{ destroy(): void }>();

  const receive = async (call: OtlpCall): Promise<OtlpAnswer> => {
    backend.calls.push(call);
    const answer = await backend.answer(call);
    if (answer === "accept") backend.accepted.push(call);
    return answer;
  };
  const onHttp = async (request: IncomingMessage, response: import("node:http").ServerResponse) => {
    const body = await read(request);
    const signal = request.url?.split("/").at(-1) as OtlpCall["signal"];
    const isGzip = request.headers["content-encoding"] === "gzip";
    const answer = await receive({
      signal,
      body: isGzip ? gunzipSync(body) : body,
      headers: request.headers,
    });
    if (answer === "hang") return;
    if (answer === "reset") return void request.socket.destroy();
    const {
      http = 200,
      headers = {},
      body: reply = new Uint8Array(),
    } = answer === "accept" ? {} : answer;
    response.writeHead(http, { "content-type": "application/x-protobuf", ...headers }).end(reply);
  };
  const onStream = async (stream: ServerHttp2Stream, headers: OtlpCall["headers"]) => {
    stream.on("error", () => undefined);
    const framed = await read(stream);
    const message = framed.subarray(5);
    const isGzip = framed[0] === 1;
    const [, name = ""] = /collector\.(\w+)\.v1/.exec(String(headers[":path"])) ?? [];
    const signal = name === "trace" ? "traces" : (name as OtlpCall["signal"]);
    const answer = await receive({ signal, body: isGzip ? gunzipSync(message) : message, headers });
    if (answer === "hang" || stream.destroyed) return;
    if (answer === "reset") return void stream.session?.destroy();
    const {
      http = 200,
      grpc = 0,
      trailers = {},
      body: reply = new Uint8Array(),
    } = answer === "accept" ? {} : answer;
    // As grpc-go does, in the encoding of the request.
    const encoding = isGzip ? { "grpc-encoding": "gzip" } : {};
    stream.respond(
      { ":status": http, "content-type": "application/grpc", ...encoding },
      { waitForTrailers: true },
    );
    stream.on("wantTrailers", () =>
      stream.sendTrailers(http === 200 ? { "grpc-status": String(grpc), ...trailers } : {}),
    );
    const sent = isGzip ? gzipSync(reply) : reply;
    const prefix = Buffer.from([Number(isGzip), 0, 0, 0, 0]);
    prefix.writeUInt32BE(sent.length, 1);
    stream.end(grpc === 0 && http === 200 ? Buffer.concat([prefix, sent]) : undefined);
  };
  const http = tls ? createHttpsServer(tls) : createServer();
  http.on(
    "request",
    (request, response) => void onHttp(request, response).catch(() => response.destroy()),
  );
  const grpc = tls ? createSecureServer(tls) : createHttp2Server();
  grpc.on(
    "stream",
    (stream: ServerHttp2Stream, headers: OtlpCall["headers"]) =>
      void onStream(stream, headers).catch(() => stream.destroy()),
  );
  for (const server of [http, grpc] as unknown as Server[])
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
    });
  const [httpPort, grpcPort] = options.ports ?? [];
  const url = async (server: Server, port?: number) =>
    `${tls ? "https" : "http"}://127.0.0.1:${await listenOnLoopback(server, port)}`;
  return Object.assign(backend, {
    httpUrl: await url(http, httpPort),
    grpcUrl: await url(grpc as unknown as Server, grpcPort),
    lines: () =>
      backend.accepted.flatMap(({ signal, body }) => (signal === "logs" ? linesOf(body) : [])),
    spanNames: () =>
      backend.accepted.flatMap(({ signal, body }) =>
        signal === "traces" ? spansOf(body).map(({ name }) => name) : [],
      ),
    close: async () => {
      const closed = [http, grpc].map((server) => new Promise((resolve) => server.close(resolve)));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
    },
  });
};

/** Returns the log records of an export request. */
export const logRecordsOf = (body: Uint8Array) =>
  fromBinary(ExportLogsServiceRequestSchema, body).resourceLogs.flatMap(({ resource, scopeLogs }) =>
    scopeLogs.flatMap(({ scope, logRecords }) =>
      logRecords.map((record) => ({ resource, scope, record })),
    ),
  );

const linesOf = (body: Uint8Array): string[] =>
  logRecordsOf(body).map(({ record }) => String(record.body?.value.value ?? ""));

const read = async (stream: AsyncIterable<Buffer>): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
};
