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

const Saved = v.object({ gaps: v.number(), bytes: v.number(), unknown: v.optional(v.number(), 0) });

const parseGaps = (value: string | undefined): FileGaps => {
  try {
    return v.parse(Saved, JSON.parse(value ?? ""));
  } catch {
    return { gaps: 0, bytes: 0, unknown: 0 };
  }
};

/** Returns the checkpoint that adds one gap of at least `bytes` to those of a source; 0: nobody knows how many. */
export const addFileGap = (
  saved: ReadonlyMap<string, string>,
  source: string,
  bytes: number,
): Checkpoint => {
  const before = parseGaps(saved.get(source));
  const value: FileGaps = {
    gaps: before.gaps + 1,
    bytes: before.bytes + bytes,
    unknown: before.unknown + (bytes === 0 ? 1 : 0),
  };
  return { source: fileGapSource, key: source, value: JSON.stringify(value) };
};

/** Returns the sum over all sources. */
export const sumFileGaps = (saved: ReadonlyMap<string, string>): FileGaps => {
  const sum = { gaps: 0, bytes: 0, unknown: 0 };
  for (const value of saved.values()) {
    const { gaps, bytes, unknown } = parseGaps(value);
    sum.gaps += gaps;
    sum.bytes += bytes;
    sum.unknown += unknown;
  }
  return sum;
};
