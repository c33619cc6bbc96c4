import { setTimeout as delay } from "node:timers/promises";

const timeoutMs = 60_000;

/**
 * Waits until `check` no longer throws; returns its result. Pauses four times as long as a check took, up to a second, so that a wait
 * leaves the processors to what it waits for. The timeout is longer than a busy machine needs. For a single value use `expect.poll`.
 */
export const eventually = async <Found>(check: () => Found | Promise<Found>): Promise<Found> => {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const startedAt = performance.now();
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await delay(Math.min(1000, Math.max(20, 4 * (performance.now() - startedAt))));
  }
};
