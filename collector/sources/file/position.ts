import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import * as v from "valibot";
import { readAt } from "./lines.ts";

/** Where a file was found. It does not change when the file is renamed. */
interface FileLocation {
  readonly path: string;
  /** The file's own directory, in which it is renamed, if `path` leads there through a symbolic link. */
  readonly directory?: string | undefined;
  /** When the file was last changed before it was found. */
  readonly foundMs?: number | undefined;
  /** Its rotated files that were last changed by then have been read, as copies of what it had before it was truncated. */
  readonly readThroughMs?: number | undefined;
}

/**
 * How far a file was read. A file is identified by device and inode, and by its first bytes: an inode is reused after its file is
 * deleted, and a truncated file may have grown past the old offset before the next check.
 */
export interface Position extends FileLocation {
  /** Everything before this offset is in the queue. */
  readonly offset: number;
  readonly head: Head;
}

/** The SHA-256 of the first bytes that were read. */
interface Head {
  readonly bytes: number;
  readonly sha256: string;
}

const headBytesMax = 1024;

const SavedPosition = v.object({
  path: v.string(),
  directory: v.optional(v.string()),
  foundMs: v.optional(v.number()),
  readThroughMs: v.optional(v.number()),
  offset: v.pipe(v.number(), v.integer(), v.minValue(0)),
  head: v.object({
    bytes: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(headBytesMax)),
    sha256: v.string(),
  }),
});

/** Returns the key of a file's checkpoint. */
export const fileKey = (stat: { dev: number; ino: number }): string => `${stat.dev}:${stat.ino}`;

/** Encodes a position as a checkpoint's value. */
export const savePosition = ({
  path,
  directory,
  foundMs,
  readThroughMs,
  offset,
  head,
}: Position): string => JSON.stringify({ path, directory, foundMs, readThroughMs, offset, head });

/** Decodes a checkpoint's value; null if it is malformed. */
export const parsePosition = (value: string): Position | null => {
  try {
    return v.parse(SavedPosition, JSON.parse(value));
  } catch {
    return null;
  }
};

/** Creates the position `offset` in an open file. Takes the head from `before` if it was complete. */
export const positionAt = async (
  file: FileHandle,
  { path, directory, foundMs, readThroughMs }: FileLocation,
  offset: number,
  before?: Position,
): Promise<Position> => {
  const isComplete = before !== undefined && before.head.bytes === headBytesMax;
  const head = isComplete ? before.head : await readHead(file, Math.min(offset, headBytesMax));
  return { path, directory, foundMs, readThroughMs, offset, head };
};

/** Creates the position `offset` in a file whose first bytes, at least up to the offset, are `chunk`. */
export const positionIn = (
  chunk: Uint8Array,
  { path, directory, foundMs, readThroughMs }: FileLocation,
  offset: number,
): Position => ({
  path,
  directory,
  foundMs,
  readThroughMs,
  offset,
  head: headOf(chunk.subarray(0, Math.min(offset, headBytesMax))),
});

/** Whether the file still starts with the bytes that were read from it. */
export const hasSameHead = async (file: FileHandle, { head }: Position): Promise<boolean> =>
  (await readHead(file, head.bytes)).sha256 === head.sha256;

/** Whether an open file continues what `position` read: it starts with the same bytes, and reaches as far. */
export const continues = async (
  { file, stat: { size } }: { file: FileHandle; stat: { size: number } },
  position: Position,
): Promise<boolean> =>
  position.head.bytes > 0 && size >= position.offset && (await hasSameHead(file, position));

/** Whether two files start with the same bytes, as far as both of them reach; false for an empty one. */
export const hasSameStart = async (one: FileHandle, other: FileHandle): Promise<boolean> => {
  const [a, b] = await Promise.all(
    [one, other].map((file) => readAt(file, 0, Buffer.allocUnsafe(headBytesMax))),
  );
  const bytes = Math.min(a?.length ?? 0, b?.length ?? 0);
  return bytes > 0 && a?.subarray(0, bytes).equals(b?.subarray(0, bytes) ?? a) === true;
};

/** Whether `content` starts with the bytes that were read at the start of the position's file. */
export const isHeadOf = (content: Uint8Array, { head }: Position): boolean =>
  headOf(content.subarray(0, head.bytes)).sha256 === head.sha256;

const readHead = async (file: FileHandle, bytes: number): Promise<Head> =>
  headOf(await readAt(file, 0, Buffer.allocUnsafe(bytes)));

const headOf = (head: Uint8Array): Head => ({
  bytes: head.length,
  sha256: createHash("sha256").update(head).digest("hex"),
});
