import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import {
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo, Server as NetServer } from "node:net";
import { containFailures } from "#kit/contain-failures.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import { createListeners } from "../listeners.ts";
import type { Source, SourceDependencies } from "../source.ts";
import { type CallerCheck, createCallerCheck } from "./caller-check.ts";
import { type Consume, type ConsumerLimits, createConsumer } from "./consumer.ts";
import { createDecompress } from "./decompress.ts";
import { createUnaryGrpcHandler, otlpMethods } from "./grpc.ts";
import { createOtlpHttpHandler } from "./http.ts";
import { createInFlightRequests } from "./in-flight-requests.ts";
import { type Signal, signals } from "./signals.ts";
import { traceConsume } from "./trace-consume.ts";

/** Where one transport listens, and the hosts besides loopback's that requests may name. */
interface OtlpListenerConfig {
  /** `host:port`. */
  listen: string;
  allowedHosts?: readonly string[];
}

/** Where an `otlp` source listens (docs/collector-config.md); a transport that is absent is off. */
interface OtlpSourceConfig {
  /** `otlp` by default. */
  name?: string;
  grpc?: OtlpListenerConfig;
  http?: OtlpListenerConfig;
}

/** An `otlp` source, and the addresses on which it listens: `host:port`, once started. */
export interface OtlpSource extends Source {
  readonly addresses: { readonly grpc?: string; readonly http?: string };
}

interface SourceLimits extends ConsumerLimits {
  bodyBytesMax: number;
  /** The limit of all in-flight requests together. */
  inFlightBytesMax: number;
}

const defaultLimits: SourceLimits = {
  roomTimeoutMs: 5_000,
  waitingBytesMax: 64 * 1024 * 1024,
  envelopeBytesMax: 1024 * 1024,
  // Core's default limit of a frame, 4 MiB, less the frame's other fields.
  itemBytesMax: 4 * 1024 * 1024 - 16 * 1024,
  bodyBytesMax: 16 * 1024 * 1024,
  inFlightBytesMax: 64 * 1024 * 1024,
};

/** The outcome that is counted for a request that reaches no consumer, by the reason. */
const unreadStatuses = {
  queue_full: "dropped",
  too_large: "too_large",
  malformed: "invalid",
  retry: "unavailable",
} as const;

/** How long a client has to finish its requests when the source stops. */
const drainMs = 2_000;

/**
 * Creates a source that receives OTLP traces, logs and metrics over gRPC and HTTP. Success means that the request is on disk. While the queue
 * is full, a request waits for up to 5 s, and then fails with a status that SDKs retry.
 */
export const createOtlpSource = (
  config: OtlpSourceConfig,
  dependencies: SourceDependencies,
  limits: Partial<SourceLimits> = {},
): OtlpSource => {
  const { name = "otlp" } = config;
  const { log, clock } = dependencies;
  const { bodyBytesMax, inFlightBytesMax, ...consumerLimits } = { ...defaultLimits, ...limits };
  const inFlight = createInFlightRequests(inFlightBytesMax);
  const decompress = createDecompress({
    bytesMax: bodyBytesMax,
    waitingBytesMax: inFlightBytesMax,
  });
  const stopping = new AbortController();
  const consumer = createConsumer(name, consumerLimits, dependencies, stopping.signal);
  const counts = {
    stored: 0,
    partial: 0,
    dropped: 0,
    too_large: 0,
    unavailable: 0,
    invalid: 0,
    forbidden: 0,
    failed: 0,
  };
  const counted: Consume = async (...request) => {
    const outcome = await consumer.consume(...request);
    counts[outcome.status] += 1;
    return outcome;
  };
  const countUnread = ({ kind }: Signal, reason: SourceRefusal) => {
    counts[unreadStatuses[reason]] += 1;
    dependencies.refused(reason, { kind, source: name, records: 1 });
  };
  const onError = (err: unknown) => {
    counts.failed += 1;
    log.error({ err, source: name }, "an OTLP request failed");
  };
  const consume =
    dependencies.tracer === undefined ? counted : traceConsume(counted, name, dependencies.tracer);
  const listeners = createListeners<HttpServer | Http2Server>(name, dependencies, stopping.signal);
  const sessions = new Set<ServerHttp2Session>();

  /** Call it once the server listens: only then is the address of a name such as `localhost` known. */
  const checkCaller = (
    { allowedHosts = [] }: OtlpListenerConfig,
    server: NetServer,
  ): CallerCheck => {
    const check = createCallerCheck((server.address() as AddressInfo).address, allowedHosts);
    return (headers) => {
      const refusal = check(headers);
      if (refusal !== undefined) counts.forbidden += 1;
      return refusal;
    };
  };

  const createGrpc = (listener: OtlpListenerConfig): Http2Server => {
    const server = createHttp2Server({
      settings: { initialWindowSize: 1024 * 1024, maxConcurrentStreams: 128 },
    });
    const onUnread = (path: string, reason: SourceRefusal) => {
      const signal = signals.find(({ grpcPath }) => grpcPath === path);
      if (signal !== undefined) countUnread(signal, reason);
    };
    const limits = { messageBytesMax: bodyBytesMax, inFlight, decompress, onUnread, onError };
    server.once("listening", () => {
      const options = { ...limits, checkCaller: checkCaller(listener, server) };
      server.on("stream", createUnaryGrpcHandler(otlpMethods(signals, consume), options));
    });
    server.on("session", (session) => {
      session.setLocalWindowSize(4 * 1024 * 1024);
      sessions.add(session);
      session.on("close", () => sessions.delete(session));
    });
    containFailures(server, onError);
    server.on("sessionError", (error) =>
      log.debug({ err: error, source: name }, "an OTLP/gRPC connection failed"),
    );
    return server;
  };

  const createHttp = (listener: OtlpListenerConfig): HttpServer => {
    const server = createHttpServer({ requestTimeout: 30_000, requireHostHeader: false });
    containFailures(server, onError);
    const limits = { bodyBytesMax, inFlight, decompress, onUnread: countUnread, onError };
    server.once("listening", () => {
      const options = { ...limits, checkCaller: checkCaller(listener, server) };
      server.on("request", createOtlpHttpHandler(signals, consume, options));
    });
    return server;
  };

  const stop = async () => {
    stopping.abort(new Error("the source is stopping"));
    const drained = new AbortController();
    const servers = await listeners.take();
    const closed = servers.map(closeServer);
    for (const session of sessions) session.close();
    const destroy = () => {
      for (const session of sessions) session.destroy();
      for (const server of servers)
        if ("closeAllConnections" in server) server.closeAllConnections();
    };
    clock.sleep(drainMs, drained.signal).then(destroy, () => undefined);
    await Promise.all(closed);
    drained.abort();
  };

  return {
    name,
    addresses: listeners.addresses,
    start: async ({ retries } = { retries: false }) => {
      try {
        for (const transport of ["grpc", "http"] as const) {
          const listener = config[transport];
          if (listener === undefined) continue;
          const create = () => (transport === "grpc" ? createGrpc(listener) : createHttp(listener));
          await listeners.open({ transport, address: listener.listen, create }, retries);
        }
      } catch (error) {
        await stop();
        throw error;
      }
    },
    stop,
    condition: listeners.condition,
    counters: () => ({ ...counts, ...consumer.counts() }),
  };
};

const closeServer = (server: HttpServer | Http2Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    if ("closeIdleConnections" in server) server.closeIdleConnections();
  });
