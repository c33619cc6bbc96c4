import { vi } from "vitest";

/**
 * Waits until `check` no longer throws, and gives what it gives. The limit only ends a test that would never end: it is longer than a
 * machine that is busy with other things needs. For a single value `expect.poll` has the same limit (vitest.config.ts).
 */
export const eventually = <Found>(check: () => Found | Promise<Found>): Promise<Found> =>
  vi.waitFor(check, { timeout: 60_000, interval: 5 });
