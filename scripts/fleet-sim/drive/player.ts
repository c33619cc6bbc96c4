/**
 * Plays the timelines of driven hosts in real time. Invariants: a host performs one step after the other, in order; at most
 * `concurrency` steps run at once; no step begins before its time. When core is slow, steps begin late and are not dropped. A kept fleet
 * alone drops heartbeats and frames that it missed, for instance while its machine slept. A host retries an enrollment that failed
 * temporarily, because the rest of its timeline depends on it.
 */
import TinyQueue from "tinyqueue";
import type { Clock } from "#kit/clock.ts";
import type { Step } from "../scenario/steps.ts";
import type { DrivenHost } from "./driven-host.ts";
import type { Measurements } from "./measurements.ts";
import { endsEnrollment, explained } from "./refusals.ts";
import { WireError } from "./wire.ts";

/** A host and the rest of its timeline. */
export interface PlayedHost {
  driven: DrivenHost;
  steps: Iterator<Step>;
  /** When each step happened by core's clock, NaN for one that failed. Undefined for a host that is only kept alive. */
  times: number[] | undefined;
}

/** Plays the hosts that were added. */
export interface Player {
  /** Takes over the host's steps. */
  add(host: PlayedHost): void;
  /**
   * Plays until the next step is later than `until`, or the signal aborts. Settles when every step that began has ended; rejects
   * with `EnrollmentRefused` when core would reject every other host's enrollment too.
   */
  play(until: number, signal: AbortSignal): Promise<void>;
}

/** The dependencies of a player. */
export interface PlayerContext {
  clock: Clock;
  measure: Measurements;
  concurrency: number;
  /** The most steps begun in a second; undefined: no limit. */
  ratePerSecond: number | undefined;
}

/** Core rejects this host's enrollment, and would reject every other one. */
export class EnrollmentRefused extends Error {
  constructor(code: string) {
    super(`core rejects every enrollment: ${explained(code)}`);
    this.name = "EnrollmentRefused";
  }
}

interface DueStep {
  at: number;
  host: PlayedHost;
  step: Step;
  /** Counts from 0. */
  attempt: number;
}

/** A queue of items by their time, earliest first; items of equal time in the order of insertion. */
export interface Schedule<Item extends { at: number }> {
  add(item: Item): void;
  /** The time of the earliest item; infinity without one. */
  nextAt(): number;
  take(): Item | undefined;
}

/** Creates an empty schedule; it may have 100,000 items. */
export const createSchedule = <Item extends { at: number }>(): Schedule<Item> => {
  const queue = new TinyQueue<{ item: Item; order: number }>([], (one, other) =>
    one.item.at === other.item.at ? one.order - other.order : one.item.at - other.item.at,
  );
  let added = 0;
  return {
    add: (item) => queue.push({ item, order: added++ }),
    nextAt: () => queue.peek()?.item.at ?? Number.POSITIVE_INFINITY,
    take: () => queue.pop()?.item,
  };
};

const missedMs = 30_000;
const retryMs = { first: 1000, max: 30_000 };

/** Creates a player without hosts. */
export const createPlayer = (context: PlayerContext): Player => {
  const { clock, measure, concurrency, ratePerSecond } = context;
  const schedule = createSchedule<DueStep>();
  const running = new Set<Promise<void>>();
  let waking = new AbortController();
  let startNotBefore = Number.NEGATIVE_INFINITY;

  const isMissed = ({ times }: PlayedHost, { kind, at }: Step): boolean =>
    times === undefined &&
    (kind === "heartbeat" || kind === "forward") &&
    at < clock.now() - missedMs;

  const put = (due: DueStep): void => {
    const isFirst = due.at < schedule.nextAt();
    schedule.add(due);
    if (isFirst) waking.abort();
  };

  const add = (host: PlayedHost): void => {
    let next = host.steps.next();
    while (!next.done && isMissed(host, next.value)) next = host.steps.next();
    if (!next.done) put({ at: next.value.at, host, step: next.value, attempt: 0 });
  };

  const run = async (due: DueStep): Promise<void> => {
    const { host, step, attempt } = due;
    if (attempt === 0) measure.late(Math.max(0, clock.now() - step.at));
    const at = await perform(due, context);
    if (at === "retry") {
      const wait = Math.min(retryMs.max, retryMs.first * 2 ** attempt);
      put({ at: clock.now() + wait, host, step, attempt: attempt + 1 });
      return;
    }
    host.times?.push(at);
    add(host);
  };

  /** Waits, but no longer than until something earlier is due. */
  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
    waking = new AbortController();
    await clock.sleep(ms, AbortSignal.any([signal, waking.signal])).catch(() => undefined);
  };

  const playDue = async (until: number, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && (schedule.nextAt() <= until || running.size > 0)) {
      // First a free slot: a running step may schedule an earlier one.
      if (running.size >= concurrency || schedule.nextAt() > until) {
        await Promise.race(running);
        continue;
      }
      const wait = Math.max(schedule.nextAt(), startNotBefore) - clock.now();
      if (wait > 0) {
        await pause(wait, signal);
        continue;
      }
      const due = schedule.take();
      if (due === undefined) continue;
      if (ratePerSecond !== undefined)
        startNotBefore = Math.max(startNotBefore, clock.now()) + 1000 / ratePerSecond;
      const task = run(due).finally(() => running.delete(task));
      running.add(task);
      // The race above, or the end of `play`, handles its rejection.
      task.catch(() => undefined);
      // A caller that moves the clock must not do so while the only step runs.
      if (concurrency === 1) await task;
    }
  };

  const play: Player["play"] = async (until, signal) => {
    try {
      await playDue(until, signal);
      await Promise.all(running);
    } finally {
      await Promise.allSettled(running);
    }
  };
  return { add, play };
};

const perform = async (
  { host: { driven, times }, step, attempt }: DueStep,
  { clock, measure }: PlayerContext,
): Promise<number | "retry"> => {
  if (step.kind === "note") return step.at;
  const kind = step.kind.replace("_", ".");
  const startedAt = clock.monotonic();
  const expected = step.kind === "heartbeat" ? step.expected : "done";
  try {
    const { outcome, at } = await driven.perform(step);
    measure.called(kind, clock.monotonic() - startedAt, outcome === expected ? undefined : outcome);
    if (outcome !== expected) return Number.NaN;
    if (outcome !== "done" && outcome !== "accepted") measure.refused(outcome);
    return at;
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    measure.called(kind, clock.monotonic() - startedAt, error.code);
    if (step.kind !== "enroll") return Number.NaN;
    if (error.isTransient) return "retry";
    if (times !== undefined && endsEnrollment(error.code, attempt))
      throw new EnrollmentRefused(error.code);
    return Number.NaN;
  }
};
