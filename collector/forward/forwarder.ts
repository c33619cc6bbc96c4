import { createGrpcTransport } from "@connectrpc/connect-node";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { Queue } from "../queue/queue.ts";
import type { BatchLimits } from "./batch.ts";
import { failureOf } from "./failure.ts";
import { fastGzip } from "./gzip.ts";
import { createPace } from "./pace.ts";
import { createResumingConnection } from "./resuming-connection.ts";
import { ForwardSession } from "./session.ts";
import { QueueRestoredError, runStream, type SentFrame } from "./stream.ts";

/** PEM of the collector's pair and of the authorities that core's certificate must chain to. */
export interface ForwarderTls {
  cert: string;
  key: string;
  ca: string;
  /** The name that core's certificate must hold; the endpoint's host unless given. */
  serverName?: string;
}

/** What a forwarder needs to know. */
export interface ForwarderOptions {
  /** `host:port` of core's ingest listener. */
  endpoint: string;
  tls: ForwarderTls;
  /** The certificate's single SAN. */
  hostId: string;
  queue: Queue;
  batch: BatchLimits;
  maxInFlightFrames: number;
  compression: "gzip" | "none";
  clock: Clock;
  entropy: Entropy;
  log: Log;
  /** Told of every ack. */
  onAck?: () => void;
  /** Told why a stream ended: core's stable reason, or null if something else failed. */
  onFailure?: (reason: string | null) => void;
}

/** How forwarding stands, for heartbeats and diagnostics. */
export interface ForwarderStatus {
  /** A stream is open and core has answered on it. */
  connected: boolean;
  /** Wall time of the last ack, milliseconds since the epoch. */
  lastAckAt: number | null;
  /** Why the last stream ended; null again when core answers. */
  lastError: string | null;
}

/** Moves the queue to core, for as long as it runs. */
export interface Forwarder {
  /**
   * Forwards until `signal` aborts, and resolves then. Never gives up and never throws away: any failure is followed by a
   * full-jitter pause of at most 30 s and a new stream from core's cursor. Only what core rejects by name, or refuses as a frame of
   * one, is set aside.
   */
  run(signal: AbortSignal): Promise<void>;
  status(): ForwarderStatus;
}

const answerTimeoutMs = 60_000;
const pings = { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 };
/** An ack with a rejection for every envelope of a large frame fits. */
const ackBytesMax = 4 * 1024 * 1024;

/** A forwarder from `queue` to the ingest listener at `endpoint` (contract §7 and §8). */
export const createForwarder = (options: ForwarderOptions): Forwarder => {
  const { queue, clock, entropy, log, tls } = options;
  const status: ForwarderStatus = { connected: false, lastAckAt: null, lastError: null };
  const pace = createPace({ framesMax: options.maxInFlightFrames, clock, entropy });
  let maxBytes = options.batch.maxBytes;
  /** Frames still to be sent one at a time, to learn which of those in flight core refused. */
  let alone = 0;
  // Only what is on disk is ever sent, and nothing has been sent yet of what will be stored from here on.
  let sentThrough = queue.lastSequence;
  /** Sends uncompressed: of a compressed frame only the library inside core may know that it is too large, and it gives no reason. */
  let plain = false;

  const { cert, key, ca, serverName } = tls;
  const url = `https://${options.endpoint}`;
  const createConnection = createResumingConnection(new URL(url), {
    cert,
    key,
    ca,
    minVersion: "TLSv1.2",
    ...(serverName === undefined ? {} : { servername: serverName }),
  });

  const connect = () => {
    const session = new ForwardSession(url, pings, { createConnection });
    const transport = createGrpcTransport({
      baseUrl: url,
      sessionManager: session,
      readMaxBytes: ackBytesMax,
      ...(options.compression === "gzip" && !plain ? { sendCompression: fastGzip } : {}),
    });
    return { session, transport };
  };

  /** Makes the next frames smaller, or sets the one envelope aside that is too large for core on its own. */
  const shrink = (inFlight: readonly SentFrame[]) => {
    const [refused] = inFlight;
    if (refused === undefined) return;
    if (inFlight.length > 1) {
      alone = inFlight.length;
    } else if (refused.records > 1) {
      maxBytes = Math.floor(Math.min(maxBytes, refused.bytes) / 2);
      log.warn({ bytes_max: maxBytes }, "core refused a frame as too large; sending smaller ones");
    } else {
      queue.moveToDeadLetters(refused.firstSequence, "frame_too_large", "the envelope alone is larger than core takes");
      log.warn({ sequence: refused.firstSequence }, "one envelope is larger than core takes; set aside");
    }
  };

  /** One stream, to its end; resolves with how long to wait before the next one. */
  const forwardOnce = async (signal: AbortSignal): Promise<number> => {
    const { session, transport } = connect();
    const inFlight: SentFrame[] = [];
    try {
      return await runStream(
        {
          ...options,
          transport,
          batch: { ...options.batch, maxBytes },
          maxInFlightFrames: () => (alone > 0 ? 1 : pace.framesInFlight()),
          answerTimeoutMs,
          sentThrough,
          onSent: (through) => {
            sentThrough = Math.max(sentThrough, through);
          },
          onOpened: () => {
            status.connected = true;
            status.lastError = null;
          },
          onAck: ({ rejected }) => {
            status.lastAckAt = clock.now();
            pace.acked();
            alone = Math.max(0, alone - 1);
            plain = false;
            for (const { code } of rejected) log.warn({ code }, "core rejected an envelope; set aside");
            options.onAck?.();
          },
        },
        inFlight,
        signal,
      );
    } catch (error) {
      status.connected = false;
      if (signal.aborted) return 0;
      const failure = failureOf(error);
      status.lastError = failure.message;
      log.warn({ reason: failure.reason, error: failure.message }, "forwarding interrupted");
      options.onFailure?.(failure.reason);
      plain = failure.exhausted;
      if (error instanceof QueueRestoredError) queue.rotateQueueId();
      if (failure.reason === "frame_too_large") {
        shrink(inFlight);
        return 0;
      }
      return pace.failed(failure.reason);
    } finally {
      session.abort();
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
          // The disk refused to set something aside or to drop what is too old: nothing is lost, all of it comes up again.
          log.error({ err: error }, "the queue cannot be written");
          pauseMs = pace.failed(null);
        }
        if (pauseMs > 0) await clock.sleep(pauseMs, signal).catch(() => undefined);
      }
    },
    status: () => ({ ...status }),
  };
};
