import { once } from "node:events";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  constants,
} from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import type { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { errorCode } from "#kit/describe-error.ts";
import { jsonLimits } from "#kit/foreign-json.ts";
import { type Tracer, untraced } from "#kit/tracing/tracer.ts";
import { type Authorities, openTls } from "../connect/open-tls.ts";
import { type ProxyChoice, ProxyError } from "../connect/proxy.ts";
import { isUntrusted, type ResumeTls, tlsServer } from "../connect/resume-tls.ts";
import type { Credentials } from "../identity/credentials.ts";
import {
  ManagementError,
  type ManagementFailure,
  type ManagementResponse,
} from "./management-error.ts";

/** How core is reached. */
export interface TransportOptions {
  /** `https://…`, or `http://…` if the caller has checked that it is a loopback address. Its path is a prefix. */
  baseUrl: string;
  /** PEM of the only accepted authorities, or several in the order in which they are tried; the system's if undefined. */
  caPem: string | Authorities | undefined;
  /** The name that the server's certificate must have; the URL's host if undefined. */
  serverName: string | undefined;
  /** The timeout of the whole exchange. */
  timeoutMs: number;
  /** Directly without it, as always by plain HTTP: what is loopback here is not there. */
  proxy?: ProxyChoice;
  /** Resumes the TLS session of the previous request, so all requests must present the same credentials. */
  resume?: ResumeTls;
  /** Returns an open session for requests to use, with the same server, name, authorities and credentials; undefined without one. */
  session?: () => ClientHttp2Session | undefined;
  /** Records each exchange as a trace, which core continues; nothing is recorded without it. */
  tracer?: Tracer;
  /** Accepts any certificate: the exchange only reads the server's time. */
  isProbe?: boolean;
}

interface PostedRequest {
  path: string;
  body: object;
  bearer?: string;
  credentials?: PemCredentials;
  signal?: AbortSignal;
}

type PemCredentials = Pick<Credentials, "certificatePem" | "keyPem">;

/**
 * Posts one JSON body and returns the response of any status. Uses HTTP/2 or HTTP/1.1 as the server selects by ALPN, so it works with a TLS
 * proxy and with core's ingest listener. Opens a connection for each request, unless there is an open session: requests are minutes apart, and
 * none fails because the server has restarted. Follows no redirect. Throws `ManagementError` (`unreachable`, `server_untrusted`, `timeout`,
 * `answer_invalid`), or the signal's reason.
 */
export const postJson = (
  options: TransportOptions,
  request: PostedRequest,
): Promise<ManagementResponse> =>
  (options.tracer ?? untraced).serve(
    { name: `POST ${request.path}`, kind: "client", facts: { "http.request.method": "POST" } },
    undefined,
    async (span) => {
      const response = await exchangeJson(options, request, span.traceparent);
      span.set({ "http.response.status_code": response.status });
      if (response.status >= 400) span.fail();
      return response;
    },
  );

const exchangeJson = async (
  options: TransportOptions,
  request: PostedRequest,
  traceparent: string | undefined,
): Promise<ManagementResponse> => {
  const url = new URL(options.baseUrl.replace(/(?<!\/)\/+$/, "") + request.path);
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal =
    request.signal === undefined ? timeout : AbortSignal.any([timeout, request.signal]);
  const body = Buffer.from(JSON.stringify(request.body));
  const headers = {
    "content-type": "application/json",
    "content-length": String(body.byteLength),
    accept: "application/json, application/problem+json",
    ...(request.bearer === undefined ? {} : { authorization: `Bearer ${request.bearer}` }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  try {
    return await untilAborted(signal, async (endBy) => {
      const open = request.credentials && options.session?.();
      if (open !== undefined) {
        const { stream, response } = exchangeHttp2(open, url, headers, body);
        endBy(() => stream.close(constants.NGHTTP2_CANCEL));
        return response;
      }
      const socket = await openConnection(url, options, request.credentials, signal);
      endBy(() => socket.destroy());
      if (socket.alpnProtocol !== "h2") return exchangeHttp1(socket, url, headers, body);
      const session = connectHttp2(url.origin, { createConnection: () => socket });
      session.on("error", () => undefined);
      return exchangeHttp2(session, url, headers, body).response;
    });
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason;
    if (error instanceof ManagementError) throw error;
    if (timeout.aborted)
      throw new ManagementError({
        code: "timeout",
        action: "retry",
        message: "core did not answer in time",
      });
    const failure = (await clockFailure(error, options)) ?? connectionFailure(error);
    throw new ManagementError(failure, { cause: error });
  }
};

/** Runs an exchange, and rejects with the signal's reason as soon as it aborts. Then ends what the exchange uses, as it says by `endBy`. */
const untilAborted = async (
  signal: AbortSignal,
  exchange: (endBy: (end: () => void) => void) => Promise<ManagementResponse>,
): Promise<ManagementResponse> => {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  aborted.catch(() => undefined);
  let end: () => void = () => undefined;
  const abort = () => {
    reject(signal.reason);
    end();
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const response = exchange((endConnection) => {
      end = endConnection;
    });
    response.catch(() => undefined);
    return await Promise.race([response, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
    end();
  }
};

/** Describes a server certificate that is not yet valid or has expired, with the server's time: this host's clock may be wrong. */
const clockFailure = async (
  error: unknown,
  { resume: _, ...options }: TransportOptions,
): Promise<ManagementFailure | undefined> => {
  if (options.isProbe || !/^CERT_(NOT_YET_VALID|HAS_EXPIRED)$/.test(errorCode(error) ?? "")) return;
  const probing = { ...options, caPem: undefined, isProbe: true };
  const probe = exchangeJson(probing, { path: "/", body: {} }, undefined);
  const date = await probe.then((answer) => answer.date).catch(() => undefined);
  const message = `the server's ${(error as Error).message}: this host's clock says ${new Date(Date.now()).toUTCString()}, the server's ${date ?? "nothing"}`;
  return { ...connectionFailure(error), action: "fix_clock", message };
};

const connectionFailure = (error: unknown): ManagementFailure => {
  if (error instanceof ProxyError)
    return {
      code: error.code,
      action: error.code === "unreachable" ? "retry" : "stop",
      message: error.message,
    };
  const reason = error instanceof Error ? error.message : "";
  const code = errorCode(error) ?? "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return {
      code: "server_untrusted",
      action: "stop",
      message: "the server's certificate is for another name",
    };
  if (isUntrusted(error))
    return {
      code: "server_untrusted",
      action: "stop",
      // Node's own advice follows a semicolon.
      message: `the server's certificate is not trusted: ${reason.split(";")[0]}; compare the CA bundle given with core's CA`,
    };
  if (/wrong version number/.test(reason))
    return {
      code: "unreachable",
      action: "retry",
      message: "there is no TLS on this port; use that of core's TLS edge",
    };
  return {
    code: "unreachable",
    action: "retry",
    message: reason.trim().slice(0, 300) || "the connection failed",
  };
};

const openConnection = async (
  url: URL,
  options: TransportOptions,
  credentials: PemCredentials | undefined,
  signal: AbortSignal,
): Promise<Socket & { alpnProtocol?: TLSSocket["alpnProtocol"] }> => {
  const server = tlsServer(url, options.serverName);
  if (url.protocol === "http:") {
    const socket = connectTcp({ host: server.host, port: Number(url.port || 80), signal });
    await once(socket, "connect");
    return socket;
  }
  const settings = {
    ...server,
    ALPNProtocols: ["h2", "http/1.1"],
    rejectUnauthorized: options.isProbe !== true,
    ca: options.caPem,
    ...(credentials === undefined
      ? {}
      : { cert: credentials.certificatePem, key: credentials.keyPem }),
  };
  return openTls(settings, { proxy: options.proxy, resume: options.resume, signal });
};

const exchangeHttp1 = (
  socket: Socket,
  url: URL,
  headers: Record<string, string>,
  body: Buffer,
): Promise<ManagementResponse> =>
  new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        method: "POST",
        path: url.pathname,
        headers: { host: url.host, connection: "close", ...headers },
        createConnection: () => socket,
      },
      (response) => {
        readResponse(response, response.statusCode ?? 0, response.headers).then(resolve, reject);
      },
    );
    request.once("error", reject);
    request.end(body);
  });

