/**
 * The ingest listener: one HTTP/2 port with mutual TLS for the ingest service and for the management requests of collectors. It serves
 * HTTP/1.1 clients too. The TLS certificate alone identifies the caller; headers do not.
 */

import type { X509Certificate } from "node:crypto";
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { createContextValues } from "@connectrpc/connect";
import { compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { getRequestListener } from "@hono/node-server";
import type { Clock } from "../../kit/clock.ts";
import { errorCode } from "../../kit/describe-error.ts";
import { identityOfCertificate } from "../../proto/identity.ts";
import type { HttpContext, Peer } from "../http/request.ts";
import { type CallerCertificate, callerCertificateKey } from "../ingest/admission.ts";
import { toConnectError } from "../ingest/connect-error.ts";
import type { IngestRoutes } from "../ingest/service.ts";
import { Problem } from "../problems.ts";
import { answerAdapterError, answerUnreadable } from "./answer-unreadable.ts";
import { type HandshakeLimits, handshakeLimits, limitHandshakes } from "./handshake-limits.ts";
import type { Reloaded } from "./reload-files.ts";
import type { TlsMaterial } from "./tls-files.ts";

/** Options of the ingest listener. */
export interface IngestListenerOptions {
  host: string;
  port: number;
  /** New connections use the newest; open ones keep the one of their handshake. */
  tls: Reloaded<TlsMaterial>;
  ingest: IngestRoutes;
  /** Serves every path outside the ingest service: the management routes, with `ingestPeerOf`. */
  app: { fetch(request: Request, env: unknown): Response | Promise<Response> };
  clock: Pick<Clock, "monotonic">;
  log: { warn(fields: object, message: string): void };
  /** In place of the defaults. */
  handshakes?: Partial<HandshakeLimits>;
}

/** A listening ingest port. */
export interface IngestListener {
  port: number;
  /** Accepts no new connection, sends GOAWAY on open ones, and destroys those still open after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const streamWindowBytes = 4 * 1024 * 1024;
const connectionWindowBytes = 16 * 1024 * 1024;
const minVersion = "TLSv1.2";
const pingIntervalMs = 30_000;

interface PeerOfConnection {
  caller: CallerCertificate;
  der: Uint8Array<ArrayBuffer>;
}

/** Starts listening. Rejects when the address is not available. */
export const startIngestListener = async (options: IngestListenerOptions): Promise<IngestListener> => {
  const { ingest, app, clock, log } = options;
  const peers = new WeakMap<TLSSocket, PeerOfConnection>();
  const sessions = new Set<ServerHttp2Session>();

  const server = createSecureServer({
    ...options.tls.current(),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion,
    allowHTTP1: true,
    settings: {
      initialWindowSize: streamWindowBytes,
      maxConcurrentStreams: 128,
      maxHeaderListSize: 32 * 1024,
      enablePush: false,
    },
    // A flood of invalid frames, rejected streams or header fragments ends the connection (G2).
    streamResetBurst: 200,
    streamResetRate: 20,
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
    maxSettings: 32,
    maxSessionMemory: 64,
  });

  const peerOf = (request: IncomingMessage | Http2ServerRequest): PeerOfConnection | undefined => {
    const socket = socketOf(request);
    const known = peers.get(socket);
    if (known) return known;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return undefined;
    const peer = readPeer(certificate);
    peers.set(socket, peer);
    return peer;
  };

  const management = getRequestListener(
    (request, bindings) => app.fetch(request, { ...bindings, peerCertificate: peerOf(bindings.incoming)?.der ?? null }),
    { overrideGlobalObjects: false, errorHandler: answerAdapterError },
  );
  const adapter = connectNodeAdapter({
    routes: (router) => ingest.routes(router, limitedGzip),
    readMaxBytes: ingest.readMaxBytes,
    // Nothing reads them, and a frame can have two million.
    binaryOptions: { readUnknownFields: false },
    requestGate: ingest.requestGate,
    acceptCompression: [limitedGzip],
    contextValues: (request) => createContextValues().set(callerCertificateKey, peerOf(request)?.caller),
    fallback: (request, response) =>
      void management(request as IncomingMessage, response as ServerResponse).catch((err: unknown) =>
        log.warn({ err }, "a management request ended early"),
      ),
  });
  const connections = limitHandshakes(server, { limits: { ...handshakeLimits, ...options.handshakes }, clock, log });
  answerUnreadable(server);
  server.on("request", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    if ("stream" in request) endWithResponse(request.stream);
    adapter(request, response);
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.setLocalWindowSize(connectionWindowBytes);
    session.once("close", () => sessions.delete(session));
    session.on("error", () => undefined);
  });
  server.on("tlsClientError", (err: Error & { code?: string }, socket) => {
    log.warn({ code: err.code, remote_address: socket.remoteAddress }, "TLS handshake failed");
    socket.destroy();
  });
  server.on("sessionError", () => undefined);

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  options.tls.subscribe((material) => server.setSecureContext({ ...material, minVersion }));
  const pings = setInterval(() => {
    for (const session of sessions) pingOrDestroy(session);
  }, pingIntervalMs);
  pings.unref();

  return {
    port: (server.address() as AddressInfo).port,
    async close(graceMs) {
      clearInterval(pings);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      ingest.stop();
      connections.destroyUnfinished();
      for (const session of sessions) session.close();
      const timer = setTimeout(() => {
        for (const session of sessions) session.destroy();
        connections.destroyAll();
      }, graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
};

/** Returns the peer of a request to `app`, for `createApp`: at this listener it ignores a proxy header. */
export const ingestPeerOf = (c: HttpContext): Peer => {
  const { incoming, peerCertificate } = c.env as {
    incoming: IncomingMessage | Http2ServerRequest;
    peerCertificate: Uint8Array<ArrayBuffer> | null;
  };
  return {
    remoteAddress: socketOf(incoming).remoteAddress ?? "",
    certificate: peerCertificate,
    listener: "ingest",
  };
};

const socketOf = (request: IncomingMessage | Http2ServerRequest): TLSSocket => {
  // The `socket` of an HTTP/2 request is a proxy that hides the methods of the connection.
  const socket = "stream" in request ? request.stream.session?.socket : request.socket;
  return (socket ?? request.socket) as TLSSocket;
};

const readPeer = (certificate: X509Certificate): PeerOfConnection => {
  const der = Uint8Array.from(certificate.raw);
  return {
    der,
    caller: {
      identity: identityOfCertificate(der),
      fingerprintSha256: createHash("sha256").update(der).digest("hex"),
      notAfter: certificate.validToDate.getTime(),
    },
  };
};

const inflate = promisify(gunzip);
const inflateChunkBytes = 256 * 1024;

/**
 * gzip that bounds its output before it makes it (G1), and whose errors have a reason. In large chunks: zlib returns to the event loop
 * for each, and by default a frame of 1 MiB has 64 of them.
 */
const limitedGzip: typeof compressionGzip = {
  ...compressionGzip,
  decompress: async (bytes, readMaxBytes) => {
    if (bytes.length === 0) return new Uint8Array();
    try {
      return await inflate(bytes, { maxOutputLength: readMaxBytes, chunkSize: inflateChunkBytes });
    } catch (cause) {
      const tooLarge = errorCode(cause) === "ERR_BUFFER_TOO_LARGE";
      throw toConnectError(new Problem(tooLarge ? "frame_too_large" : "frame_invalid", { cause }));
    }
  },
};

/** Resets a stream after its response, so that a rejected sender stops sending (RFC 9113, 8.1). */
const endWithResponse = (stream: ServerHttp2Stream): void => {
  // The response listens first, and sends its trailers then; a reset before that would drop them.
  stream.once("wantTrailers", () =>
    setImmediate(() => {
      if (!stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
    }),
  );
};

/** Detects a host that vanished: TCP alone would keep its streams, which count against its limit, for hours. */
const pingOrDestroy = (session: ServerHttp2Session): void => {
  if (session.destroyed || session.closed) return;
  const unanswered = setTimeout(() => session.destroy(), pingIntervalMs / 2);
  unanswered.unref();
  try {
    session.ping(() => clearTimeout(unanswered));
  } catch {
    clearTimeout(unanswered);
  }
};
