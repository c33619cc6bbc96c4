import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import type { Clock } from "#kit/clock.ts";
import { jsonLimits } from "#kit/foreign-json.ts";
import { freeBytes } from "#kit/free-bytes.ts";
import type { ExportSignal } from "../config/export-config.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";

/**
 * Sends one encoded export request, and returns its outcome within the timeout. Never rejects: the outcome of a lost connection is `retry`.
 */
export interface OtlpClient {
  send(signal: ExportSignal, request: Uint8Array, timeoutMs?: number): Promise<OtlpOutcome>;
  close(): Promise<void>;
}

/** How to reach a backend. */
export interface OtlpClientOptions {
  endpoint: URL;
  /** Returns the headers of a request. */
  headers(): Readonly<Record<string, string>>;
  /** PEM. Without `ca`, the runtime's authorities decide. */
  tls: { ca?: Buffer; cert?: Buffer; key?: Buffer };
  /** Requests in flight. */
  concurrency: number;
  /** The timeout of a request that has none of its own. */
  timeoutMs: number;
  isCompressed: boolean;
  clock: Clock;
}

/** The timeout of connecting: a slow backend responds late, but connects at once. */
export const connectMsMax = 5_000;

/** The longest response that is read: it has a count and a message. */
export const responseBytesMax = jsonLimits.backendAnswer.bytes;

const compress = promisify<Uint8Array, { level: number; chunkSize: number }, Buffer>(gzip);

/** Telemetry becomes smaller than this share, so that mostly one chunk has all of it. */
const chunkShare = 1 / 4;
/** Node takes smaller chunks from its pool. */
const chunkBytesMin = 64 * 1024;

/** Compresses on zlib's threads, by its fastest level: a tenth larger, in a third of the time. */
export const gzipFast = async (bytes: Uint8Array): Promise<Uint8Array> => {
  const chunkSize = Math.max(chunkBytesMin, Math.ceil(bytes.length * chunkShare));
  const compressed = await compress(bytes, { level: constants.Z_BEST_SPEED, chunkSize });
  if (compressed.buffer.byteLength !== chunkSize) return compressed;
  const copy = Uint8Array.from(compressed);
  freeBytes(compressed, { whole: true });
  return copy;
};