const exchangeHttp2 = (
  session: ClientHttp2Session,
  url: URL,
  headers: Record<string, string>,
  body: Buffer,
): { stream: ClientHttp2Stream; response: Promise<ManagementResponse> } => {
  const { promise, resolve, reject } = Promise.withResolvers<ManagementResponse>();
  session.once("error", reject);
  const stream = session.request({
    ":method": "POST",
    // Node's default has no brackets around an IPv6 address.
    ":authority": url.host,
    ":path": url.pathname,
    ...headers,
  });
  stream.on("error", reject);
  stream.once("close", () => {
    session.off("error", reject);
    reject(new Error("the server closed the stream without a response"));
  });
  stream.once("response", (response) => {
    readResponse(stream, Number(response[":status"] ?? 0), response).then(resolve, reject);
  });
  stream.end(body);
  return { stream, response: promise };
};

const readResponse = async (
  stream: Readable,
  status: number,
  headers: IncomingHttpHeaders,
): Promise<ManagementResponse> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += (chunk as Buffer).byteLength;
    if (size > jsonLimits.managementAnswer.bytes)
      throw new ManagementError({
        code: "answer_invalid",
        action: "retry",
        status,
        message: "the response is too long",
      });
    chunks.push(chunk as Buffer);
  }
  return {
    status,
    contentType: headers["content-type"] ?? "",
    retryAfter: headers["retry-after"],
    date: headers.date,
    text: Buffer.concat(chunks).toString("utf8"),
  };
};
