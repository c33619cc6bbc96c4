/* Compares found files with what is followed, or was. */
import type { Candidate } from "./file-opener.ts";
import type { Placed, PlacementContext } from "./placement.ts";
import { continues, fileKey, isBeginningOf, isCopyOf, type Position } from "./position.ts";

/** Creates the comparisons of candidates with what is followed. */
export const createFileComparisons = (
  { tailsOf, cutsOf, isFollowed }: PlacementContext,
  placed: readonly Placed[],
) => ({
  /** Reports whether a file is followed already, under another name, or has nothing. */
  isSeen: ({ file, origin }: Candidate): boolean => {
    const key = fileKey(file.stat);
    const isPlaced = isFollowed(key) || placed.some((other) => other.key === key);
    return isPlaced || (origin !== "live" && file.stat.size === 0);
  },

  /** Reports whether a file has nothing but what was read of a followed one. */
  isReadBeginning: async ({ file, base }: Candidate): Promise<boolean> => {
    const { size } = file.stat;
    for (const { position, file: followed } of tailsOf(base)) {
      if (position.offset < size || !(await isBeginningOf(file, size, followed))) continue;
      // A truncation that nobody has noticed yet: the position is that of other bytes.
      if (await continues(followed, (await followed.restat()).size, position)) return true;
    }
    return false;
  },

  /** Reports whether what a file has behind an offset is read from a followed one: many files may begin alike. */
  isReadElsewhere: async ({ file, base }: Candidate, offset: number): Promise<boolean> => {
    const { size } = file.stat;
    const others = [...tailsOf(base), ...placed.filter(({ position }) => position.path === base)];
    for (const other of others)
      if (size > offset && (await isBeginningOf(file, size, other.file))) return true;
    return false;
  },

  /** Reports whether a file is a copy of a followed one with the path `base`. */
  isCopy: async ({ file, base, origin }: Candidate): Promise<boolean> => {
    // Rotation gives copies other names.
    if (origin === "live") return false;
    const { size } = file.stat;
    const followed = [
      ...[...tailsOf(base)].map(({ file: other, ahead }) => ({ file: other, position: ahead })),
      ...placed.filter(({ position }) => position.path === base),
    ];
    for (const { file: other, position } of followed) {
      const { size: followedSize } = await other.restat();
      if (await isCopyOf(file, size, { file: other, position, followedSize })) return true;
    }
    for (const cut of cutsOf(base)) if (await continues(file, size, cut)) return true;
    return false;
  },
});

/** Reports whether a file has what was read of another one; of a file of which no byte was seen, its size decides. */
export const isContinued = (
  { file }: Candidate,
  position: Position,
): boolean | Promise<boolean> => {
  const { size } = file.stat;
  const isUnseen = position.offset === 0 && position.head.bytes === 0;
  return isUnseen ? size > 0 && size === position.size : continues(file, size, position);
};
