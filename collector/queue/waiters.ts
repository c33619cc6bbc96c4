import { QueueFullError } from "./errors.ts";

/** Creates an empty list of readers that wait for records above a sequence. */
export const createRecordWaiters = () => {
  let readers: { sequence: number; resolve(): void }[] = [];
  return {
    /** Resolves when `notify` is called with a sequence above `sequence`; rejects with the signal's reason. */
    wait: (sequence: number, signal: AbortSignal): Promise<void> => {
      if (signal.aborted) return Promise.reject(signal.reason);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const abort = () => {
        readers = readers.filter((other) => other !== reader);
        reject(signal.reason);
      };
      const reader = {
        sequence,
        resolve: () => {
          signal.removeEventListener("abort", abort);
          resolve();
        },
      };
      signal.addEventListener("abort", abort, { once: true });
      readers.push(reader);
      return promise;
    },
    /** Wakes the readers that wait for a record up to `lastSequence`. */
    notify: (lastSequence: number) => {
      const ready = readers.filter(({ sequence }) => sequence < lastSequence);
      if (ready.length === 0) return;
      readers = readers.filter(({ sequence }) => sequence >= lastSequence);
      for (const { resolve } of ready) resolve();
    },
  };
};

/** An append that can wait for room. */
interface Waiter<Outcome> {
  readonly total: number;
  readonly isWanted?: (() => boolean) | undefined;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** Adds `append` to the end of `waiting`. Removes and rejects it with `QueueFullError` if `signal` aborts first. */
export const waitForRoom = <Outcome, Append extends Waiter<Outcome>>(
  append: Append & Waiter<Outcome>,
  waiting: Append[],
  signal: AbortSignal | undefined,
): void => {
  if (signal === undefined) {
    waiting.push(append);
    return;
  }
  const abort = () => {
    const index = waiting.indexOf(waiter);
    if (index === -1) return;
    waiting.splice(index, 1);
    append.reject(new QueueFullError({ cause: signal.reason }));
  };
  const settle =
    <Value>(next: (value: Value) => void) =>
    (value: Value) => {
      signal.removeEventListener("abort", abort);
      next(value);
    };
  const waiter = { ...append, resolve: settle(append.resolve), reject: settle(append.reject) };
  waiting.push(waiter);
  signal.addEventListener("abort", abort, { once: true });
};

/**
 * Removes and returns the first of `waiting` if it fits. Before it, removes and rejects with `QueueFullError` those that are no
 * longer wanted.
 */
export const takeFitting = <Append extends Waiter<never>>(
  waiting: Append[],
  fits: (total: number) => boolean,
): Append | undefined => {
  for (;;) {
    const [first] = waiting;
    if (first === undefined || !fits(first.total)) return undefined;
    waiting.shift();
    if (first.isWanted?.() !== false) return first;
    first.reject(new QueueFullError());
  }
};
