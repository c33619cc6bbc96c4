import { vi } from "vitest";

/**
 * Waits until `check` no longer throws; returns its result. The timeout is longer than a busy machine needs. For a single value use
 * `expect.poll`, which waits as this does (vitest.config.ts).
 */
export const eventually = <Found>(check: () => Found | Promise<Found>): Promise<Found> =>
  vi.waitFor(check, { timeout: 60_000, interval: 20 });
