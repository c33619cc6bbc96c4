import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { Server as NetServer } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { splitHostPort } from "../../../proto/collector-config/schema.ts";
import type { Source, SourceDependencies } from "../source.ts";
import { otlpRoutes } from "./grpc.ts";
import { createOtlpHttpHandler } from "./http.ts";
import { createIntake, type IntakeLimits } from "./intake.ts";
import { signals } from "./signals.ts";

/** Where an `otlp` source listens (contract §8); a transport that is left out is off. */
export interface OtlpSourceConfig {
  /** `otlp` unless given. */
  name?: string;
  grpc?: { listen: string };
  http?: { listen: string };
}

/** An `otlp` source, and the addresses it took: `host:port`, once started. */
export interface OtlpSource extends Source {
  readonly addresses: { readonly grpc?: string; readonly http?: string };
}

const defaultLimits: IntakeLimits & { bodyBytesMax: number } = {
  patienceMs: 5_000,
  heldBytesMax: 64 * 1024 * 1024,
  envelopeBytesMax: 1024 * 1024,
  bodyBytesMax: 16 * 1024 * 1024,
};

/** How long a client has to finish what it began when the source stops. */
const drainMs = 2_000;

/**
 * Takes OTLP traces, logs and metrics over gRPC and HTTP. An answer of success means that the request is on disk; while the queue is
 * full a request waits up to 5 s and is then refused in the way that makes SDKs send it again.
 */
export const createOtlpSource = (
  config: OtlpSourceConfig,
  dependencies: SourceDependencies,
  limits: Partial<typeof defaultLimits> = {},
): OtlpSource => {
  const { name = "otlp" } = config;
  const { log, clock } = dependencies;
  const { bodyBytesMax, ...intakeLimits } = { ...defaultLimits, ...limits };
  const addresses: { grpc?: string; http?: string } = {};
  const stopping = new AbortController();
  const intake = createIntake(name, signals, intakeLimits, dependencies, stopping.signal);
  const listeners: (HttpServer | Http2Server)[] = [];
  const sessions = new Set<ServerHttp2Session>();

  const createGrpc = (): Http2Server => {
    const server = createHttp2Server(
      { settings: { initialWindowSize: 1024 * 1024, maxConcurrentStreams: 128 } },
      connectNodeAdapter({
        routes: otlpRoutes(signals, intake),
        connect: false,
        grpcWeb: false,
        readMaxBytes: bodyBytesMax,
        jsonOptions: { ignoreUnknownFields: false },
      }),
    );
    server.on("session", (session) => {
      session.setLocalWindowSize(4 * 1024 * 1024);
      sessions.add(session);
      session.on("close", () => sessions.delete(session));
    });
    server.on("sessionError", (error) => log.debug({ err: error, source: name }, "an OTLP/gRPC connection failed"));
    return server;
  };

  const createHttp = (): HttpServer => {
    const onError = (error: unknown) => log.error({ err: error, source: name }, "an OTLP/HTTP request failed");
    return createHttpServer({ requestTimeout: 30_000 }, createOtlpHttpHandler(signals, intake, bodyBytesMax, onError));
  };

  const stop = async () => {
    stopping.abort(new Error("the source is stopping"));
    const drained = new AbortController();
    const servers = listeners.splice(0);
    const closed = servers.map(closeServer);
    for (const session of sessions) session.close();
    const destroy = () => {
      for (const session of sessions) session.destroy();
      for (const server of servers) if ("closeAllConnections" in server) server.closeAllConnections();
    };
    clock.sleep(drainMs, drained.signal).then(destroy, () => undefined);
    await Promise.all(closed);
    drained.abort();
  };

  return {
    name,
    addresses,
    start: async () => {
      try {
        for (const transport of ["grpc", "http"] as const) {
          const address = config[transport]?.listen;
          if (address === undefined) continue;
          const server = transport === "grpc" ? createGrpc() : createHttp();
          addresses[transport] = await listen(server, address);
          listeners.push(server);
          log.info({ source: name, transport, address: addresses[transport] }, "listening");
        }
      } catch (error) {
        await stop();
        throw error;
      }
    },
    stop,
  };
};

const listen = (server: NetServer, address: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { host, port } = splitHostPort(address) ?? {};
    if (host === undefined || port === undefined) throw new TypeError("the listen address must be host:port");
    server.once("error", reject);
    server.listen({ host, port }, () => {
      server.off("error", reject);
      const bound = server.address();
      const boundPort = typeof bound === "object" && bound !== null ? bound.port : port;
      resolve(`${host.includes(":") ? `[${host}]` : host}:${boundPort}`);
    });
  });

const closeServer = (server: HttpServer | Http2Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    if ("closeIdleConnections" in server) server.closeIdleConnections();
  });
