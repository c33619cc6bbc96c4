import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from "node:http2";
import { gunzipSync } from "node:zlib";
import { callAfter } from "#kit/clock.ts";
import { grpcMessagePrefix } from "#proto/grpc-framing.ts";
import type { ExportSignal } from "../config/export-config.ts";
import {
  connectMsMax,
  gzipFast,
  type OtlpClient,
  type OtlpClientOptions,
  responseBytesMax,
} from "./otlp-client.ts";
import { lostResponse } from "./otlp-http.ts";
import { type GrpcEnd, type OtlpOutcome, readGrpcOutcome } from "./otlp-outcome.ts";

const paths: Readonly<Record<ExportSignal, string>> = {
  traces: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
  logs: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
  metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
};
const prefixBytes = 5;

/**
 * Creates a client of OTLP/gRPC: unary calls on one HTTP/2 connection, without a library, because the requests are bytes already
 * (docs/decisions/collector-queue.md). A call without a timely response ends the connection, which may be half-open.
 */
export const createOtlpGrpcClient = (options: OtlpClientOptions): OtlpClient => {
  const { endpoint, headers, tls, timeoutMs, isCompressed, clock } = options;
  let session: ClientHttp2Session | undefined;
  const open = (): ClientHttp2Session => {
    if (session && !session.closed && !session.destroyed) return session;
    const opened = connect(endpoint.origin, { ...tls, settings: { enablePush: false } });
    // A stream reports it too; without a listener it would end the process.
    opened.on("error", () => undefined);
    session = opened;
    return opened;
  };
  const common = {
    ":method": "POST",
    "content-type": "application/grpc",
    te: "trailers",
    "user-agent": "svc-server-export",
    ...(isCompressed ? { "grpc-encoding": "gzip" } : {}),
  };

  const call = async (
    signal: ExportSignal,
    message: Uint8Array,
    withinMs = timeoutMs,
  ): Promise<OtlpOutcome> => {
    const body = isCompressed ? await gzipFast(message) : message;
    const used = open();
    const { promise, resolve, reject } = Promise.withResolvers<GrpcEnd>();
    const stream = used.request({
      ...headers(),
      ...common,
      "grpc-timeout": `${withinMs}m`,
      ":path": paths[signal],
    });
    const end = (cause: Error) => {
      reject(cause);
      used.destroy();
    };
    const stopConnecting = callAfter(
      clock,
      Math.min(timeoutMs, connectMsMax),
      () =>
        used.connecting &&
        end(Object.assign(new Error("not connected in time"), { code: "ETIMEDOUT" })),
    );
    const stopWaiting = callAfter(clock, withinMs, () =>
      end(new DOMException("no response in time", "TimeoutError")),
    );
    let head: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    let received = 0;
    let failure: unknown;
    stream.on("response", (fields) => (head = fields));
    stream.on("trailers", (fields) => (trailers = fields));
    stream.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received <= responseBytesMax) chunks.push(chunk);
      else stream.close(constants.NGHTTP2_CANCEL);
    });
    stream.on("error", (cause) => (failure = cause));
    // Only this reports why a connection failed before the stream began.
    used.once("error", (cause) => (failure ??= cause));
    stream.once("close", () => {
      const status = trailers["grpc-status"] ?? head["grpc-status"];
      if (head[":status"] === undefined || (status === undefined && failure !== undefined))
        return reject(failure ?? new Error("the connection ended"));
      const details = trailers["grpc-status-details-bin"] ?? head["grpc-status-details-bin"];
      resolve({
        code: status === undefined ? undefined : Number(status),
        httpStatus: Number(head[":status"]),
        message: decodePercent(String(trailers["grpc-message"] ?? head["grpc-message"] ?? "")),
        details: details === undefined ? null : Buffer.from(String(details), "base64"),
        body: unframe(Buffer.concat(chunks)),
      });
    });
    stream.write(grpcMessagePrefix(body.length, isCompressed));
    stream.end(body);
    try {
      return readGrpcOutcome(await promise);
    } finally {
      stopWaiting();
      stopConnecting();
    }
  };
  return {
    send: (signal, message, withinMs) => call(signal, message, withinMs).catch(lostResponse),
    close: async () => session?.destroy(),
  };
};

/** Returns the message of a response: grpc-go, and so the OpenTelemetry Collector, compresses the response to a compressed request. */
const unframe = (framed: Buffer): Buffer => {
  const message = framed.subarray(prefixBytes);
  if (framed[0] !== 1) return message;
  try {
    return gunzipSync(message, { maxOutputLength: responseBytesMax });
  } catch {
    return message; // which is no response of OTLP
  }
};

const decodePercent = (text: string) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};
