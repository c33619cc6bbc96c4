import { QueueFullError } from "./errors.ts";

/** What a call that waits for room has to be told. */
interface Waiter<Outcome> {
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
