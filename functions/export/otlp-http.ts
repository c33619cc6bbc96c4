import { Agent, request } from "undici";
import { errorCode } from "../../kit/describe-error.ts";
import type { ExportSignal } from "../export-config.ts";
import { gzipFast } from "./gzip.ts";
import { type OtlpClient, type OtlpClientOptions, responseBytesMax } from "./otlp-client.ts";
import { type OtlpOutcome, readHttpOutcome } from "./otlp-outcome.ts";

/** Makes a client of OTLP/HTTP with protobuf, which keeps its connections open. */
export const createOtlpHttpClient = (options: OtlpClientOptions): OtlpClient => {
  const { endpoint, headers, tls, concurrency, timeoutMs, isCompressed, now } = options;
  const dispatcher = new Agent({
    connections: concurrency,
    pipelining: 1,
    connect: { ...tls, timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: responseBytesMax,
  });
  const base = endpoint.href.replace(/\/$/, "");
  const common = {
    ...headers,
    "content-type": "application/x-protobuf",
    "user-agent": "svc-server-export",
    ...(isCompressed ? { "content-encoding": "gzip" } : {}),
  };

  const post = async (signal: ExportSignal, message: Uint8Array): Promise<OtlpOutcome> => {
    const {
      statusCode,
      headers: received,
      body,
    } = await request(`${base}/v1/${signal}`, {
      method: "POST",
      dispatcher,
      headers: common,
      body: isCompressed ? await gzipFast(message) : message,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const retryAfter = received["retry-after"];
    return readHttpOutcome(statusCode, {
      retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
      body: new Uint8Array(await body.arrayBuffer()),
      now: now(),
    });
  };
  return {
    send: (signal, message) =>
      post(signal, message).catch((cause: unknown) => ({
        status: "retry",
        afterMs: null,
        reason: connectionFault(cause),
      })),
    close: () => dispatcher.destroy(),
  };
};

/** Says why no response came: the code of a network or TLS error, without addresses. */
export const connectionFault = (cause: unknown): string => {
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause;
  if (inner instanceof Error && inner.name === "TimeoutError") return "no response in time";
  return `no response: ${errorCode(inner) ?? "connection lost"}`;
};
