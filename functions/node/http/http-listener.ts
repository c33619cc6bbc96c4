import { randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { AddressInfo, Server as NetServer, Socket } from "node:net";
import { Duplex } from "node:stream";
import { constants, createBrotliCompress, createGzip, createZstdCompress } from "node:zlib";
import { getRequestListener, RequestError } from "@hono/node-server";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import { type ContentCoding, compressAnswer } from "#kit/compress-answer.ts";
import { containFailures } from "#kit/contain-failures.ts";
import { errorCode } from "#kit/describe-error.ts";
import { type UnreadableRequest, unreadableAnswer } from "#kit/problem-document.ts";

/** A listener that accepts connections. */
export interface Listener {
  port: number;
  /** Stops accepting connections, lets requests in flight finish for `graceMs`, then closes the remaining connections. */
  close(graceMs: number): Promise<void>;
}

/** Returns the peer of a request on the plain HTTP listener, which has no TLS and so never a client certificate. */
export const httpPeerOf = (c: HttpContext): Peer => {
  const { incoming } = c.env as { incoming: IncomingMessage };
  return {
    remoteAddress: incoming.socket.remoteAddress ?? "",
    certificate: null,
    listener: "http",
  };
};

/** A connection on which nothing has been sent or received for this time ends; a stream of events sends a comment in less. */
const idleMs = 120_000;
/** A closing listener ends idle connections this often. */
const closeIdleMs = 50;

/**
 * Serves a fetch handler over HTTP/1.1 on one address, or on every interface for `host` null. Limits slow and idle clients, and compresses
 * data for those who accept it.
 */
export const listenHttp = async (
  app: { fetch(request: Request, env: object): Response | Promise<Response> },
  {
    port,
    host,
    connectionsMax,
    onFailure = () => undefined,
  }: {
    port: number;
    host: string | null;
    connectionsMax?: number;
    /** Receives the error of a request or connection whose callback throws, and which then ends. */
    onFailure?: (error: unknown) => void;
  },
): Promise<Listener> => {
  const server = createServer({
    requestTimeout: 60_000,
    headersTimeout: 15_000,
    connectionsCheckingInterval: 5_000,
    keepAliveTimeout: 75_000,
    maxHeaderSize: 32 * 1024,
    IncomingMessage: BoundedRequest,
    requireHostHeader: false,
  });
  server.timeout = idleMs;
  const options = { overrideGlobalObjects: false, errorHandler: answerAdapterError };
  const answer = async (request: Request, env: object) =>
    compressAnswer(request, await app.fetch(request, env), contentCodings);
  const serve = getRequestListener(answer, options);
  const underWay = new Set<ServerResponse>();
  let isClosing = false;
  serveConnections(
    server,
    (request, response) => {
      request.headers.host = requestAuthority;
      underWay.add(response);
      response.once("close", () => underWay.delete(response));
      response.shouldKeepAlive &&= !isClosing;
      return serve(request, response);
    },
    connectionsMax,
  );
  answerUnreadable(server);
  containFailures(server, onFailure);
  return {
    port: await startListening(server, { port, host }),
    close: (graceMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), graceMs);
        isClosing = true;
        // A client that is told sends its next request on another connection, and not on one that is just being closed.
        for (const response of underWay) response.shouldKeepAlive &&= response.headersSent;
        // Again and again: a client may keep a connection whose last response ends later.
        const closing = setInterval(() => server.closeIdleConnections(), closeIdleMs);
        server.close(() => {
          clearTimeout(timer);
          clearInterval(closing);
          resolve();
        });
      }),
  };
};

/** Resolves with the port once a server listens, and rejects if it cannot. */
export const startListening = async (
  server: NetServer,
  { port, host }: { port: number; host: string | null },
): Promise<number> => {
  server.listen({ port, ...(host === null ? {} : { host }) });
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

const through = (body: ReadableStream<Uint8Array>, coder: Duplex) =>
  body.pipeThrough(Duplex.toWeb(coder) as object as ReadableWritablePair<Uint8Array, Uint8Array>);

/**
 * Node's codings, the cheapest first: at levels that make less than 40 KB of 200 hosts with names and hashes of their own, 294 KB, in 0.6,
 * 1.6 and 2.4 ms of CPU.
 */
const contentCodings: readonly ContentCoding[] = [
  {
    name: "zstd",
    compress: (body) =>
      through(body, createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 } })),
  },
  {
    name: "br",
    compress: (body) =>
      through(body, createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 3 } })),
  },
  { name: "gzip", compress: (body) => through(body, createGzip({ level: 5 })) },
];

/** More than the connections of an edge for a fleet of 10,000 hosts; the header fields of all take at most 64 MiB. */
const connectionsMaxDefault = 2_048;
const pipelinedMax = 16;

/** The chunks that a body may have besides one for each 64 bytes. */
const chunksMax = 256;
const chunkBytesMin = 64;

/** A request that ends its connection instead of a body in tiny chunks. */
class BoundedRequest extends IncomingMessage {
  #chunks = 0;
  #bytes = 0;

