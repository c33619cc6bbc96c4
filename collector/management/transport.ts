import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import type { Readable } from "node:stream";
import { checkServerIdentity, connect as connectTls } from "node:tls";
import { errorCode } from "../../kit/describe-error.ts";
import type { Credentials } from "../identity/credentials.ts";
import { ManagementError, type ManagementFailure, type ManagementResponse } from "./management-error.ts";

/** How to reach core. */
export interface TransportOptions {
  /** `https://…`, or `http://…` where the caller has made sure that it is a loopback address. A path is a prefix. */
  baseUrl: string;
  /** PEM of the only accepted authorities; the system's when undefined. */
  caPem: string | undefined;
  /** The name that the server's certificate must have; the URL's host when undefined. */
  serverName: string | undefined;
  /** For the whole exchange. */
  timeoutMs: number;
}

type PemCredentials = Pick<Credentials, "certificatePem" | "keyPem">;

const answerBytesMax = 1_048_576;

/**
 * Posts one JSON body and gives the answer, whatever its status. Speaks HTTP/2 or HTTP/1.1 as the server chooses by ALPN, so that
 * a TLS proxy and core's ingest listener both serve. One connection each time: requests are minutes apart, and a proxy or core
 * that was restarted costs no failed one. Redirects are not followed. Throws `ManagementError` (`unreachable`, `server_untrusted`, `timeout`,
 * `answer_invalid`), or the signal's reason.
 */
export const postJson = async (
  options: TransportOptions,
  request: { path: string; body: object; bearer?: string; credentials?: PemCredentials; signal?: AbortSignal },
): Promise<ManagementResponse> => {
  const url = new URL(options.baseUrl.replace(/\/+$/, "") + request.path);
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = request.signal === undefined ? timeout : AbortSignal.any([timeout, request.signal]);
  const body = Buffer.from(JSON.stringify(request.body));
  const headers = {
    "content-type": "application/json",
    "content-length": String(body.byteLength),
    accept: "application/json, application/problem+json",
    ...(request.bearer === undefined ? {} : { authorization: `Bearer ${request.bearer}` }),
  };
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  let socket: Socket | undefined;
  const stop = () => {
    reject(signal.reason);
    socket?.destroy();
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    const exchange = async (): Promise<ManagementResponse> => {
      const connection = openConnection(url, options, request.credentials);
      socket = connection.socket;
      const protocol = await connection.protocol;
      return protocol === "h2"
        ? exchangeHttp2(connection.socket, url, headers, body)
        : exchangeHttp1(connection.socket, url, headers, body);
    };
    const answer = exchange();
    answer.catch(() => undefined);
    return await Promise.race([answer, promise]);
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason;
    if (error instanceof ManagementError) throw error;
    if (timeout.aborted)
      throw new ManagementError({ code: "timeout", action: "retry", message: "core did not answer in time" });
    throw new ManagementError(connectionFailure(error), { cause: error });
  } finally {
    signal.removeEventListener("abort", stop);
    socket?.destroy();
  }
};

const connectionFailure = (error: unknown): ManagementFailure => {
  const reason = error instanceof Error ? error.message : "";
  const code = errorCode(error) ?? "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return { code: "server_untrusted", action: "stop", message: "the server's certificate is for another name" };
  if (/^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/.test(code))
    return { code: "server_untrusted", action: "stop", message: `the server's certificate is not trusted: ${reason}` };
  return { code: "unreachable", action: "retry", message: reason.slice(0, 300) || "the connection failed" };
};

const openConnection = (url: URL, options: TransportOptions, credentials: PemCredentials | undefined) => {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const { promise, resolve, reject } = Promise.withResolvers<"h2" | "http/1.1">();
  if (url.protocol === "http:") {
    const socket = connectTcp({ host, port: Number(url.port || 80) }, () => resolve("http/1.1"));
    socket.once("error", reject);
    return { socket, protocol: promise };
  }
  const name = options.serverName ?? host;
  const socket = connectTls({
    host,
    port: Number(url.port || 443),
    // An address is not allowed in the TLS name indication; the certificate is checked against it all the same.
    ...(isIP(name) === 0 ? { servername: name } : {}),
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    ALPNProtocols: ["h2", "http/1.1"],
    minVersion: "TLSv1.2",
    ...(options.caPem === undefined ? {} : { ca: options.caPem }),
    ...(credentials === undefined ? {} : { cert: credentials.certificatePem, key: credentials.keyPem }),
  });
  socket.once("secureConnect", () => resolve(socket.alpnProtocol === "h2" ? "h2" : "http/1.1"));
  socket.once("error", reject);
  return { socket, protocol: promise };
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
        readAnswer(response, response.statusCode ?? 0, response.headers).then(resolve, reject);
      },
    );
    request.once("error", reject);
    request.end(body);
  });

const exchangeHttp2 = (
  socket: Socket,
  url: URL,
  headers: Record<string, string>,
  body: Buffer,
): Promise<ManagementResponse> =>
  new Promise((resolve, reject) => {
    const session = connectHttp2(url.origin, { createConnection: () => socket });
    session.once("error", reject);
    const stream = session.request({ ":method": "POST", ":path": url.pathname, ...headers });
    stream.once("error", reject);
    stream.once("close", () => reject(new Error("the server closed the stream without an answer")));
    stream.once("response", (response) => {
      readAnswer(stream, Number(response[":status"] ?? 0), response).then(resolve, reject);
    });
    stream.end(body);
  });

const readAnswer = async (
  stream: Readable,
  status: number,
  headers: IncomingHttpHeaders,
): Promise<ManagementResponse> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += (chunk as Buffer).byteLength;
    if (size > answerBytesMax)
      throw new ManagementError({ code: "answer_invalid", action: "retry", status, message: "the answer is too long" });
    chunks.push(chunk as Buffer);
  }
  return {
    status,
    contentType: headers["content-type"] ?? "",
    retryAfter: headers["retry-after"],
    text: Buffer.concat(chunks).toString("utf8"),
  };
};
