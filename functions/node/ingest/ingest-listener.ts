/*
 * The ingest listener: one HTTP/2 port with mutual TLS for the ingest service and for the management requests of collectors. It serves
 * HTTP/1.1 clients too. The TLS certificate alone identifies the caller; headers do not.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import { createContextValues } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { getRequestListener } from "@hono/node-server";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import { callerCertificateKey } from "#functions/ingest/admission.ts";
import { directBodiesKey } from "#functions/ingest/direct-bodies.ts";
import type { IngestRoutes } from "#functions/ingest/service.ts";
import { Problem } from "#functions/problems.ts";
import { databaseProblem } from "#functions/store/database/problem.ts";
import type { Clock } from "#kit/clock.ts";
import { containFailures } from "#kit/contain-failures.ts";
import { managementBytesMax } from "#proto/management/proof.ts";
import type { TlsMaterial } from "../follow-files.ts";
import {
  answerAdapterError,
  answerUnreadable,
  requestAuthority,
  startListening,
} from "../http/http-listener.ts";
import type { Reloaded } from "../reload-files.ts";
import { type AgentSockets, agentPath } from "./agent-sockets.ts";
import { type HandshakeLimits, handshakeLimits, limitHandshakes } from "./handshake-limits.ts";
import {
  type Call,
  type CallerLimits,
  type Connection,
  callerLimits,
  createIngestConnections,
} from "./ingest-connections.ts";
import { bodiesOf, endWithResponse, isReset, resetStalled } from "./ingest-streams.ts";
import { createLimitedGzip } from "./limited-gzip.ts";
import { type Arrival, arrivalOfStream, isUsualPost } from "./management-streams.ts";
import { type Exchange, isGrpc, pathOf, refuseCall } from "./refuse-call.ts";

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
  /** The paths that `app` serves, whose callers need an active certificate row. */
  managementPaths: ReadonlySet<string>;
  /** Without them no agent of another maker connects. */
  agents?: AgentSockets | undefined;
  /** In place of the defaults. */
  handshakes?: Partial<HandshakeLimits>;
  callers?: Partial<CallerLimits>;
  /** The deadline of a management request; 15 s by default. */
  bodyTimeoutMs?: number;
  /** A call whose client reads no answer for this time is reset; 30 s by default. */
  stalledMs?: number;
}

/** The bytes that a stream may send before core has read them. */
const streamWindowBytes = 1024 * 1024;
/** Far above the open calls of an identity, so that core can respond to the ninth with a reason. */
const streamsOfConnectionMax = 16;
/**
 * A collector connects for each heartbeat, so it may resume its TLS session for an hour, at half the cost of a handshake. Only a handshake checks
 * the chain; a changed bundle ends all sessions, and each call checks dates and certificate rows.
 */
const tlsSettings = {
  minVersion: "TLSv1.2",
  // Those of TLS 1.3, and of 1.2 what HTTP/2 allows (RFC 9113, appendix A).
  ciphers: `TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE+AESGCM:ECDHE+CHACHA20`,
  sessionTimeout: 3600,
} as const;
const bodyTimeoutMsDefault = 15_000;
const checkMs = 1_000;

