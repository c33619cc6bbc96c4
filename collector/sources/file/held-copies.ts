import type { Clock } from "#kit/clock.ts";
import type { Candidate } from "./file-opener.ts";
import { fileKey } from "./position.ts";

/** Copies of followed files, kept open: if one of those turns out to be truncated, what is unread of it is here. And compressed files to be read. */
export interface HeldCopies {
  hold(copies: readonly Candidate[]): void;
  has(key: string): boolean;
  /** Whether a copy has grown, or none was compared for a while. */
  mayDiffer(): Promise<boolean>;
  /** Gives up all copies, as they are now, to be decided on again. */
  release(): readonly Candidate[];
  close(): Promise<void>;
}

/** How often copies are compared with the followed files without an occasion. */
const compareMs = 10_000;

/** Creates an empty list of copies. */
export const createHeldCopies = (clock: Pick<Clock, "monotonic">): HeldCopies => {
  let held: readonly Candidate[] = [];
  let comparedAt = Number.NEGATIVE_INFINITY;
  return {
    hold: (copies) => {
      held = [...held, ...copies];
    },
    has: (key) => held.some(({ file }) => fileKey(file.stat) === key),
    mayDiffer: async () => {
      let hasGrown = false;
      const now: Candidate[] = [];
      for (const candidate of held) {
        const { file, isContent } = candidate;
        // One whose mount does not answer stays as it was.
        const stat = isContent ? file.stat : await file.restat().catch(() => file.stat);
        hasGrown ||= stat.size !== file.stat.size;
        now.push({ ...candidate, file: { ...file, stat } });
      }
      held = now;
      const isDue = held.length > 0 && clock.monotonic() - comparedAt >= compareMs;
      return hasGrown || isDue;
    },
    release: () => {
      comparedAt = clock.monotonic();
      const released = held;
      held = [];
      return released;
    },
    close: async () => {
      for (const { file } of held) await file.close().catch(() => undefined);
      held = [];
    },
  };
};
