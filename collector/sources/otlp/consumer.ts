import type { Clock } from "../../../kit/clock.ts";
import { ProtobufError } from "../../../proto/wire.ts";
import { QueueClosedError, QueueFullError } from "../../queue/errors.ts";
import type { SourceDependencies } from "../source.ts";
import type { Signal } from "./signals.ts";
import { splitExportRequest } from "./split.ts";
import { createWireCheck } from "./wire-check.ts";

/** The outcome of an export request. */
export type ConsumeOutcome =
  /** All of it is on disk. */
  | { status: "stored" }
  /** Counted and dropped: the queue is full and drops the newest, or is too small for it. */
  | { status: "dropped"; message: string }
  /** Nothing is stored; the sender may retry after `retryAfterSeconds`. */
  | { status: "unavailable"; message: string; retryAfterSeconds: number }
  /** Not an export request of this signal; the same bytes will never be accepted. */
  | { status: "invalid"; message: string };

/**
 * Stores an export request in the queue, for both transports. After a wait for room it drops the request if `isWanted` returns false,
 * as its sender has disconnected, will send it again, and it must not be stored twice.
 */
export type Consume = (signal: Signal, payload: Uint8Array, isWanted: () => boolean) => Promise<ConsumeOutcome>;

/** Limits of a consumer. */
export interface ConsumerLimits {
  /** How long a request waits for room in the queue. */
  roomTimeoutMs: number;
  /** Of all requests that wait for room, together. */
  waitingBytesMax: number;
  /** An export request above this becomes several envelopes. */
  envelopeBytesMax: number;
}

const retryAfterSeconds = 1;

/** Makes the consumer of one source. Requests that wait for room are rejected as soon as `stop` aborts. */
export const createConsumer = (
  name: string,
  signals: readonly Signal[],
  limits: ConsumerLimits,
  { append, clock, log }: SourceDependencies,
  stop: AbortSignal,
): Consume => {
  const checks = new Map(signals.map((signal) => [signal, createWireCheck(signal.request)]));
  const timeout = createSharedTimeout(limits.roomTimeoutMs, clock, stop);
  let waitingBytes = 0;

  const unavailable = (message: string): ConsumeOutcome => ({ status: "unavailable", message, retryAfterSeconds });

  return async (signal, payload, isWanted) => {
    try {
      checks.get(signal)?.(payload);
    } catch (error) {
      if (error instanceof ProtobufError) return { status: "invalid", message: error.message };
      throw error;
    }
    if (payload.length === 0) return { status: "stored" };
    if (waitingBytes + payload.length > limits.waitingBytesMax)
      return unavailable("too many requests wait for the queue");
    const observedAtMs = clock.now();
    const records = splitExportRequest(payload, limits.envelopeBytesMax).map((part) => ({
      kind: signal.kind,
      observedAtMs,
      source: name,
      attributes: {},
      payload: part,
    }));
    waitingBytes += payload.length;
    try {
      const outcome = await append(records, { signal: timeout.signal(), isWanted });
      return outcome === "stored"
        ? { status: "stored" }
        : { status: "dropped", message: "dropped: the collector's queue is full, or too small for the request" };
    } catch (error) {
      if (error instanceof QueueFullError) return unavailable("the collector's queue is full");
      if (error instanceof QueueClosedError) return unavailable("the collector is stopping");
      log.error({ err: error, source: name }, "the queue could not store a request");
      return unavailable("the collector's queue cannot be written");
    } finally {
      waitingBytes -= payload.length;
    }
  };
};

/**
 * Makes signals that abort after `timeoutMs`, or up to a tenth earlier, and when `stop` does. Requests that arrive close together share
 * one, as a timer for each would cost more than the request.
 */
const createSharedTimeout = (timeoutMs: number, clock: Clock, stop: AbortSignal): { signal(): AbortSignal } => {
  let shared: AbortController | undefined;
  let sharedUntil = Number.NEGATIVE_INFINITY;
  return {
    signal: () => {
      const now = clock.monotonic();
      if (shared === undefined || now >= sharedUntil) {
        const fresh = new AbortController();
        const end = () => fresh.abort(new Error("the queue had no room in time"));
        clock.sleep(timeoutMs, stop).then(end, end);
        shared = fresh;
        sharedUntil = now + timeoutMs / 10;
      }
      return shared.signal;
    },
  };
};
