import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { isIP } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { compressionGzip, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "../../proto/gen/google/rpc/error_details_pb.js";
import { withReenrollAdvice } from "../identity/reenroll-advice.ts";
import { createResumeTls } from "../identity/resume-tls.ts";
import { createCompressor } from "./gzip.ts";

/** PEM of the collector's credentials, and of the authorities that core's certificate must chain to. */
export interface ForwarderTls {
  cert: string;
  key: string;
  ca: string;
  /** The name that core's certificate must have; the endpoint's host by default. */
  serverName?: string;
}

/** A connection to core, for one stream. */
export interface ForwardConnection {
  transport: Transport;
  /** Returns its HTTP/2 session, for other requests to the same server; undefined while none is open. */
  session(): ClientHttp2Session | undefined;
  /** Closes it at once. */
  abort(): void;
}

const pings = { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 };
/** An ack with a rejection for every envelope of a large frame fits. */
const ackBytesMax = 4 * 1024 * 1024;

/** Makes connections to the ingest listener at `endpoint`, each of which resumes the TLS session of the one before. */
export const createConnector = (
  endpoint: string,
  { serverName, ...tls }: ForwarderTls,
): ((options: { compress: boolean }) => ForwardConnection) => {
  const url = `https://${endpoint}`;
  const createConnection = createResumingConnection(new URL(url), {
    ...tls,
    minVersion: "TLSv1.2",
    ...(serverName === undefined ? {} : { servername: serverName }),
  });
  return ({ compress }) => {
    const session = new ForwardSession(url, pings, { createConnection });
    const transport = createGrpcTransport({
      baseUrl: url,
      sessionManager: session,
      readMaxBytes: ackBytesMax,
      ...(compress ? { sendCompression: { ...compressionGzip, compress: createCompressor() } } : {}),
    });
    return { transport, session: () => session.open(), abort: () => session.abort() };
  };
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

/**
 * The HTTP/2 session of one stream, which emits no error after it is aborted. A session whose PING is not answered is destroyed at
 * once and emits its error only when its socket has closed, as late as an unresponsive peer allows; connect-node 2.2 has removed its
 * listener by then, and an error without a listener ends the process.
 */
export class ForwardSession extends Http2SessionManager {
  #newest: ClientHttp2Session | undefined;

  /** Returns the session of the newest stream while it takes more streams. */
  open(): ClientHttp2Session | undefined {
    return this.#newest?.closed || this.#newest?.destroyed ? undefined : this.#newest;
  }

  override async request(...call: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...call);
    this.#newest = stream.session as ClientHttp2Session | undefined;
    stream.session?.on("error", () => undefined);
    return stream;
  }
}

/** Why a stream ended. */
export interface ForwardFailure {
  /** `google.rpc.ErrorInfo.reason`, core's stable code, or null if something else failed. */
  readonly reason: string | null;
  /** RESOURCE_EXHAUSTED without a reason: from a proxy, or from a limit inside a gRPC library. */
  readonly exhausted: boolean;
  /** One line for people, at most 500 characters, without control characters. */
  readonly message: string;
}

/** Reads any error of a stream: core's refusals, and errors of the network and of TLS. */
export const readFailure = (error: unknown): ForwardFailure => {
  const connectError = ConnectError.from(error);
  const reason = connectError.findDetails(ErrorInfoSchema)[0]?.reason ?? null;
  const code = Code[connectError.code].replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
  const exhausted = connectError.code === Code.ResourceExhausted && reason === null;
  const message = toOneLine(`${reason ?? code}: ${connectError.rawMessage}`);
  return { reason, exhausted, message: withReenrollAdvice(reason, message) };
};

const toOneLine = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, 500);
