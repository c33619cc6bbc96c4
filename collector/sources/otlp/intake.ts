import type { Clock } from "../../../kit/clock.ts";
import { QueueClosedError, QueueFullError } from "../../queue/errors.ts";
import type { SourceDependencies } from "../source.ts";
import type { Signal } from "./signals.ts";
import { splitExportRequest } from "./split.ts";
import { createWireCheck, WireError } from "./wire.ts";

/** What became of an export request. */
export type IntakeOutcome =
  /** On disk, whole. */
  | { status: "stored" }
  /** Counted and thrown away: the queue is full and drops the newest, or could never hold it. */
  | { status: "dropped"; message: string }
  /** Nothing was stored; the sender may try again after `retryAfterSeconds`. */
  | { status: "unavailable"; message: string; retryAfterSeconds: number }
  /** Not an export request of this signal; the same bytes will never be accepted. */
  | { status: "invalid"; message: string };

/**
 * Puts export requests into the queue; both transports end here. One that waited for room is given up if `isWanted` says that its sender
 * has gone meanwhile: that one will send it again, and it must not be stored twice.
 */
export type Intake = (signal: Signal, payload: Uint8Array, isWanted: () => boolean) => Promise<IntakeOutcome>;

/** Bounds of an OTLP source. */
export interface IntakeLimits {
  /** How long a request waits for room in the queue. */
  patienceMs: number;
  /** Of all requests that wait, together. */
  heldBytesMax: number;
  /** An export request above this becomes several envelopes. */
  envelopeBytesMax: number;
}

const retryAfterSeconds = 1;

/** The intake of one source. Requests that wait are given up as soon as `stop` aborts. */
export const createIntake = (
  name: string,
  signals: readonly Signal[],
  limits: IntakeLimits,
  { append, clock, log }: SourceDependencies,
  stop: AbortSignal,
): Intake => {
  const checks = new Map(signals.map((signal) => [signal, createWireCheck(signal.request)]));
  const patience = createPatience(limits.patienceMs, clock, stop);
  let heldBytes = 0;

  const unavailable = (message: string): IntakeOutcome => ({ status: "unavailable", message, retryAfterSeconds });

  return async (signal, payload, isWanted) => {
    try {
      checks.get(signal)?.(payload);
    } catch (error) {
      if (error instanceof WireError) return { status: "invalid", message: error.message };
      throw error;
    }
    if (payload.length === 0) return { status: "stored" };
    if (heldBytes + payload.length > limits.heldBytesMax) return unavailable("too many requests wait for the queue");
    const observedAtMs = clock.now();
    const records = splitExportRequest(payload, limits.envelopeBytesMax).map((part) => ({
      kind: signal.kind,
      observedAtMs,
      source: name,
      attributes: {},
      payload: part,
    }));
    heldBytes += payload.length;
    try {
      const outcome = await append(records, { signal: patience.signal(), isWanted });
      return outcome === "stored"
        ? { status: "stored" }
        : { status: "dropped", message: "dropped: the collector's queue is full, or too small for the request" };
    } catch (error) {
      if (error instanceof QueueFullError) return unavailable("the collector's queue is full");
      if (error instanceof QueueClosedError) return unavailable("the collector is stopping");
      log.error({ err: error, source: name }, "the queue could not store a request");
      return unavailable("the collector's queue cannot be written");
    } finally {
      heldBytes -= payload.length;
    }
  };
};

/**
 * Signals that abort `patienceMs` after they were asked for, or up to a tenth earlier, and when `stop` does: requests that come close
 * together share one, as a timer for each would cost more than the request.
 */
const createPatience = (patienceMs: number, clock: Clock, stop: AbortSignal): { signal(): AbortSignal } => {
  let shared: AbortController | undefined;
  let sharedUntil = Number.NEGATIVE_INFINITY;
  return {
    signal: () => {
      const now = clock.monotonic();
      if (shared === undefined || now >= sharedUntil) {
        const fresh = new AbortController();
        const end = () => fresh.abort("no room in time");
        clock.sleep(patienceMs, stop).then(end, end);
        shared = fresh;
        sharedUntil = now + patienceMs / 10;
      }
      return shared.signal;
    },
  };
};
