import type { ExportSignal } from "../export-config.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";

/** Sends one encoded export request, and returns what the backend did with it. Never rejects: a lost connection is to be retried. */
export interface OtlpClient {
  send(signal: ExportSignal, request: Uint8Array): Promise<OtlpOutcome>;
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
  timeoutMs: number;
  isCompressed: boolean;
  now(): number;
}

/** A response is a count and a message: what is longer is not read. */
export const responseBytesMax = 64 * 1024;
