import type { ClientHttp2Session } from "node:http2";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { Tracer } from "../../kit/tracing/tracer.ts";
import type { Queue } from "../queue/queue.ts";
import { AccountTimeoutError } from "./account-sender.ts";
import type { BatchLimits } from "./batch.ts";
import { type Compressor, createCompressor } from "./compressor.ts";
import { readFailure } from "./connection.ts";
import type { GrpcConnection } from "./grpc-stream.ts";
import type { Directive, Status, StatusAnswer } from "./messages.ts";
import { createRateLimiter } from "./rate-limiter.ts";
import type { StatusExchange } from "./status-exchange.ts";
import { QueueForkedError, runStream, type SentFrame } from "./stream.ts";

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
  /** Makes the compressor of a stream's blocks; that of node:zlib by default. */
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
  /** Whether the stream that is open takes statuses. */
  takesStatus(): boolean;
  /** Sends a status on the stream that is open, and resolves with core's answer. Rejects when the stream ends, or takes none. */
  sendStatus(status: Status): Promise<StatusAnswer>;
  /** Returns the HTTP/2 session on which core answers now; undefined without one. */
  session(): ClientHttp2Session | undefined;
}

const answerTimeoutMs = 60_000;
/** A network that fails at this moment looks the same: the next stream sends the account first once more. */
const accountTriesMax = 2;
const accountPauseMs = { min: 60_000, max: 3_600_000 };

/** Makes a forwarder from `queue` to core (docs/protocol.md). */
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

  /** How often in a row core has not answered an account, and until when accounts wait for that reason. */
  let accountTimeouts = 0;
  let accountsFromMs = 0;
  const areAccountsPaused = () => clock.monotonic() < accountsFromMs;

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

  /** Lets telemetry continue without accounts for a while, each time twice as long. */
  const pauseAccounts = () => {
    accountTimeouts += 1;
    if (accountTimeouts < accountTriesMax) return;
    const pauseMs = Math.min(
      accountPauseMs.min * 2 ** (accountTimeouts - accountTriesMax),
      accountPauseMs.max,
    );
    accountsFromMs = clock.monotonic() + pauseMs;
    log.warn(
      { pause_seconds: pauseMs / 1000 },
      "core does not answer accounts; they wait, and telemetry continues",
    );
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
          areAccountsPaused,
          onOpened: ({ send, takesAccounts }) => {
            status.connected = true;
            status.takesAccounts = takesAccounts;
            status.lastError = null;
            sendStatus = send;
            settled.resolve();
            options.onOpened?.();
          },
          onAccountAnswered: () => {
            accountTimeouts = 0;
          },
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
      const failure = readFailure(error);
      status.lastError = failure.message;
      log.warn({ reason: failure.reason, error: failure.message }, "forwarding interrupted");
      options.onFailure?.(failure.reason);
      uncompressed = failure.exhausted;
      if (error instanceof AccountTimeoutError) pauseAccounts();
      if (error instanceof QueueForkedError || failure.reason === "queue_forked") {
        queue.fork();
        log.warn(
          { queue_id: queue.queueId.toHex() },
          "core knows a copy of the queue; continuing under a new queue id",
        );
      }
      if (failure.reason === "frame_too_large") {
        // What does not compress is smaller as it is.
        if (compress) uncompressed = true;
        else shrink(inFlight);
        return 0;
      }
      return limiter.failed(failure.reason, failure.retryAfterMs);
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
    status: () => ({ ...status, takesAccounts: status.takesAccounts && !areAccountsPaused() }),
    settled: () => settled.promise,
    takesStatus: () => sendStatus !== undefined,
    sendStatus: async (sent) => {
      if (sendStatus === undefined) throw new Error("no stream takes a status");
      return sendStatus(sent);
    },
    session: () => (status.connected ? connection?.session() : undefined),
  };
};
