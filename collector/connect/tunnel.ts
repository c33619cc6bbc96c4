import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { errorCode, fileFault } from "#kit/describe-error.ts";
import { readPrivateText, readTrustedText, UnsafeFileError } from "../files/private-files.ts";
import { readableCertificates } from "../identity/credentials.ts";
import type { Server } from "./no-proxy.ts";
import { type ConnectProxy, ProxyError, proxyName } from "./proxy.ts";
import { isUntrusted, tlsServer } from "./resume-tls.ts";

/** Shorter than the timeout of any request to core, so that a silent proxy is named. */
const tunnelTimeoutMs = 20_000;

/**
 * Opens a tunnel to a server by a CONNECT request (RFC 9110, section 9.3.6), with node:http: the libraries for it bound neither the header nor
 * the time of an answer. Reads the files of the proxy each time, so a change of them counts from the next connection on. Throws `ProxyError`,
 * or the signal's reason.
 */
export const openTunnel = async (
  proxy: ConnectProxy,
  server: Server,
  signal: AbortSignal,
  timeoutMs = tunnelTimeoutMs,
): Promise<Socket> => {
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = AbortSignal.any([signal, timeout]);
  let socket: Socket | undefined;
  try {
    const credentials = await credentialsOf(proxy);
    const dialled = await dial(proxy);
    socket = dialled.socket;
    // Each failure rejects what waits for the socket.
    socket.on("error", () => undefined);
    await once(socket, dialled.opened, { signal: either });
    const refusal = await requestTunnel(socket, server, credentials, either);
    if (refusal === undefined) return socket;
    throw new ProxyError(`the proxy ${proxyName(proxy)} ${refusal}`);
  } catch (cause) {
    socket?.destroy();
    signal.throwIfAborted();
    if (cause instanceof ProxyError) throw cause;
    const fault = timeout.aborted
      ? `did not answer within ${timeoutMs / 1000} s`
      : describeFault(cause);
    throw new ProxyError(`the proxy ${proxyName(proxy)} ${fault}`, { cause });
  }
};

/** Begins a connection to a proxy; `opened` is the event of its success. */
const dial = async (proxy: ConnectProxy): Promise<{ socket: Socket; opened: string }> => {
  const url = new URL(proxy.url);
  if (url.protocol === "http:") {
    const address = { ...tlsServer(url, undefined), port: Number(url.port || 80) };
    return { socket: connectTcp(address), opened: "connect" };
  }
  const caPem = await ofFile("ca_file", proxy.caFile, readProxyAuthorities);
  const settings = { ...tlsServer(url, undefined), ...(caPem === undefined ? {} : { ca: caPem }) };
  return { socket: connectTls(settings), opened: "secureConnect" };
};

/** Asks for a tunnel on an open connection. Returns why there is none; undefined if there is. */
const requestTunnel = async (
  socket: Socket,
  { host, port }: Server,
  credentials: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const request = httpRequest({
    method: "CONNECT",
    path: authority,
    headers: {
      host: authority,
      connection: "keep-alive",
      ...(credentials === undefined
        ? {}
        : { "proxy-authorization": `Basic ${Buffer.from(credentials).toString("base64")}` }),
    },
    createConnection: () => socket,
  });
  request.on("error", () => undefined);
  request.end();
  const [{ statusCode = 0 }, , more]: [IncomingMessage, Socket, Buffer] = (await once(
    request,
    "connect",
    { signal },
  )) as never;
  // tinyproxy rejects wrong credentials with 401.
  if (statusCode === 407 || statusCode === 401)
    return credentials === undefined
      ? `demands credentials (HTTP ${statusCode}): set proxy.credentials_file`
      : `rejects these credentials (HTTP ${statusCode}): correct proxy.credentials_file`;
  if (statusCode < 200 || statusCode > 299)
    return `answers CONNECT ${authority} with HTTP ${statusCode}`;
  // A TLS server sends nothing before its client has.
  return more.length > 0
    ? `answers CONNECT ${authority} with HTTP ${statusCode} and more`
    : undefined;
};

/** Returns `user:password`, of the file or of a URL of the environment. */
const credentialsOf = async ({
  url,
  credentialsFile,
}: ConnectProxy): Promise<string | undefined> => {
  const { username, password } = new URL(url);
  if (username !== "") return [username, password].map(decodeURIComponent).join(":");
  return ofFile("credentials_file", credentialsFile, readProxyCredentials);
};

/** Reads a file that a key of `proxy` names, if it names one. */
const ofFile = async (
  key: string,
  path: string | undefined,
  read: (path: string) => Promise<string>,
): Promise<string | undefined> => {
  try {
    return path === undefined ? undefined : await read(path);
  } catch (cause) {
    throw new ProxyError(`proxy.${key} ${fileFault(cause)}`, { cause });
  }
};

/** Reads `user:password` from a private file. Its errors quote nothing. */
export const readProxyCredentials = async (path: string): Promise<string> => {
  const text = (await readPrivateText(path)).trim();
  if (/^[^:\p{Cc}]+:\P{Cc}*$/u.test(text)) return text;
  throw new UnsafeFileError("must be one line, user:password");
};

/** Reads the authorities of a proxy's certificate. */
export const readProxyAuthorities = async (path: string): Promise<string> => {
  const pem = readableCertificates(await readTrustedText(path));
  if (pem !== "") return pem;
  throw new UnsafeFileError("contains no PEM certificate");
};

/** Says of a proxy what an error of the connection to it means. */
const describeFault = (error: unknown): string => {
  const code = errorCode(error) ?? "";
  const message = error instanceof Error ? error.message.slice(0, 300) : "";
  if (isUntrusted(error))
    return `has a certificate that is not trusted: ${message.split(";")[0]}; compare proxy.ca_file`;
  if (code.startsWith("HPE_")) return `does not answer as an HTTP proxy: ${message}`;
  if (code === "ECONNRESET") return "closed the connection before it had answered";
  // The error of a name with several addresses has a code alone.
  return `cannot be reached: ${message || code}`;
};
