import type { Clock } from "./clock.ts";

interface Turn<Result> {
  run: Promise<Result>;
  /** By the monotonic clock. */
  startedAt: number;
  version: unknown;
  /** The run after this one, once a call waits for it. */
  next: Promise<Result> | null;
  isOver: boolean;
}

/** Results that are kept for later calls. */
const keptMax = 32;

/** How long a run serves calls after it has started. */
export interface SharedFor {
  ms: number;
  clock: Pick<Clock, "monotonic">;
  /** Returns a value that changes whenever a new run would read more; each call compares it. */
  version?: () => Promise<unknown>;
}

/**
 * Shares runs among the calls of a key, and returns no result of a run that started before the call, unless it started within `sharedFor` at the
 * version of the call: calls that arrive while an older run is in flight wait for its end and share the next one, even if the first fails. So no
 * call waits for more than two runs. A failure is never returned to a call that came after it.
 */
export const shareNextRun = <Given, Result>(
  run: (given: Given) => Promise<Result>,
  keyOf: (given: Given) => string,
  sharedFor?: SharedFor,
): ((given: Given) => Promise<Result>) => {
  const turns = new Map<string, Turn<Result>>();
  const now = () => sharedFor?.clock.monotonic() ?? 0;
  const isFresh = ({ startedAt }: Turn<Result>) =>
    sharedFor !== undefined && now() - startedAt < sharedFor.ms;
  const start = (key: string, given: Given, version: unknown): Promise<Result> => {
    for (const [other, turn] of turns) if (turn.isOver && !isFresh(turn)) turns.delete(other);
    const turn: Turn<Result> = {
      run: run(given),
      startedAt: now(),
      version,
      next: null,
      isOver: false,
    };
    turns.set(key, turn);
    const end = (isKept: boolean) => {
      turn.isOver = true;
      if (turn.next === null && !isKept && turns.get(key) === turn) turns.delete(key);
    };
    turn.run.then(
      () => end(isFresh(turn) && turns.size <= keptMax),
      () => end(false),
    );
    return turn.run;
  };
  const join = (given: Given, version: unknown): Promise<Result> => {
    const key = keyOf(given);
    const turn = turns.get(key);
    const isServed = turn !== undefined && isFresh(turn) && turn.version === version;
    if (turn === undefined || (turn.isOver && turn.next === null && !isServed))
      return start(key, given, version);
    if (turn.next === null && isServed) return turn.run;
    const startNext = () => start(key, given, version);
    turn.next ??= turn.run.then(startNext, startNext);
    return turn.next;
  };
  return (given) => {
    const version = sharedFor?.version?.();
    return version === undefined
      ? join(given, undefined)
      : version.then((known) => join(given, known));
  };
};
