import { QueueFullError } from "./errors.ts";

/** What a call that waits for room has to be told. */
interface Waiter<Outcome> {
  readonly total: number;
  readonly isWanted?: (() => boolean) | undefined;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** Puts `append` at the end of `waiting`, and takes it out again, with `QueueFullError`, when `signal` aborts first. */
export const waitForRoom = <Outcome, Append extends Waiter<Outcome>>(
  append: Append & Waiter<Outcome>,
  waiting: Append[],
  signal: AbortSignal | undefined,
): void => {
  if (signal === undefined) {
    waiting.push(append);
    return;
  }
  const giveUp = () => {
    const place = waiting.indexOf(waiter);
    if (place === -1) return;
    waiting.splice(place, 1);
    append.reject(new QueueFullError({ cause: signal.reason }));
  };
  const settle =
    <Value>(next: (value: Value) => void) =>
    (value: Value) => {
      signal.removeEventListener("abort", giveUp);
      next(value);
    };
  const waiter = { ...append, resolve: settle(append.resolve), reject: settle(append.reject) };
  waiting.push(waiter);
  signal.addEventListener("abort", giveUp, { once: true });
};

/** Takes the first of `waiting` out if it fits. Those before it that nobody wants any more are taken out too, with `QueueFullError`. */
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
