import type { ClientHttp2Session } from "node:http2";
import { fullJitterMs } from "#kit/backoff.ts";
import { type Clock, hourMs, minuteMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { type Entropy, fraction } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import { type Authorities, openTls } from "../connect/open-tls.ts";
import type { ProxyChoice } from "../connect/proxy.ts";
import { createResumeTls, tlsServer } from "../connect/resume-tls.ts";
import { withReenrollAdvice } from "../identity/reenroll-advice.ts";
import type { Queue } from "../queue/queue.ts";
import { AccountTimeoutError } from "./account-sender.ts";
import type { BatchLimits } from "./batch.ts";
import { type Compressor, createCompressor } from "./compressor.ts";
import { type GrpcConnection, openGrpcConnection } from "./grpc-stream.ts";
import type { Directive, Status, StatusAnswer } from "./messages.ts";
import { QueueForkedError, runStream, type SentFrame, type StatusExchange } from "./stream.ts";

/** The dependencies of a forwarder. */
export interface ForwarderOptions {
  /** Opens a connection to core's ingest listener, for one stream. */
  connect(options: { compress: boolean }): GrpcConnection;
  /** The certificate's single SAN. */
  hostId: string;
  queue: Queue;
  batch: BatchLimits;
  maxInFlightFrames: number;
  /** With `gzip`, what core takes as blocks is compressed with zstd. */
  compression: "gzip" | "none";
  /** Creates the compressor of a stream's blocks; that of node:zlib by default. */
  createBlockCompressor?: () => Compressor;
  /** How long an account may be unanswered, 15 s by default. */
  accountTimeoutMs?: number;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  /** Records each frame, from sending to its ack; nothing is recorded without it. */
  tracer?: Tracer;
  /** Called when core has opened a stream. */
  onOpened?: () => void;
  /** Called at every ack. */
  onAck?: () => void;
  /** Called at every nudge of core. */
  onDirective?: (directive: Directive) => void;
  /** Called when a stream fails, with core's stable reason, or null if something else failed. */
  onFailure?: (reason: string | null) => void;
}

/** The status of forwarding, for heartbeats and diagnostics. */
export interface ForwarderStatus {
  /** A stream is open and core has answered on it. */
  connected: boolean;
  /** The stream that is open takes accounts. */
  takesAccounts: boolean;
  /** Wall time of the last ack, milliseconds since the epoch. */
  lastAckAt: number | null;
  /** Why the last stream ended; null again when core answers. */
  lastError: string | null;
}

/** Sends the records of a queue to core. */
export interface Forwarder {
  /**
   * Forwards until `signal` aborts, and resolves then. Retries forever and drops nothing: after any failure it waits for at most 30 s,
   * with full jitter, and opens a new stream from core's cursor. Only an envelope that core rejects, alone or in its ack, becomes a
   * dead letter.
   */
  run(signal: AbortSignal): Promise<void>;
  status(): ForwarderStatus;
  /** Resolves once a stream has been opened, or the first one has failed. */
  settled(): Promise<void>;
  /** Reports whether the stream that is open takes statuses. */
  takesStatus(): boolean;
  /** Sends a status on the stream that is open, and resolves with core's answer. Rejects when the stream ends, or takes none. */
  sendStatus(status: Status): Promise<StatusAnswer>;
  /** Returns the HTTP/2 session on which core answers now; undefined without one. */
  session(): ClientHttp2Session | undefined;
}

const answerTimeoutMs = minuteMs;
/** A network that fails at this moment looks the same: the next stream sends the account first once more. */
const accountTriesMax = 2;
const accountPauseMs = { min: minuteMs, max: hourMs };

/** Creates a forwarder from `queue` to core (docs/protocol.md). */
export const createForwarder = (options: ForwarderOptions): Forwarder => {
  const { queue, clock, entropy, log, accountTimeoutMs = 15_000 } = options;
  const { createBlockCompressor = () => createCompressor("zstd") } = options;
  const status: ForwarderStatus = {
    connected: false,
    takesAccounts: false,
    lastAckAt: null,
    lastError: null,
  };
  const limiter = createRateLimiter({ framesMax: options.maxInFlightFrames, clock, entropy });
  let maxBytes = options.batch.maxBytes;
  /** Frames still to be sent one at a time, to find which of those in flight core rejected. */
  let sendAlone = 0;
  /** Sends uncompressed: when a compressed frame is too large, only a library inside core may notice, which gives no reason. */
  let uncompressed = false;

  const accounts = createAccountPauses(clock, log);
  let connection: GrpcConnection | undefined;
  let sendStatus: StatusExchange["send"] | undefined;
  const settled = Promise.withResolvers<void>();

  /** Makes the next frames smaller, or moves an envelope that is too large for core on its own to the dead letters. */
  const shrink = (inFlight: readonly SentFrame[]) => {
    const [rejected] = inFlight;
    if (rejected === undefined) return;
    if (inFlight.length > 1) {
      sendAlone = inFlight.length;
    } else if (rejected.records > 1) {
      maxBytes = Math.floor(Math.min(maxBytes, rejected.bytes) / 2);
      log.warn({ bytes_max: maxBytes }, "core rejected a frame as too large; sending smaller ones");
    } else {
      queue.moveToDeadLetters(
        rejected.firstSequence,
        "frame_too_large",
        "the envelope alone is larger than core accepts",
      );
      log.warn(
        { sequence: rejected.firstSequence },
        "one envelope is larger than core accepts; moved to the dead letters",
      );
    }
  };

  /** Draws the conclusions from the failure of a stream; returns how long to wait before the next one. */
  const interrupted = (
    error: unknown,
    inFlight: readonly SentFrame[],
    compress: boolean,
  ): number => {
    const failure = readFailure(error);
    status.lastError = failure.message;
    log.warn({ reason: failure.reason, error: failure.message }, "forwarding interrupted");
    options.onFailure?.(failure.reason);
    uncompressed = failure.exhausted;
    if (error instanceof AccountTimeoutError) accounts.timedOut();
    if (error instanceof QueueForkedError || failure.reason === "queue_forked") {
      queue.fork();
      log.warn(
        { queue_id: queue.queueId.toHex() },
        "core knows a copy of the queue; continuing under a new queue id",
      );
    }
    if (failure.reason === "frame_too_large") {
      // A message that does not compress goes uncompressed, because it is smaller so.
      if (compress) uncompressed = true;
      else shrink(inFlight);
      return 0;
    }
    return limiter.failed(failure.reason, failure.retryAfterMs);
  };

  /** Runs one stream to its end; resolves with how long to wait before the next one. */
  const forwardOnce = async (signal: AbortSignal): Promise<number> => {
    const compress = options.compression === "gzip" && !uncompressed;
    connection = options.connect({ compress });
    const inFlight: SentFrame[] = [];
    try {
      return await runStream(
        {
          ...options,
          connection,
          compressBlock: compress ? createBlockCompressor() : undefined,
          batch: { ...options.batch, maxBytes },
          maxInFlightFrames: () => (sendAlone > 0 ? 1 : limiter.framesInFlight()),
          answerTimeoutMs,
          accountTimeoutMs,
          areAccountsPaused: accounts.arePaused,
          onOpened: ({ send, takesAccounts }) => {
            status.connected = true;
            status.takesAccounts = takesAccounts;
            status.lastError = null;
            sendStatus = send;
            settled.resolve();
            options.onOpened?.();
          },
          onAccountAnswered: accounts.answered,
          onAccountRefused: (refusal) =>
            log.warn(refusal, "core refused an account of this host, and keeps it as evidence"),
          onAck: ({ rejected }) => {
            status.lastAckAt = clock.now();
            limiter.acknowledged();
            sendAlone = Math.max(0, sendAlone - 1);
            uncompressed = false;
            for (const { code } of rejected)
              log.warn({ code }, "core rejected an envelope; moved to the dead letters");
            options.onAck?.();
          },
        },
        inFlight,
        signal,
      );
    } catch (error) {
      status.connected = false;
      if (signal.aborted) return 0;
      return interrupted(error, inFlight, compress);
    } finally {
      sendStatus = undefined;
      settled.resolve();
      connection.abort();
      connection = undefined;
    }
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        let pauseMs: number;
        try {
          pauseMs = await forwardOnce(signal);
          queue.dropExpired();
        } catch (error) {
          // Dead letters or the removal of old records failed on disk: nothing is lost, and both are retried.
          log.error({ err: error }, "the queue cannot be written");
          pauseMs = limiter.failed(null);
        }
        if (pauseMs > 0) await clock.sleep(pauseMs, signal).catch(() => undefined);
      }
      settled.resolve();
    },
    status: () => ({ ...status, takesAccounts: status.takesAccounts && !accounts.arePaused() }),
    settled: () => settled.promise,
    takesStatus: () => sendStatus !== undefined,
    sendStatus: async (sent) => {
      if (sendStatus === undefined) throw new Error("no stream takes a status");
      return sendStatus(sent);
    },
    session: () => (status.connected ? connection?.session() : undefined),
  };
};

