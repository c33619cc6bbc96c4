/**
 * One bidirectional gRPC stream on a connection of its own (grpc/doc/PROTOCOL-HTTP2.md), by hand: a library for any call takes a fifth of
 * the collector's start, and its iterators and abort signals cost more than an ack.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from "node:http2";
import type { TLSSocket } from "node:tls";
import { unpooled } from "#kit/buffer-pool.ts";
import { lengthOf } from "#kit/bytes.ts";
import { type Clock, callAfter } from "#kit/clock.ts";
import { createGrpcMessageReader, grpcMessagePrefix } from "#proto/grpc-framing.ts";
import {
  type GrpcCode,
  GrpcError,
  grpcCodeOfHttpStatus,
  readGrpcStatus,
} from "#proto/grpc-status.ts";
import type { Compressor } from "./compressor.ts";

/** A message; in parts, one that is sent as it is, because it is compressed already. */
export type GrpcRequest = Uint8Array | readonly Uint8Array[];

/** A call: its method, its messages in both directions, and when it ends. */
export interface GrpcCall {
  /** `/package.Service/Method`. */
  path: string;
  /**
   * The messages. Its first is requested when the connection is open, and each other when flow control has let the one before leave. It
   * should end when `signal` aborts.
   */
  requests: AsyncIterable<GrpcRequest>;
  /** Receives each message of the peer, in order. What it throws ends the stream. */
  onResponse(message: Uint8Array): void;
  signal: AbortSignal;
}

/** A connection for one stream. */
export interface GrpcConnection {
  /**
   * Runs a stream; resolves when the peer ends it with OK. Rejects with the peer's status or the failure of the connection, as `GrpcError`;
   * with the reason of `signal`; or with what `requests` or `onResponse` threw.
   */
  run(call: GrpcCall): Promise<void>;
  /** Returns the HTTP/2 session while it takes more streams. */
  session(): ClientHttp2Session | undefined;
  /** Closes it at once. */
  abort(): void;
}

/** How a connection is opened and checked. */
export interface GrpcConnectionOptions {
  /** The URL of the server. */
  authority: string;
  createConnection?: () => TLSSocket;
  /** Compresses a message with gzip, into parts; called for one at a time. */
  compress?: Compressor;
  responseBytesMax: number;
  /** A connection that was silent for so long is pinged, and fails `pingTimeoutMs` later without an answer. */
  pingIntervalMs: number;
  pingTimeoutMs: number;
  clock: Pick<Clock, "monotonic" | "sleep">;
}

/** Opens a connection. Its failure rejects `run`, and nothing else. */
export const openGrpcConnection = (options: GrpcConnectionOptions): GrpcConnection => {
  const { authority, createConnection, compress } = options;
  const session = connect(authority, createConnection === undefined ? {} : { createConnection });
  let failure: Error | undefined;
  // Listens for good: an unresponsive peer can delay the error of a destroyed session, and one without a listener ends the process.
  session.on("error", (error) => {
    failure ??= error;
  });
  const received = pingOrFail(session, options, (reason) => {
    failure = reason;
    session.destroy();
  });
  return {
    run: async (call) => {
      await connected(session, call.signal, () => asGrpcError(failure));
      const stream = session.request({
        ":method": "POST",
        // Node's own has no brackets around an IPv6 address.
        ":authority": new URL(authority).host,
        ":path": call.path,
        "content-type": "application/grpc+proto",
        te: "trailers",
        ...(compress === undefined ? {} : { "grpc-encoding": "gzip" }),
      });
      await exchange(stream, call, {
        ...options,
        received,
        connectionFailure: () => failure ?? lossOf(session),
      });
    },
    session: () => (session.closed || session.destroyed ? undefined : session),
    abort: () => session.destroy(undefined, constants.NGHTTP2_CANCEL),
  };
};

/** Resolves once the session is open; rejects with the signal's reason, or with `failure()` if it closes before. */
const connected = (
  session: ClientHttp2Session,
  signal: AbortSignal,
  failure: () => Error,
): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else if (session.destroyed) reject(failure());
    else if (!session.connecting) resolve();
    signal.addEventListener("abort", abort, { once: true });
    session.once("close", () => reject(failure()));
    session.once("connect", () => {
      signal.removeEventListener("abort", abort);
      resolve();
    });
  });

interface ExchangeOptions extends Pick<GrpcConnectionOptions, "compress" | "responseBytesMax"> {
  /** Called when bytes arrive. */
  received(): void;
  /** Why the connection ended, if it has. */
  connectionFailure(): Error | undefined;
}

