import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import * as v from "valibot";
import { readAt } from "./lines.ts";

/** Where a file was found; stays when it is renamed. */
export interface Place {
  readonly path: string;
  /** The directory that the file itself is in, if `path` leads there through a symbolic link: there it is renamed. */
  readonly directory?: string | undefined;
}

/**
 * How far a file was read. Files are told apart by device and inode; since an inode is used again after its file is gone, and a
 * truncated file may have grown past the old place by the time it is looked at, the first bytes must be the same too.
 */
export interface Position extends Place {
  /** Everything before it is in the queue. */
  readonly offset: number;
  readonly head: Head;
}

/** SHA-256 of the first bytes of what was read. */
interface Head {
  readonly bytes: number;
  readonly sha256: string;
}

const headBytesMax = 1024;

const SavedPosition = v.object({
  path: v.string(),
  directory: v.optional(v.string()),
  offset: v.pipe(v.number(), v.integer(), v.minValue(0)),
  head: v.object({
    bytes: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(headBytesMax)),
    sha256: v.string(),
  }),
});

/** The key of a file's checkpoint. */
export const fileKey = (stat: { dev: number; ino: number }): string => `${stat.dev}:${stat.ino}`;

/** A checkpoint's value. */
export const savePosition = ({ path, directory, offset, head }: Position): string =>
  JSON.stringify({ path, directory, offset, head });

/** The position in a checkpoint's value, or null for one that this collector did not write. */
export const parsePosition = (value: string): Position | null => {
  try {
    return v.parse(SavedPosition, JSON.parse(value));
  } catch {
    return null;
  }
};

/** The position `offset` in an open file. `before` saves reading the head again when it was complete. */
export const positionAt = async (
  file: FileHandle,
  { path, directory }: Place,
  offset: number,
  before?: Position,
): Promise<Position> => {
  if (before !== undefined && before.head.bytes === headBytesMax) return { path, directory, offset, head: before.head };
  return { path, directory, offset, head: await readHead(file, Math.min(offset, headBytesMax)) };
};

/** The position `offset` in a file of which `chunk` was read from its beginning, up to the offset at least. */
export const positionIn = (chunk: Uint8Array, { path, directory }: Place, offset: number): Position => ({
  path,
  directory,
  offset,
  head: headOf(chunk.subarray(0, Math.min(offset, headBytesMax))),
});

/** Whether the file still begins with what was read from it. */
export const hasSameHead = async (file: FileHandle, { head }: Position): Promise<boolean> =>
  (await readHead(file, head.bytes)).sha256 === head.sha256;

const readHead = async (file: FileHandle, bytes: number): Promise<Head> =>
  headOf(await readAt(file, 0, Buffer.allocUnsafe(bytes)));

const headOf = (head: Uint8Array): Head => ({
  bytes: head.length,
  sha256: createHash("sha256").update(head).digest("hex"),
});
