import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import * as v from "valibot";
import { WholeNumber } from "#proto/values.ts";
import { readAt } from "./lines.ts";

const headBytesMax = 1024;

const Saved = v.object({
  path: v.string(),
  /** The file's own directory, in which it is renamed, if `path` leads there through a symbolic link. */
  directory: v.optional(v.string()),
  /** The file's modification time when it was found. */
  foundMs: v.optional(v.number()),
  /** Rotated copies last modified by then have been read: they have what the file had before it was truncated. */
  readThroughMs: v.optional(v.number()),
  /** Everything before this offset is in the queue. */
  offset: WholeNumber(),
  /** The SHA-256 of the first bytes that were read. */
  head: v.object({ bytes: v.pipe(WholeNumber(), v.maxValue(headBytesMax)), sha256: v.string() }),
});
const SavedPosition = v.fallback(v.nullable(v.pipe(v.string(), v.parseJson(), Saved)), null);

type Saved = v.InferOutput<typeof Saved>;

/**
 * How far a file was read. A file is identified by device and inode, and by its first bytes: an inode is reused after its file is
 * deleted, and a truncated file may have grown past the old offset before the next check.
 */
export type Position = { readonly [Name in keyof Saved]: Saved[Name] };

/** Where a file was found. It does not change when the file is renamed. */
type FileLocation = Omit<Position, "offset" | "head">;

/** Returns the key of a file's checkpoint. */
export const fileKey = (stat: { dev: number; ino: number }): string => `${stat.dev}:${stat.ino}`;

const locationOf = ({ path, directory, foundMs, readThroughMs }: FileLocation): FileLocation => ({
  path,
  directory,
  foundMs,
  readThroughMs,
});

/** Encodes a position as a checkpoint's value. */
export const savePosition = ({ offset, head, ...location }: Position): string =>
  JSON.stringify({ ...locationOf(location), offset, head });

/** Decodes a checkpoint's value; null if it is malformed. */
export const parsePosition = (value: string): Position | null => v.parse(SavedPosition, value);

/** Creates the position `offset` in an open file. Reuses the head of `before` if it is complete. */
export const positionAt = async (
  file: FileHandle,
  location: FileLocation,
  offset: number,
  before?: Position,
): Promise<Position> => {
  const isComplete = before !== undefined && before.head.bytes === headBytesMax;
  const head = isComplete ? before.head : await readHead(file, Math.min(offset, headBytesMax));
  return { ...locationOf(location), offset, head };
};

/** Creates the position `offset` in a file whose first bytes, at least up to the offset, are `chunk`. */
export const positionIn = (
  chunk: Uint8Array,
  location: FileLocation,
  offset: number,
): Position => ({
  ...locationOf(location),
  offset,
  head: headOf(chunk.subarray(0, Math.min(offset, headBytesMax))),
});

/** Reports whether the file still starts with the bytes that were read from it. */
export const hasSameHead = async (file: FileHandle, { head }: Position): Promise<boolean> =>
  (await readHead(file, head.bytes)).sha256 === head.sha256;

/** Reports whether an open file continues `position`: it starts with the same bytes, and is at least as long as the offset. */
export const continues = async (
  { file, stat: { size } }: { file: FileHandle; stat: { size: number } },
  position: Position,
): Promise<boolean> =>
  position.head.bytes > 0 && size >= position.offset && (await hasSameHead(file, position));

/** Reports whether two files start with the same bytes, up to the end of the shorter one; false if one is empty. */
export const hasSameStart = async (one: FileHandle, other: FileHandle): Promise<boolean> => {
  const readStart = (file: FileHandle) => readAt(file, 0, Buffer.allocUnsafe(headBytesMax));
  const [first, second] = await Promise.all([readStart(one), readStart(other)]);
  const bytes = Math.min(first.length, second.length);
  return bytes > 0 && first.subarray(0, bytes).equals(second.subarray(0, bytes));
};

/** Reports whether `content` starts with the head of a position. */
export const isHeadOf = (content: Uint8Array, { head }: Position): boolean =>
  headOf(content.subarray(0, head.bytes)).sha256 === head.sha256;

const readHead = async (file: FileHandle, bytes: number) =>
  headOf(await readAt(file, 0, Buffer.allocUnsafe(bytes)));

const headOf = (head: Uint8Array) => ({
  bytes: head.length,
  sha256: createHash("sha256").update(head).digest("hex"),
});