/** Starts listening. Rejects when the address is not available. */
export const startIngestListener = async (options: IngestListenerOptions) => {
  const { ingest, app, clock, log } = options;
  const limits = { ...callerLimits, ...options.callers };
  const sessions = new Map<ServerHttp2Session, Connection>();
  const http1 = new WeakMap<object, Connection>();
  const connections = createIngestConnections({ limits, clock, log, admission: ingest });

  const server = createServer(options.tls.current(), limits.idleMs, log);

  const connectionOfStream = ({ session }: ServerHttp2Stream): Connection | undefined =>
    session && sessions.get(session as ServerHttp2Session);
  const connectionOf = (request: Exchange["request"]): Connection | undefined =>
    "stream" in request ? connectionOfStream(request.stream) : http1.get(request.socket);

  const management = serveManagement(app, (incoming) => connectionOf(incoming)?.bindings);
  const limitedGzip = createLimitedGzip();
  const adapter = connectNodeAdapter({
    routes: (router) => ingest.routes(router, limitedGzip),
    readMaxBytes: ingest.readMaxBytes,
    // Nothing reads them, and a frame can have two million.
    binaryOptions: { readUnknownFields: false },
    requestGate: ingest.requestGate,
    acceptCompression: [limitedGzip],
    contextValues: (request) =>
      createContextValues()
        .set(callerCertificateKey, connectionOf(request)?.peer?.caller)
        .set(directBodiesKey, "stream" in request ? bodiesOf(request.stream) : undefined),
    fallback(request, response) {
      const exchange = { request, response } as Exchange;
      if (isGrpc(exchange)) return refuse(exchange, new Problem("method_unknown"));
      void management(request as IncomingMessage, response as ServerResponse).catch(
        (err: unknown) => log.warn({ err }, "a management request ended early"),
      );
    },
  });
  const refuse = (exchange: Exchange, problem: Problem) => {
    const connection = connectionOf(exchange.request);
    // Management requests answer 401 with the codes that are PERMISSION_DENIED at ingest.
    const isRowFault =
      options.managementPaths.has(pathOf(exchange.request)) &&
      problem.code === connection?.rowFault();
    const shown = isRowFault ? new Problem(problem.code, { kind: "unauthenticated" }) : problem;
    refuseCall(exchange, shown, ingest.refused(shown));
    connection?.reject();
  };
  /** Starts a management request before its body is read, or returns why it is rejected. */
  const beginManagement = (arrival: Arrival, connection: Connection): Problem | undefined => {
    const fault = connection.rowFault();
    if (fault !== undefined) return new Problem(fault);
    if (arrival.isUpgrade) return undefined;
    const release = ingest.reserve(managementBytesMax);
    if (release === null) return new Problem("overloaded");
    const timer = setTimeout(() => {
      if (!arrival.isRead()) refuse(arrival.exchange(), new Problem("body_timeout"));
    }, options.bodyTimeoutMs ?? bodyTimeoutMsDefault);
    arrival.lifetime.once("close", () => {
      clearTimeout(timer);
      release();
    });
    return undefined;
  };
  const begin = (arrival: Arrival, connection: Connection) => {
    const rejected = options.managementPaths.has(arrival.path)
      ? beginManagement(arrival, connection)
      : undefined;
    if (rejected) refuse(arrival.exchange(), rejected);
    else arrival.serve();
  };
  const stalled = resetStalled(options.stalledMs ?? 30_000);
  /** Serves a request once its connection has been admitted and a slot acquired. */
  const receive = (arrival: Arrival, connection: Connection) => {
    const call = connection.enter();
    if (call instanceof Problem) {
      refuse(arrival.exchange(), call);
      return;
    }
    const { lifetime } = arrival;
    leaveOnClose(lifetime, call);
    if ("rstCode" in lifetime) stalled.add(lifetime);
    if (call.ready === undefined) begin(arrival, connection);
    void call.ready?.then((rejected) => {
      if (lifetime.destroyed) return;
      if (rejected) refuse(arrival.exchange(), rejected);
      else begin(arrival, connection);
    });
  };
  const sockets = limitHandshakes(server, {
    limits: { ...handshakeLimits, ...options.handshakes },
    clock,
    log,
  });
  containFailures(server, ingest.refused);
  server.on("request", (request: Exchange["request"], response: Exchange["response"]) => {
    const exchange = { request, response };
    const connection = connectionOf(request);
    if (connection === undefined) return void request.socket.destroy();
    if ("stream" in request) endWithResponse(request.stream);
    else request.headers.host = requestAuthority;
    receive(
      {
        path: pathOf(request),
        lifetime: "stream" in request ? request.stream : (response as ServerResponse),
        isRead: () => request.complete,
        exchange: () => exchange,
        serve: () => adapter(request as Http2ServerRequest, response as Http2ServerResponse),
      },
      connection,
    );
  });
  if (options.agents) serveUpgrades(server, { agents: options.agents, http1, receive, refuse });
  const [serveCompatibly] = server.listeners("stream");
  server.removeAllListeners("stream");
  server.on("stream", (stream: ServerHttp2Stream, headers, flags, rawHeaders) => {
    const connection = connectionOfStream(stream);
    headers[":authority"] = requestAuthority;
    if (connection === undefined || !isUsualPost(headers, options.managementPaths))
      return serveCompatibly?.call(server, stream, headers, flags, rawHeaders);
    receive(arrivalOfStream(app, { stream, headers, rawHeaders }, connection.bindings), connection);
  });
  server.on("session", (session) => {
    session.on("error", () => undefined);
    sessions.set(session, connections.open(session.socket as TLSSocket, session));
    session.once("close", () => sessions.delete(session));
  });
  server.on("secureConnection", (socket) => {
    if (socket.alpnProtocol !== "h2") http1.set(socket, connections.open(socket));
  });
  const port = await startListening(server, options);
  options.tls.subscribe((material) => server.setSecureContext({ ...material, ...tlsSettings }));
  const checks = setInterval(() => {
    connections.check();
    options.agents?.check();
  }, checkMs);
  checks.unref();

  return {
    port,
    /** Accepts no new connection, sends GOAWAY on open ones, and destroys those still open after `graceMs`. */
    async close(graceMs: number) {
      clearInterval(checks);
      stalled.stop();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      ingest.stop();
      sockets.destroyUnfinished();
      for (const session of sessions.keys()) session.close();
      const timer = setTimeout(() => {
        for (const session of sessions.keys()) session.destroy();
        sockets.destroyAll();
      }, graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
};

/** Releases the slot of a call at its end. A listener made beside the arrival would keep that, and the request, as long as a socket is open. */
const leaveOnClose = (lifetime: Arrival["lifetime"], { leave }: Call) => {
  lifetime.once("close", () => leave("rstCode" in lifetime && isReset(lifetime)));
};

/** Serves requests of agents to upgrade to WebSocket, with the checks of every request. Others are served as if they did not ask for it. */
const serveUpgrades = (
  server: Http2SecureServer,
  {
    agents,
    http1,
    receive,
    refuse,
  }: {
    agents: AgentSockets;
    http1: WeakMap<object, Connection>;
    receive(arrival: Arrival, connection: Connection): void;
    refuse(exchange: Exchange, problem: Problem): void;
  },
) => {
  const shouldUpgradeCallback = ({ url, headers }: IncomingMessage) =>
    url === agentPath && headers.upgrade?.toLowerCase() === "websocket";
  Object.assign(server, { shouldUpgradeCallback });
  server.on("upgrade", (request: IncomingMessage, socket: TLSSocket, head: Buffer) => {
    socket.on("error", () => undefined);
    const connection = http1.get(socket);
    if (connection === undefined) return void socket.destroy();
    const exchange = () => exchangeOfUpgrade(request, socket);
    const serve = () =>
      void agents.upgrade({ request, socket, head }, connection).catch((error: unknown) => {
        if (!socket.destroyed) refuse(exchange(), problemOf(error));
      });
    const isRead = () => true;
    receive(
      { path: agentPath, lifetime: socket, isUpgrade: true, isRead, exchange, serve },
      connection,
    );
  });
};

/** Returns the exchange of a request to upgrade, whose response closes the connection. */
const exchangeOfUpgrade = (request: IncomingMessage, socket: TLSSocket): Exchange => {
  const response = new ServerResponse(request);
  response.assignSocket(socket);
  response.once("finish", () => socket.destroySoon());
  return { request, response };
};

const problemOf = (error: unknown): Problem =>
  error instanceof Problem
    ? error
    : (databaseProblem(error) ?? new Problem("internal", { cause: error }));

/** Creates the server, which responds to unreadable requests, and survives failures of its connections. */
const createServer = (
  tls: TlsMaterial,
  idleMs: number,
  log: IngestListenerOptions["log"],
): Http2SecureServer => {
  // Node's default of 5 s closed kept connections between two requests, and a client that sent just then got a reset.
  const http1Options = { keepAliveTimeout: idleMs, requireHostHeader: false };
  const server = createSecureServer({
    ...tls,
    requestCert: true,
    // A TLS failure would reach the client as a reset, which it retries: `createIngestConnections` rejects with the reason.
    rejectUnauthorized: false,
    ...tlsSettings,
    allowHTTP1: true,
    http1Options,
    settings: {
      initialWindowSize: streamWindowBytes,
      maxConcurrentStreams: streamsOfConnectionMax,
      maxHeaderListSize: 16 * 1024,
      enablePush: false,
    },
    // A flood of invalid frames, rejected streams or header fragments ends the connection (G2).
    streamResetBurst: 200,
    streamResetRate: 20,
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
    maxSettings: 32,
    maxSessionMemory: 16,
  });
  unpoolProtocols(server);
  answerUnreadable(server);
  server.on("tlsClientError", (err: Error & { code?: string }, socket) => {
    log.warn({ code: err.code, remote_address: socket.remoteAddress }, "TLS handshake failed");
    socket.destroy();
  });
  server.on("sessionError", () => undefined);
  return server;
};

const serveManagement = (
  app: IngestListenerOptions["app"],
  bindingsOf: (incoming: Exchange["request"]) => Connection["bindings"] | undefined,
) =>
  getRequestListener((request, { incoming }) => app.fetch(request, bindingsOf(incoming)), {
    overrideGlobalObjects: false,
    errorHandler: answerAdapterError,
  });

/** Returns the peer of a request to `app`, for `createApp`: at this listener it ignores a proxy header. */
export const ingestPeerOf = (c: HttpContext): Peer => (c.env as Connection["bindings"]).peer;

/**
 * Makes each connection copy its protocol list into its own memory. By default Node copies it into its pool of buffers, whose 64 KB stay in memory
 * while any of those connections is open: 6 KB for each stream.
 */
const unpoolProtocols = (server: object) => {
  const { ALPNProtocols } = server as { ALPNProtocols: Uint8Array };
  // Node copies a typed array to the pool, and any other view to its own buffer.
  Object.assign(server, { ALPNProtocols: new DataView(Uint8Array.from(ALPNProtocols).buffer) });
};
