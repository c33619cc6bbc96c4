/** Time as a dependency: everything that waits or stamps takes a `Clock`, so that tests own time. */
export interface Clock {
  /** Wall time, milliseconds since the Unix epoch. May step backwards when the machine's clock is set. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin: for durations and timeouts. */
  monotonic(): number;
  /** Resolves after `ms` milliseconds, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

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
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, ms);
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/** RFC 3339 in UTC with milliseconds, the one form in which the API writes a time. */
export const rfc3339 = (ms: number): string => new Date(ms).toISOString();