  /** Node's parser calls it with each chunk of the body, and with null at its end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (chunk === null) return super.push(chunk, encoding);
    this.#bytes += chunk.length;
    const isBounded = ++this.#chunks <= chunksMax + this.#bytes / chunkBytesMin;
    if (isBounded) return super.push(chunk, encoding);
    if (!this.socket.destroyed) this.destroy(new Error("the body has too many chunks"));
    return false;
  }
}

interface Connection {
  current?: { request: IncomingMessage; response: ServerResponse };
  pipelined: number;
}

/** A read has at most 64 KiB, which are 1,300 requests; the first part of it holds most header fields. */
const firstPartBytes = 4_096;

/** Passes what a connection reads to Node's parser in parts, until the connection has ended. */
const parseInParts = (socket: Socket) => {
  const [parse] = socket.listeners("data");
  if (parse === undefined) return;
  socket.removeListener("data", parse as () => void);
  // Node's parser reads the socket itself until there is a listener for data.
  socket.on("data", (bytes: Buffer<ArrayBuffer>) => {
    let partBytes = firstPartBytes;
    for (let at = 0; at < bytes.length && !socket.destroyed; ) {
      // Node pauses a connection with waiting responses; meanwhile its parser accepts no bytes.
      if (socket.isPaused()) return void socket.unshift(bytes.subarray(at));
      parse(bytes.subarray(at, at + partBytes));
      at += partBytes;
      // Each part of a body is an object.
      partBytes *= 4;
    }
    // The parser has copied the bytes that it needs. Until a garbage collection, the reads of a flood would take 60 MB.
    if (bytes.byteLength === bytes.buffer.byteLength) bytes.buffer.transfer(0);
  });
};

/**
 * Serves the requests of a server by `listener`, and limits the cost of connections before their requests are complete:
 * 1. At the limit of open connections, a new one ends the oldest that waits for bytes of its client: without a request, or with an incomplete
 *    body. If there is none, the new one ends.
 * 2. A connection serves one request at a time. One that pipelines ends after the response to its first request, or at once with more than a few:
 *    Node would begin them all, thousands in one packet. Clients send the others again (RFC 9112, 9.3.2).
 * 3. A body in tiny chunks ends its connection: Node creates an object for each, 10,000 for 64 KiB on the wire.
 * 4. Node parses all bytes of a read, also those after a request that ended the connection: so it gets each read in parts.
 */
const serveConnections = (
  server: Server,
  listener: RequestListener,
  connectionsMax = connectionsMaxDefault,
) => {
  /** The oldest first. */
  const connections = new Map<Socket, Connection>();
  const oldestWaiting = (): Socket | undefined => {
    for (const [socket, { current }] of connections)
      if (current === undefined || !current.request.complete) return socket;
    return undefined;
  };
  server.on("connection", (socket: Socket) => {
    if (connections.size >= connectionsMax) {
      const ended = oldestWaiting() ?? socket;
      connections.delete(ended);
      ended.destroy();
      if (ended === socket) return;
    }
    connections.set(socket, { pipelined: 0 });
    parseInParts(socket);
    socket.once("close", () => connections.delete(socket));
  });
  server.on("request", (request, response) => {
    const { socket } = request;
    const connection = connections.get(socket);
    if (connection === undefined) return;
    const { current } = connection;
    if (current !== undefined) {
      if (++connection.pipelined > pipelinedMax) socket.destroy();
      else if (connection.pipelined === 1)
        current.response.once("close", () => socket.destroySoon());
      return;
    }
    connection.current = { request, response };
    response.once("close", () => {
      delete connection.current;
    });
    listener(request, response);
  });
};

/** A server that speaks HTTP/1.1: plain, or over TLS beside HTTP/2. */
interface Http1Server {
  on(event: "clientError", listener: (error: Error, socket: Socket) => void): unknown;
  on(
    event: "request",
    listener: (request: IncomingMessage, response: ServerResponse) => void,
  ): unknown;
}

/**
 * The authority of each request that adapters and apps receive. The client's own may be absent or invalid, and an adapter that builds a URL from it
 * would throw outside of every handler.
 */
export const requestAuthority = "localhost";

/** Problem codes by the error codes of Node's parser; any other error is `malformed_request`. */
const codes: Readonly<Record<string, UnreadableRequest>> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/**
 * Answers bytes that Node cannot read as a request with a problem document, and closes the connection; Node's own answer has an empty
 * body. Only closes the connection when a response is being sent, the client has disconnected or the TLS handshake is unfinished.
 */
export const answerUnreadable = (server: Http1Server): void => {
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  server.on("request", (request, response) => {
    // HTTP/2 closes a stream by itself, and `request.socket` is a proxy there.
    if (request.httpVersionMajor !== 1) return;
    const { socket } = request;
    // A client that pipelines requests has several responses open.
    const open = answers.getOrInsertComputed(socket, () => new Set()).add(response);
    response.once("close", () => open.delete(response));
  });
  server.on("clientError", (error, socket) => {
    const isSending = [...(answers.get(socket) ?? [])].some(
      (answer) => answer.headersSent && !answer.writableFinished,
    );
    if (!socket.writable || isSending || isUnfinishedHandshake(socket)) {
      socket.destroy();
      return;
    }
    socket.write(rawAnswer(codes[errorCode(error) ?? ""] ?? "malformed_request"));
    socket.destroySoon();
  });
};

/** A TLS server reports a failed handshake as a client error too, and what is written then waits for its end. */
const isUnfinishedHandshake = (socket: Socket & { secureConnecting?: boolean }) =>
  socket.secureConnecting === true;

/** Returns the response to a request that Node could read and Hono's adapter could not, because its target is not a URL. */
export const answerAdapterError = (error: unknown): Response => {
  // Apps answer their own errors; any other may hold secrets.
  if (!(error instanceof RequestError)) return new Response(null, { status: 500 });
  const { status, headers, body } = unreadableAnswer("malformed_request", randomUUID());
  return new Response(body, { status, headers });
};

const rawAnswer = (code: UnreadableRequest) => {
  const { status, headers, body } = unreadableAnswer(code, randomUUID());
  const lines = Object.entries({ ...headers, "Content-Length": String(Buffer.byteLength(body)) });
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    "",
    body,
  ].join("\r\n");
};
