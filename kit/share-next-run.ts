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

/** The most results that are kept for later calls. */
const keptMax = 32;

/** How long after its start the result of a run may serve later calls. */
export interface SharedFor {
  ms: number;
  clock: Pick<Clock, "monotonic">;
  /** Returns a value that changes whenever a new run would read newer data; each call compares it. */
  version?: () => Promise<unknown>;
}

/**
 * Shares runs among the calls of a key. A call gets the result of a run that starts after it, or one that started within `sharedFor` at the same
 * version. Calls that arrive while an older run is in flight wait for its end, also for its failure, and share the next one, so no call waits for
 * more than two runs. A call never gets a failure that occurred before it.
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
