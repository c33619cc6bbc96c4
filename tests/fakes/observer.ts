import type { Observer } from "../../functions/core.ts";

/** One observation, as the method was called. */
export interface Observation {
  method: keyof Observer;
  args: readonly unknown[];
}

/** An observer that keeps what it is told, whatever methods the interface grows. */
export const createTestObserver = (): { observe: Observer; observations: readonly Observation[] } => {
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
