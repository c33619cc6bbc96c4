/**
 * Plays the stories of driven hosts in their time. Invariants: a host does one step after the other, in the order of its story; at
 * most `concurrency` steps run at once; none begins before its time, and what core is too slow for begins late and not never, but for
 * what repeats itself of a part whose times nobody asks for: a machine that slept does not make up for it. A host that could not
 * enroll for the moment asks again, as without it the rest of its story would be lost.
 */
import type { Clock } from "../../../kit/clock.ts";
import type { Step } from "../scenario/steps.ts";
import type { DrivenHost } from "./driven-host.ts";
import type { Measurements } from "./measurements.ts";
import { endsEnrollment, explained } from "./refusals.ts";
import { createSchedule } from "./schedule.ts";
import { WireError } from "./wire.ts";

/** A host and what is left of its story. */
export interface Part {
  driven: DrivenHost;
  steps: Iterator<Step>;
  /** When each step so far happened, by core's clock; NaN for one that failed, and which core knows nothing of. Undefined: not kept. */
  times: number[] | undefined;
}

/** Plays the parts that joined. */
export interface Player {
  /** Nobody else may take steps of a part that joined. */
  join(part: Part): void;
  /**
   * Plays on, until the next step is later than `until`, or the signal aborts. Resolves when all that began has ended; rejects then
   * with `EnrollmentEnded` when core refuses what every other host would ask for too.
   */
  play(until: number, signal: AbortSignal): Promise<void>;
}

/** What a player needs. */
export interface PlayerNeeds {
  clock: Clock;
  measure: Measurements;
  concurrency: number;
  /** Steps begun in a second at most; undefined: as they are due. */
  ratePerSecond: number | undefined;
}

/** Core refuses to enroll this host, and would refuse every other one. */
export class EnrollmentEnded extends Error {
  constructor(code: string) {
    super(`core enrolls nobody: ${explained(code)}`);
    this.name = "EnrollmentEnded";
  }
}

interface Turn {
  part: Part;
  step: Step;
  /** How often it was begun before. */
  attempt: number;
}

const missedMs = 30_000;
const againMs = { first: 1000, max: 30_000 };

/** Makes a player without parts. */
export const createPlayer = (needs: PlayerNeeds): Player => {
  const { clock, measure, concurrency, ratePerSecond } = needs;
  const agenda = createSchedule<Turn>();
  const running = new Set<Promise<void>>();
  let waking = new AbortController();
  let startNotBefore = Number.NEGATIVE_INFINITY;

  const isMissed = ({ times }: Part, { kind, at }: Step): boolean =>
    times === undefined && (kind === "heartbeat" || kind === "forward") && at < clock.now() - missedMs;

  const put = (at: number, turn: Turn): void => {
    const isFirst = at < agenda.nextAt();
    agenda.add(at, turn);
    if (isFirst) waking.abort();
  };

  const enlist = (part: Part): void => {
    let next = part.steps.next();
    while (!next.done && isMissed(part, next.value)) next = part.steps.next();
    if (!next.done) put(next.value.at, { part, step: next.value, attempt: 0 });
  };

  const run = async (turn: Turn): Promise<void> => {
    const { part, step, attempt } = turn;
    if (attempt === 0) measure.late(Math.max(0, clock.now() - step.at));
    const at = await perform(turn, needs);
    if (at === "again") {
      const wait = Math.min(againMs.max, againMs.first * 2 ** attempt);
      put(clock.now() + wait, { part, step, attempt: attempt + 1 });
      return;
    }
    part.times?.push(at);
    enlist(part);
  };

  /** Until a time, or until something is due earlier than what was waited for. */
  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
    waking = new AbortController();
    await clock.sleep(ms, AbortSignal.any([signal, waking.signal])).catch(() => undefined);
  };

  const playOn = async (until: number, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && (agenda.nextAt() <= until || running.size > 0)) {
      // A free place first: what runs may bring something that is due earlier.
      if (running.size >= concurrency || agenda.nextAt() > until) {
        await Promise.race(running);
        continue;
      }
      const wait = Math.max(agenda.nextAt(), startNotBefore) - clock.now();
      if (wait > 0) {
        await pause(wait, signal);
        continue;
      }
      const due = agenda.take();
      if (due === undefined) continue;
      if (ratePerSecond !== undefined) startNotBefore = Math.max(startNotBefore, clock.now()) + 1000 / ratePerSecond;
      const task = run(due.item).finally(() => running.delete(task));
      running.add(task);
      // Whoever plays hears of it by the race above.
      task.catch(() => undefined);
      // Time may be the caller's to move: it must not move while the only step runs.
      if (concurrency === 1) await task;
    }
  };
  const play: Player["play"] = async (until, signal) => {
    try {
      await playOn(until, signal);
    } catch (error) {
      await Promise.allSettled(running);
      throw error;
    }
    await Promise.all(running);
  };
  return { join: enlist, play };
};

const perform = async (
  { part: { driven, times }, step, attempt }: Turn,
  { clock, measure }: PlayerNeeds,
): Promise<number | "again"> => {
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
    if (error.isPassing) return "again";
    if (times !== undefined && endsEnrollment(error.code, attempt)) throw new EnrollmentEnded(error.code);
    return Number.NaN;
  }
};
