import { isIP } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import type { Clock } from "../../kit/clock.ts";
import { GrpcError } from "../../proto/grpc-status.ts";
import { withReenrollAdvice } from "../identity/reenroll-advice.ts";
import { createResumeTls } from "../identity/resume-tls.ts";
import { createCompressor } from "./compressor.ts";
import { type GrpcConnection, openGrpcConnection } from "./grpc-stream.ts";

/** PEM of the collector's credentials, and of the authorities that core's certificate must chain to. */
export interface ForwarderTls {
  cert: string;
  key: string;
  ca: string;
  /** The name that core's certificate must have; the endpoint's host by default. */
  serverName?: string;
}

const pings = { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 };
/** An ack with a rejection for every envelope of a large frame fits. */
const ackBytesMax = 4 * 1024 * 1024;

/** Makes connections to the ingest listener at `endpoint`, each of which resumes the TLS session of the one before. */
export const createConnector = (
  endpoint: string,
  { serverName, ...tls }: ForwarderTls,
  clock: Pick<Clock, "monotonic" | "sleep">,
): ((options: { compress: boolean }) => GrpcConnection) => {
  const authority = `https://${endpoint}`;
  const createConnection = createResumingConnection(new URL(authority), {
    ...tls,
    minVersion: "TLSv1.2",
    ...(serverName === undefined ? {} : { servername: serverName }),
  });
  return ({ compress }) =>
    openGrpcConnection({
      authority,
      createConnection,
      responseBytesMax: ackBytesMax,
      ...pings,
      clock,
      ...(compress ? { compress: createCompressor("gzip") } : {}),
    });
};

/** Makes TLS connections to one server that resume the previous session: see `createResumeTls`. */
const createResumingConnection = (
  url: URL,
  options: Pick<ConnectionOptions, "cert" | "key" | "ca" | "minVersion"> & { servername?: string },
): (() => TLSSocket) => {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port || 443);
  const resume = createResumeTls();
  const servername = options.servername ?? (isIP(host) === 0 ? host : undefined);
  return () =>
    resume((session) =>
      connect({
        ...options,
        host,
        port,
        ALPNProtocols: ["h2"],
        ...(servername === undefined ? {} : { servername }),
        ...session,
      }),
    );
};

/** Why a stream ended. */
export interface ForwardFailure {
  /** `google.rpc.ErrorInfo.reason`, core's stable code, or null if something else failed. */
  readonly reason: string | null;
  /** RESOURCE_EXHAUSTED without a reason: from a proxy, or from a limit inside a gRPC library. */
  readonly exhausted: boolean;
  /** One line for people, at most 500 characters, without control characters. */
  readonly message: string;
  /** When core would have the next stream, from now; 0 if it does not say. */
  readonly retryAfterMs: number;
}

/** Reads any error of a stream: core's refusals, and errors of the network and of TLS. */
export const readFailure = (error: unknown): ForwardFailure => {
  const code = error instanceof GrpcError ? error.code : "unknown";
  const reason = error instanceof GrpcError ? error.reason() : null;
  const exhausted = code === "resource_exhausted" && reason === null;
  const message = toOneLine(
    `${reason ?? code}: ${error instanceof Error ? error.message : String(error)}`,
  );
  const retryAfterMs = error instanceof GrpcError ? error.retryAfterSeconds() * 1000 : 0;
  return { reason, exhausted, message: withReenrollAdvice(reason, message), retryAfterMs };
};

const toOneLine = (text: string): string =>
  text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, 500);
