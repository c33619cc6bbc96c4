import type { Clock } from "./clock.ts";

/** Reports that a deadline passed; the message names its seconds. */
export class TimedOut extends Error {
  override readonly name = "TimedOut";
}

/** Returns the result of `work`. Throws `TimedOut` after `ms` milliseconds; does not cancel the work. */
export const withTimeout = async <Result>(
  ms: number,
  clock: Pick<Clock, "sleep">,
  work: Result | Promise<Result>,
): Promise<Result> => {
  const settled = new AbortController();
  const late = clock.sleep(ms, settled.signal).then(() => {
    throw new TimedOut(`no answer within ${ms / 1000} s`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    settled.abort();
  }
};