/** Lets telemetry continue without accounts for a while when core does not answer them, each time twice as long. */
const createAccountPauses = (clock: Pick<Clock, "monotonic">, log: ForwarderOptions["log"]) => {
  let timeouts = 0;
  let untilMs = 0;
  return {
    arePaused: () => clock.monotonic() < untilMs,
    answered: () => {
      timeouts = 0;
    },
    timedOut: () => {
      timeouts += 1;
      if (timeouts < accountTriesMax) return;
      const pauseMs = Math.min(
        accountPauseMs.min * 2 ** (timeouts - accountTriesMax),
        accountPauseMs.max,
      );
      untilMs = clock.monotonic() + pauseMs;
      log.warn(
        { pause_seconds: pauseMs / 1000 },
        "core does not answer accounts; they wait, and telemetry continues",
      );
    },
  };
};

/** Limits the frames in flight of one forwarder, and how often it reconnects. */
interface RateLimiter {
  /** Returns how many frames may be unacknowledged: at least 1. */
  framesInFlight(): number;
  /** Core acknowledged a frame. */
  acknowledged(): void;
  /** A stream failed; returns how long to wait before the next, in milliseconds: at least what core says, of which five minutes count. */
  failed(reason: string | null, retryAfterMs?: number): number;
}

/** A host that has sent its budget tries again after this time at most, and half of it at least. */
const budgetPauseMsMax = minuteMs;
const backoff = { baseMs: 500, capMs: 30_000 };
const retryAfterMsMax = 5 * minuteMs;
/** After this long without `overloaded`, core counts as recovered. */
const recoveredAfterMs = minuteMs;

