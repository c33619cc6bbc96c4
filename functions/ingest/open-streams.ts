/**
 * The open streams of a core. Invariants:
 * - A stream whose caller no recheck has confirmed for `unconfirmedMsMax` delivers nothing more, whatever connections to the database do.
 * - Time in which the event loop was blocked does not count.
 * - A recheck that hangs delays no later one, and each confirms callers as of its start.
 * - Streams that end together neither block the event loop nor return together.
 */
import type { Clock } from "#kit/clock.ts";
import { type Entropy, fraction } from "#kit/entropy.ts";
import { Problem, type ProblemCode } from "../problems.ts";
import type { Admission, Caller } from "./admission.ts";

/** An open stream. Its signal aborts with the Problem that ends it. */
export interface OpenStream {
  signal: AbortSignal;
  /** Reports whether core may accept what has arrived. Ends the stream of a caller that no recheck has confirmed in time. */
  mayAccept(): boolean;
  /** Removes the stream; idempotent. */
  leave(): void;
}

/** The open streams of this replica: bounded for each identity, rechecked, and ended when their caller may send no longer. */
export type OpenStreams = ReturnType<typeof createOpenStreams>;

/** Short, so that a tick is late by what a turn of the event loop takes. */
const tickMs = 100;
const expiryCheckMs = 1_000;
/** Keeps the time from a revocation to the last accepted record below 5 s. */
const unconfirmedMsMax = 4_500;
/**
 * A turn of the event loop that takes so long is not counted: it accepts no more than what had arrived before it, and perhaps leaves the
 * answer of a recheck unread. Otherwise a core that lacks processor time would end all streams, and their return would take the rest.
 */
const longTurnMs = 100;
/** A recheck that has not succeeded by then may wait for a lost connection: another one begins beside it. */
const overdueMs = 1_000;

/** Streams that end together end in batches: 13,000 at once would block the event loop for 2 to 17 s. */
const batchSize = 100;
const batchPauseMs = 1;
/** Hosts whose streams end together return so many a second, fewer than a core can open. */
const returnsPerSecond = 200;