const exchange = (
  stream: ClientHttp2Stream,
  call: GrpcCall,
  options: ExchangeOptions,
): Promise<void> =>
  new Promise((resolve, reject) => {
    const { onResponse, signal } = call;
    const reader = createGrpcMessageReader(options.responseBytesMax, unpooled, () =>
      malformed("is too large"),
    );
    let status: ReturnType<typeof readGrpcStatus>;
    let streamError: Error | undefined;
    let settled = false;
    const settle = (error?: unknown) => {
      if (settled) return;
      settled = true;
      signal.removeEventListener("abort", abort);
      if (error === undefined) resolve();
      else reject(error);
      stream.close(constants.NGHTTP2_CANCEL);
    };
    const abort = () => settle(signal.reason);
    /** Settles by the status, which follows the messages, or by what ended the stream without one. */
    const end = () => {
      if (status === undefined)
        settle(asGrpcError(options.connectionFailure() ?? streamError, stream.rstCode));
      else if (status !== "ok") settle(status);
      else settle(reader.incompleteBytes() === 0 ? undefined : malformed("is incomplete"));
    };
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    stream.once("response", (headers) => {
      status = readGrpcStatus(headers) ?? responseFault(headers);
      if (status instanceof GrpcError) settle(status);
    });
    stream.once("trailers", (trailers) => {
      status ??= readGrpcStatus(trailers);
    });
    stream.on("data", (chunk: Buffer<ArrayBuffer>) => {
      if (settled) return;
      options.received();
      try {
        for (const { compressed, data } of reader.push(chunk)) {
          if (compressed) throw malformed("is compressed");
          onResponse(data);
        }
      } catch (error) {
        settle(error);
      }
    });
    // The event of the trailers may come after the end of the messages.
    stream.once("end", () => setImmediate(end));
    stream.on("error", (error) => {
      streamError ??= error;
    });
    stream.once("close", end);
    send(stream, call.requests, options.compress).catch(settle);
  });

/** Smaller messages are sent as they are. */
const compressedBytesMin = 1024;

/** Sends messages one after the other; rejects if there is no next one. Leaves it to the receiving side to report the end of the stream. */
const send = async (
  stream: ClientHttp2Stream,
  requests: AsyncIterable<GrpcRequest>,
  compress: GrpcConnectionOptions["compress"],
): Promise<void> => {
  for await (const message of requests) {
    const isWhole = message instanceof Uint8Array;
    const compressed = compress !== undefined && isWhole && message.length >= compressedBytesMin;
    const parts = compressed ? await compress(message) : isWhole ? [message] : message;
    if (stream.closed || stream.destroyed) return;
    await write(stream, parts, compressed);
  }
  stream.end();
};

/** Resolves when the message has left, or cannot any more. */
const write = (
  stream: ClientHttp2Stream,
  parts: readonly Uint8Array[],
  compressed: boolean,
): Promise<void> =>
  new Promise((resolve) => {
    stream.cork();
    for (const part of [grpcMessagePrefix(lengthOf(parts), compressed), ...parts.slice(0, -1)])
      stream.write(part);
    stream.write(parts.at(-1), () => resolve());
    stream.uncork();
  });

/** Pings a silent session; calls `fail` when it does not answer. Returns what to call when bytes arrive. */
const pingOrFail = (
  session: ClientHttp2Session,
  { clock, pingIntervalMs, pingTimeoutMs }: GrpcConnectionOptions,
  fail: (reason: GrpcError) => void,
): (() => void) => {
  let receivedAt = clock.monotonic();
  let cancelTimeout: (() => void) | undefined;
  let cancelCheck = (): void => undefined;
  const check = () => {
    const leftMs = pingIntervalMs - (clock.monotonic() - receivedAt);
    if (leftMs <= 0 && cancelTimeout === undefined && !session.connecting && !session.destroyed) {
      cancelTimeout = callAfter(clock, pingTimeoutMs, () =>
        fail(new GrpcError("unavailable", "core does not answer pings")),
      );
      session.ping(() => {
        cancelTimeout?.();
        cancelTimeout = undefined;
      });
    }
    cancelCheck = callAfter(clock, leftMs > 0 ? leftMs : pingIntervalMs, check);
  };
  cancelCheck = callAfter(clock, pingIntervalMs, check);
  session.once("close", () => {
    cancelCheck();
    cancelTimeout?.();
  });
  return () => {
    receivedAt = clock.monotonic();
  };
};

const malformed = (what: string): GrpcError =>
  new GrpcError("internal", `a message of core ${what}`);

/** Returns why a response is not one of gRPC, as that of a proxy. */
const responseFault = (
  headers: IncomingHttpHeaders & IncomingHttpStatusHeader,
): GrpcError | undefined => {
  const { ":status": status = 0, "content-type": type = "none" } = headers;
  if (status !== 200) return new GrpcError(grpcCodeOfHttpStatus(status), `HTTP ${status}`);
  if (!type.startsWith("application/grpc"))
    return new GrpcError("unknown", `unsupported content type ${type}`);
  return undefined;
};

/** Codes for resets (grpc/doc/PROTOCOL-HTTP2.md, "HTTP2 Transport Mapping", "Errors"). */
const resetCodes = new Map<number | undefined, GrpcCode>([
  [constants.NGHTTP2_REFUSED_STREAM, "unavailable"],
  [constants.NGHTTP2_CANCEL, "canceled"],
  [constants.NGHTTP2_ENHANCE_YOUR_CALM, "resource_exhausted"],
  [constants.NGHTTP2_INADEQUATE_SECURITY, "permission_denied"],
]);

/** Returns an error if the session is closed: its streams end as by a reset of the server's. */
const lossOf = (session: ClientHttp2Session): GrpcError | undefined =>
  session.destroyed ? new GrpcError("unavailable", "the connection was closed") : undefined;

/** Describes what ended a stream without a status: the connection, or a reset. */
const asGrpcError = (cause: Error | undefined, resetCode?: number): GrpcError => {
  if (cause instanceof GrpcError) return cause;
  const code = resetCodes.get(resetCode) ?? "unavailable";
  return new GrpcError(code, cause?.message ?? "the connection was closed", { cause });
};