/**
 * Creates a limiter with additive increase and multiplicative decrease (AIMD): at `overloaded` it halves the frames in flight, and they
 * grow by one for each round of acks. Reconnects back off with full jitter, at most 30 s; repeated `overloaded` backs off further
 * each time, also if a few frames were accepted in between. `budget_exceeded` has a pause of its own.
 */
export const createRateLimiter = ({
  framesMax,
  clock,
  entropy,
}: {
  framesMax: number;
  clock: Pick<Clock, "monotonic">;
  entropy: Entropy;
}): RateLimiter => {
  let attempt = 0;
  let overloads = 0;
  let overloadedAt = Number.NEGATIVE_INFINITY;
  let frames = framesMax;
  return {
    framesInFlight: () => Math.max(1, Math.floor(frames)),
    acknowledged: () => {
      attempt = 0;
      frames = Math.min(framesMax, frames + 1 / frames);
      if (clock.monotonic() - overloadedAt >= recoveredAfterMs) overloads = 0;
    },
    failed: (reason, retryAfterMs = 0) => {
      // It knows when its hour ends no better than core does; and its budget may be raised before.
      if (reason === "budget_exceeded")
        return Math.floor(((1 + fraction(entropy)) / 2) * budgetPauseMsMax);
      if (reason === "overloaded") {
        overloads += 1;
        overloadedAt = clock.monotonic();
        frames = Math.max(1, frames / 2);
      }
      const jitterMs = fullJitterMs({
        attempt: Math.max(attempt++, overloads),
        ...backoff,
        entropy,
      });
      return Math.max(jitterMs, Math.min(retryAfterMs, retryAfterMsMax));
    },
  };
};

/** PEM of the collector's credentials, and of the authorities that core's certificate must chain to. */
interface ForwarderTls {
  cert: string;
  key: string;
  ca: string | Authorities;
  /** The name that core's certificate must have; the endpoint's host by default. */
  serverName?: string | undefined;
}

const pings = { pingIntervalMs: 20_000, pingTimeoutMs: 10_000 };
/** An ack with a rejection for every envelope of a large frame fits. */
const ackBytesMax = 4 * 1024 * 1024;

/** Creates connections to the ingest listener at `endpoint`, each of which resumes the TLS session of the one before. */
export const createConnector = (
  endpoint: string,
  { serverName, ...tls }: ForwarderTls,
  clock: Pick<Clock, "monotonic" | "sleep">,
  proxy?: ProxyChoice,
): ((options: { compress: boolean }) => GrpcConnection) => {
  const authority = `https://${endpoint}`;
  const settings = { ...tls, ...tlsServer(new URL(authority), serverName), ALPNProtocols: ["h2"] };
  const resume = createResumeTls();
  return ({ compress }) => {
    let connection: GrpcConnection | undefined;
    return {
      run: async (call) => {
        const { signal } = call;
        const socket = await openTls(settings, { proxy, resume, signal }).catch((cause) => {
          signal.throwIfAborted();
          throw new GrpcError("unavailable", cause.message || errorCode(cause), { cause });
        });
        connection = openGrpcConnection({
          authority,
          createConnection: () => socket,
          responseBytesMax: ackBytesMax,
          ...pings,
          clock,
          ...(compress ? { compress: createCompressor("gzip") } : {}),
        });
        await connection.run(call);
      },
      session: () => connection?.session(),
      abort: () => connection?.abort(),
    };
  };
};

/** Why a stream ended. */
interface ForwardFailure {
  /** `google.rpc.ErrorInfo.reason`, core's stable code, or null if something else failed. */
  readonly reason: string | null;
  /** RESOURCE_EXHAUSTED without a reason: from a proxy, or from a limit inside a gRPC library. */
  readonly exhausted: boolean;
  /** One line for people, at most 500 characters, without control characters. */
  readonly message: string;
  /** When core would have the next stream, from now; 0 if it does not say. */
  readonly retryAfterMs: number;
}

/** Reads any error of a stream: core's refusals, and errors of the network and of TLS. */
const readFailure = (error: unknown): ForwardFailure => {
  const code = error instanceof GrpcError ? error.code : "unknown";
  const reason = error instanceof GrpcError ? error.reason() : null;
  const exhausted = code === "resource_exhausted" && reason === null;
  const message = toOneLine(
    `${reason ?? code}: ${error instanceof Error ? error.message : String(error)}`,
  );
  const retryAfterMs = error instanceof GrpcError ? error.retryAfterSeconds() * 1000 : 0;
  return { reason, exhausted, message: withReenrollAdvice(reason, message), retryAfterMs };
};

const toOneLine = (text: string): string =>
  text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, 500);
