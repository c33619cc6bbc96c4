import type { Clock } from "#kit/clock.ts";
import { jsonLimits } from "#kit/foreign-json.ts";
import type { ExportSignal } from "../config/export-config.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";

/**
 * Sends one encoded export request, and returns what the backend did with it within the timeout. Never rejects: a lost connection is to be
 * retried.
 */
export interface OtlpClient {
  send(signal: ExportSignal, request: Uint8Array, timeoutMs?: number): Promise<OtlpOutcome>;
  close(): Promise<void>;
}

/** How to reach a backend. */
export interface OtlpClientOptions {
  endpoint: URL;
  headers: Readonly<Record<string, string>>;
  /** PEM. Without `ca`, the runtime's authorities decide. */
  tls: { ca?: Buffer; cert?: Buffer; key?: Buffer };
  /** Requests in flight. */
  concurrency: number;
  /** The timeout of a request that has none of its own. */
  timeoutMs: number;
  isCompressed: boolean;
  clock: Clock;
}

/** A connection that is not made in so long is not: a slow backend answers late, but connects at once. */
export const connectMsMax = 5_000;

/** A response is a count and a message: what is longer is not read. */
export const responseBytesMax = jsonLimits.backendAnswer.bytes;
