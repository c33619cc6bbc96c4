import * as v from "valibot";
import type { Checkpoint } from "./record.ts";

/** The known losses of the file sources between rotations, ever. Kept as checkpoints, so that they survive restarts. */
export interface FileGaps {
  gaps: number;
  bytes: number;
  /** Gaps whose bytes nobody knows. */
  unknown: number;
}

/** The source of these checkpoints; the key is the name of the `file` source. */
export const fileGapSource = "file.gap";

const Gaps = v.object({ gaps: v.number(), bytes: v.number(), unknown: v.optional(v.number(), 0) });
const noGaps: FileGaps = { gaps: 0, bytes: 0, unknown: 0 };
/** None where nothing is saved, or nothing that can be read. */
const SavedGaps = v.fallback(v.pipe(v.string(), v.parseJson(), Gaps), noGaps);

/** Returns the checkpoint that adds gaps of at least so many bytes each to those of a source; 0: nobody knows how many. */
export const addFileGaps = (
  saved: ReadonlyMap<string, string>,
  source: string,
  gaps: readonly number[],
): Checkpoint => {
  const before = v.parse(SavedGaps, saved.get(source));
  const value: FileGaps = {
    gaps: before.gaps + gaps.length,
    bytes: gaps.reduce((sum, bytes) => sum + bytes, before.bytes),
    unknown: before.unknown + gaps.filter((bytes) => bytes === 0).length,
  };
  return { source: fileGapSource, key: source, value: JSON.stringify(value) };
};

/** Returns the sum over all sources. */
export const sumFileGaps = (saved: ReadonlyMap<string, string>): FileGaps => {
  const sum = { ...noGaps };
  for (const value of saved.values()) {
    const { gaps, bytes, unknown } = v.parse(SavedGaps, value);
    sum.gaps += gaps;
    sum.bytes += bytes;
    sum.unknown += unknown;
  }
  return sum;
};
