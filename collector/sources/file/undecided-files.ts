import type { Clock } from "#kit/clock.ts";
import type { Candidate } from "./file-opener.ts";
import { fileKey } from "./position.ts";

/** How often they are compared with the followed files without an occasion. */
const compareMs = 10_000;

/**
 * Creates an empty list that keeps files open that are to be decided on again: copies of followed ones, because what is unread of a truncated one
 * is in its copy, and compressed ones that are not measured yet.
 */
export const createUndecidedFiles = (clock: Pick<Clock, "monotonic">) => {
  let undecided: readonly Candidate[] = [];
  let comparedAt = Number.NEGATIVE_INFINITY;
  return {
    add: (files: readonly Candidate[]) => {
      undecided = [...undecided, ...files];
    },
    has: (key: string) => undecided.some(({ file }) => fileKey(file.stat) === key),
    /** Reports whether one has grown, or none was compared for a while. */
    mayDiffer: async () => {
      let hasGrown = false;
      const now: Candidate[] = [];
      for (const candidate of undecided) {
        const { file } = candidate;
        // One whose mount does not answer stays as it was.
        const stat = await file.restat().catch(() => file.stat);
        hasGrown ||= stat.size !== file.stat.size;
        now.push({ ...candidate, file: { ...file, stat } });
      }
      undecided = now;
      const isDue = now.length > 0 && clock.monotonic() - comparedAt >= compareMs;
      return hasGrown || isDue;
    },
    /** Returns all of them, as they are now, and keeps none. */
    take: () => {
      comparedAt = clock.monotonic();
      const taken = undecided;
      undecided = [];
      return taken;
    },
    close: async () => {
      for (const { file } of undecided) await file.close().catch(() => undefined);
      undecided = [];
    },
  };
};