/** Creates an empty set of open streams. */
export const createOpenStreams = ({
  admission,
  clock,
  entropy,
  onError,
  streamsOfIdentityMax = 8,
  recheckMs = 2_000,
}: {
  admission: Pick<Admission, "recheck" | "expiryFault">;
  clock: Clock;
  entropy: Entropy;
  /** A recheck failed (the database is unavailable); it runs again a second after it began. */
  onError(cause: unknown): void;
  streamsOfIdentityMax?: number;
  recheckMs?: number;
}) => {
  const open = new Map<Caller, AbortController>();
  const counts = new Map<string, number>();
  let wake = new AbortController();
  let isTriggered = false;
  let stopped = false;
  /** No open stream expires before it: a hundred thousand are looked at only when one does. */
  let earliest: Caller | undefined;

  const endExpired = () => {
    if (earliest === undefined || admission.expiryFault(earliest) === undefined) return;
    earliest = undefined;
    for (const [caller, controller] of open) {
      const fault = admission.expiryFault(caller);
      if (fault) controller.abort(fault);
      else earliest = earlierOf(caller, earliest);
    }
  };
  /** The caller connects again at a time of its own, to another core if this one's pool is at fault. */
  const end = (caller: Caller, code: ProblemCode, returnSeconds: number) =>
    open
      .get(caller)
      ?.abort(new Problem(code, { retryAfterSeconds: fraction(entropy) * returnSeconds }));
  /** Ends streams and removes them from `callers`, in batches, until it is empty. */
  const endInBatches = async (
    callers: Set<Caller>,
    code: ProblemCode,
    returnSeconds = callers.size / returnsPerSecond,
  ) => {
    let ended = 0;
    for (const caller of callers) {
      callers.delete(caller);
      end(caller, code, returnSeconds);
      if (++ended % batchSize === 0) await clock.sleep(batchPauseMs);
    }
  };
  /** Streams that no recheck has confirmed in time and that have not ended yet; a late recheck still confirms those that it asked for. */
  const unconfirmed = new Set<Caller>();
  let unconfirmedReturnSeconds = 0;
  const endUnconfirmed = () => {
    const isEnding = unconfirmed.size > 0;
    for (const caller of open.keys()) unconfirmed.add(caller);
    if (isEnding) return;
    unconfirmedReturnSeconds = unconfirmed.size / returnsPerSecond;
    void endInBatches(unconfirmed, "database_unavailable");
  };

  return {
    /** Adds a stream, or throws `too_many_streams`. */
    enter(admitted: Caller): OpenStream {
      if (stopped) throw new Problem("shutting_down");
      const { identity } = admitted;
      const streams = counts.get(identity) ?? 0;
      if (streams >= streamsOfIdentityMax)
        throw new Problem("too_many_streams", {
          detail: `an identity may have ${streamsOfIdentityMax} open streams`,
        });
      counts.set(identity, streams + 1);
      const caller = { ...admitted };
      const controller = new AbortController();
      open.set(caller, controller);
      earliest = earlierOf(caller, earliest);
      return {
        signal: controller.signal,
        mayAccept() {
          if (unconfirmed.has(caller))
            end(caller, "database_unavailable", unconfirmedReturnSeconds);
          return !controller.signal.aborted;
        },
        leave() {
          if (!open.delete(caller)) return;
          const left = (counts.get(identity) ?? 1) - 1;
          if (left === 0) counts.delete(identity);
          else counts.set(identity, left);
        },
      };
    },
    /** Triggers a recheck at once, instead of at the next interval. */
    triggerRecheck() {
      isTriggered = true;
      wake.abort();
    },
    /** Ends all streams with `database_unavailable`: their senders open them again and report what they know to be stored. */
    reopen: () => void endInBatches(new Set(open.keys()), "database_unavailable"),
    /** Ends the oldest `count` streams with `stream_moved`, each after its last answer: their hosts connect again, perhaps to another core. */
    release(count: number) {
      const staying = open.entries().filter(([, { signal }]) => !signal.aborted);
      for (const [caller] of staying.take(count)) end(caller, "stream_moved", 0);
    },
    /** Checks expiry every second and the database every `recheckMs`, until the signal aborts. */
    async watch(signal: AbortSignal) {
      const confirmation = createConfirmation(clock);
      let startedAt = clock.monotonic();
      let expiryCheckedAt = startedAt;
      /** Whether no recheck has succeeded since the newest began. */
      let isPending = false;
      const recheck = async (since: number) => {
        try {
          const callers = [...open.keys()];
          for (const [caller, fault] of await admission.recheck(callers))
            open.get(caller)?.abort(fault);
          isPending = false;
          if (unconfirmed.size === 0) return confirmation.extend(since);
          // A slower recheck confirms nothing: what it confirmed would be overdue already.
          if (clock.monotonic() - since >= unconfirmedMsMax) return;
          for (const caller of callers) unconfirmed.delete(caller);
          confirmation.restart(since);
        } catch (cause) {
          onError(cause);
        }
      };
      const sleepTick = () => {
        if (wake.signal.aborted) wake = new AbortController();
        return confirmation.sleepTick(wake.signal);
      };
      const pauseMs = () => {
        if (isPending) return overdueMs;
        return isTriggered ? 0 : recheckMs;
      };
      // One listener: a signal composed for each tick costs more than the tick.
      signal.addEventListener("abort", () => wake.abort(), { once: true });
      while (!signal.aborted) {
        if (!isTriggered || isPending) await sleepTick();
        if (signal.aborted) return;
        const now = clock.monotonic();
        if (now - expiryCheckedAt >= expiryCheckMs) {
          expiryCheckedAt = now;
          endExpired();
        }
        if (confirmation.leftMs() <= 0) {
          endUnconfirmed();
          // Streams that enter from now on were looked up when they entered.
          confirmation.restart(now);
        }
        if (now - startedAt < pauseMs()) continue;
        isTriggered = false;
        isPending = true;
        startedAt = now;
        void recheck(now);
      }
    },
    count: () => open.size,
    /** Ends all streams, and rejects new ones, with `shutting_down`. */
    stop() {
      stopped = true;
      void endInBatches(new Set(open.keys()), "shutting_down");
    },
  };
};

/** For how long core may accept what streams send until the next recheck succeeds. */
const createConfirmation = (clock: Pick<Clock, "monotonic" | "sleep">) => {
  let confirmedAt = clock.monotonic();
  const leftMs = () => confirmedAt + unconfirmedMsMax - clock.monotonic();
  return {
    leftMs,
    /** A recheck that began at `since` has confirmed all streams; a later one may have succeeded before it. */
    extend(since: number) {
      confirmedAt = Math.max(confirmedAt, since);
    },
    restart(since: number) {
      confirmedAt = since;
    },
    /** Sleeps a tick, or less until nothing is left. A late end is not counted. */
    async sleepTick(signal: AbortSignal) {
      const left = leftMs();
      const ms = left > 0 ? Math.min(left, tickMs) : tickMs;
      const dueAt = clock.monotonic() + ms;
      await clock.sleep(ms, signal).catch(() => undefined);
      const lateMs = clock.monotonic() - dueAt;
      if (lateMs > longTurnMs) confirmedAt += lateMs;
    },
  };
};

const earlierOf = (one: Caller, other: Caller | undefined): Caller =>
  other === undefined || one.notAfter < other.notAfter ? one : other;
