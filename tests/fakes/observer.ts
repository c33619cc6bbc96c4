import type { Observer } from "#functions/counted-metrics.ts";

/** One call of an observer. */
export interface Observation {
  method: keyof Observer;
  args: readonly unknown[];
}

/** Creates an observer that keeps the calls of every method. */
export const createTestObserver = () => {
  const observations: Observation[] = [];
  const observe = new Proxy({} as Observer, {
    get:
      (_, method) =>
      (...args: unknown[]) => {
        observations.push({ method: method as keyof Observer, args });
      },
  });
  return { observe, observations };
};
