/** Time as a dependency: code that waits or reads the time takes a `Clock`, so that tests control it. */
export interface Clock {
  /** Wall time, milliseconds since the Unix epoch. May step backwards when the machine's clock is set. */
  now(): number;
  /** Wall time by this machine's own clock, where `now` follows another one. */
  machineNow?(): number;
  /** Monotonic milliseconds from an arbitrary origin: for durations and timeouts. */
  monotonic(): number;
  /** Resolves after `ms` milliseconds, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The milliseconds of a minute, an hour and a day. */
export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** Returns the two times that may be correct: by `now`, and by this machine's own clock. */
export const possibleTimes = ({
  now,
  machineNow = now,
}: Pick<Clock, "now" | "machineNow">): [number, number] => [now(), machineNow()];

/** Node's longest timer, 24.8 days; a longer one would fire after a millisecond. */
const timerMsMax = 2 ** 31 - 1;

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const wait = (leftMs: number): ReturnType<typeof setTimeout> =>
        setTimeout(
          () => {
            if (leftMs > timerMsMax) {
              timer = wait(leftMs - timerMsMax);
              return;
            }
            signal?.removeEventListener("abort", stop);
            resolve();
          },
          Math.min(leftMs, timerMsMax),
        );
      let timer = wait(ms);
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/** Calls `act` after `ms` milliseconds. Returns a function that cancels the call. */
export const callAfter = (
  clock: Pick<Clock, "sleep">,
  ms: number,
  act: () => void,
): (() => void) => {
  const cancelled = new AbortController();
  // With a reason: the default one is an error, whose stack costs time.
  clock.sleep(ms, cancelled.signal).then(act, () => undefined);
  return () => cancelled.abort("cancelled");
};

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

/** Formats a timestamp as RFC 3339 in UTC with milliseconds, the only form that the API writes. */
export const rfc3339 = (ms: number): string => new Date(ms).toISOString();

/** The text that completes a time to milliseconds, by the index at which its time zone begins. */
const endings = new Map([
  [19, ".000Z"],
  [21, "00Z"],
  [22, "0Z"],
  [23, "Z"],
]);

/**
 * Returns a `timestamptz`, as a session in UTC writes it, as RFC 3339 in UTC with milliseconds. Throws for `infinity`. Rearranges the text:
 * `Date` takes a microsecond to parse PostgreSQL's form, and a row of the report has ten.
 */
export const timestampOf = (text: string): string => {
  const zoneAt = text.length - 3;
  const ending = endings.get(zoneAt);
  return ending !== undefined && text[10] === " " && text.endsWith("+00")
    ? `${text.slice(0, 10)}T${text.slice(11, zoneAt)}${ending}`
    : new Date(text).toISOString();
};
