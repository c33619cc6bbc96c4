import type { Clock } from "./clock.ts";

/** There was no answer in time; the message says within how many seconds. */
export class TimedOut extends Error {
  override readonly name = "TimedOut";
}

/** What `work` comes to. Throws `TimedOut` when it takes longer than `ms`; the work itself is not stopped. */
export const within = async <Result>(
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
