import { Agent, request } from "undici";
import { errorCode } from "#kit/describe-error.ts";
import type { ExportSignal } from "../config/export-config.ts";
import {
  connectMsMax,
  gzipFast,
  type OtlpClient,
  type OtlpClientOptions,
  responseBytesMax,
} from "./otlp-client.ts";
import { type OtlpOutcome, readHttpOutcome } from "./otlp-outcome.ts";

/** Creates a client of OTLP/HTTP with protobuf, which keeps its connections open. */
export const createOtlpHttpClient = (options: OtlpClientOptions): OtlpClient => {
  const { endpoint, headers, tls, concurrency, timeoutMs, isCompressed, clock } = options;
  const dispatcher = new Agent({
    connections: concurrency,
    pipelining: 1,
    connect: { ...tls, timeout: Math.min(timeoutMs, connectMsMax) },
    // Each request has its own timeout.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: responseBytesMax,
  });
  const base = endpoint.href.replace(/\/$/, "");
  const common = {
    "content-type": "application/x-protobuf",
    "user-agent": "svc-server-export",
    ...(isCompressed ? { "content-encoding": "gzip" } : {}),
  };

  const post = async (
    signal: ExportSignal,
    message: Uint8Array,
    withinMs = timeoutMs,
  ): Promise<OtlpOutcome> => {
    const {
      statusCode,
      headers: received,
      body,
    } = await request(`${base}/v1/${signal}`, {
      method: "POST",
      dispatcher,
      headers: { ...headers(), ...common },
      body: isCompressed ? await gzipFast(message) : message,
      signal: AbortSignal.timeout(withinMs),
    });
    const header = (name: string) => [received[name]].flat()[0];
    return readHttpOutcome(statusCode, {
      retryAfter: header("retry-after"),
      contentType: header("content-type"),
      body: new Uint8Array(await body.arrayBuffer()),
      now: clock.now(),
    });
  };
  return {
    send: (signal, message, withinMs) => post(signal, message, withinMs).catch(lostResponse),
    close: () => dispatcher.destroy(),
  };
};

/** The outcome of a request without a response. The reason is the code of a network or TLS error, without addresses. */
export const lostResponse = (cause: unknown): OtlpOutcome => {
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause;
  if (inner instanceof Error && inner.name === "TimeoutError")
    return { status: "retry", afterMs: null, reason: "no response in time", isTimeout: true };
  return {
    status: "retry",
    afterMs: null,
    reason: `no response: ${errorCode(inner) ?? "connection lost"}`,
  };
};
