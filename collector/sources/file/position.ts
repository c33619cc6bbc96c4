import { hash } from "node:crypto";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import type { Checkpoint } from "#collector/queue/record.ts";
import { WholeNumber } from "#proto/values.ts";

/** The source of the checkpoints of files. All `file` sources share it, so that a file that moves from one to another is not read twice. */
export const fileCheckpoints = "file";

/** The most bytes of a fingerprint. */
export const printBytesMax = 1024;

export const Print = v.object({
  bytes: v.pipe(WholeNumber(), v.maxValue(printBytesMax)),
  sha256: v.string(),
});

/** How far the streams of a container's log are stored that are ahead of its offset, or within a record. */
const StreamPositions = v.record(
  v.string(),
  v.object({ from: WholeNumber(), part: v.optional(WholeNumber()) }),
);
export type StreamPositions = Readonly<v.InferOutput<typeof StreamPositions>>;

const Saved = v.object({
  path: v.string(),
  /** The file's own directory, in which it is renamed, if `path` leads there through a symbolic link. */
  directory: v.optional(v.string()),
  /** Everything before this offset is in the queue. */
  offset: WholeNumber(),
  /** The file's first bytes, as far as they were seen. */
  head: Print,
  /** The bytes before `offset`; absent in positions of older collectors. */
  mark: v.optional(Print),
  /** The size that the file was last seen with. */
  size: v.optional(WholeNumber()),
  /** The number of the piece of a record that begins at `offset`; absent if a record begins there. */
  part: v.optional(WholeNumber()),
  streams: v.optional(StreamPositions),
});
const SavedPosition = v.fallback(v.nullable(v.pipe(v.string(), v.parseJson(), Saved)), null);

/**
 * How far a file was read. Device and inode are its key in the checkpoints, but do not identify it: an inode is reused after its file is
 * deleted, a device number changes with a mount, and a truncated file may have grown past the old offset. Its content does: its first bytes,
 * and those before the offset.
 */
export type Position = Readonly<v.InferOutput<typeof Saved>>;

/** The SHA-256 of some bytes of a file. */
export type Print = Readonly<v.InferOutput<typeof Print>>;

/** The print of no bytes. */
export const noPrint: Print = { bytes: 0, sha256: "" };

/** Returns the key of a file's checkpoint. */
export const fileKey = (stat: { dev: number; ino: number }): string => `${stat.dev}:${stat.ino}`;

/** Encodes a position as a checkpoint's value. */
export const savePosition = (position: Position): string => JSON.stringify(position);

/** Returns the checkpoint of a position. */
export const checkpointOf = (key: string, position: Position): Checkpoint => ({
  source: fileCheckpoints,
  key,
  value: savePosition(position),
});

/** Returns the directory in which rotation moves the file of a position. */
export const directoryOf = ({ path, directory = dirname(path) }: Position): string => directory;

/** Returns the key of a position whose file has another content now. */
export const cutKey = (key: string, { head, mark = head, offset }: Position): string =>
  `cut:${key}:${offset}:${mark.sha256.slice(0, 16)}`;

/** Decodes a checkpoint's value; null if it is malformed. */
export const parsePosition = (value: string): Position | null => v.parse(SavedPosition, value);

/** Returns the fingerprint of bytes. */
export const printOf = (content: Uint8Array): Print =>
  content.length === 0
    ? noPrint
    : {
        bytes: content.length,
        sha256: hash("sha256", content),
      };

/** Reports whether bytes have a fingerprint. */
export const hasPrint = (content: Uint8Array, print: Print): boolean =>
  content.length === print.bytes && printOf(content).sha256 === print.sha256;

/** A file of which ranges can be read. */
export interface ReadableFile {
  /** Fills `buffer` from `offset` on and returns the filled part, which is shorter only at the end of the file. */
  read(buffer: Buffer, offset: number): Promise<Buffer>;
}

/** Returns the fingerprint of a range. */
const printAt = async (file: ReadableFile, from: number, to: number): Promise<Print> =>
  printOf(await file.read(Buffer.allocUnsafe(to - from), from));

/** Returns the fingerprint of the first bytes of a file of this size. */
export const headOf = (file: ReadableFile, size: number): Promise<Print> =>
  printAt(file, 0, Math.min(size, printBytesMax));

/** Returns the fingerprint of the bytes before an offset. */
export const markAt = (file: ReadableFile, offset: number): Promise<Print> =>
  printAt(file, Math.max(0, offset - printBytesMax), offset);

/** Reports whether a file starts with the bytes of a head. */
export const startsWith = async (file: ReadableFile, head: Print): Promise<boolean> =>
  (await printAt(file, 0, head.bytes)).sha256 === head.sha256;

/** Reports whether a file has the content of `position` up to its offset: it is that file, or a copy of it. False if nothing was seen of it. */
export const continues = async (
  file: ReadableFile,
  size: number,
  { offset, head, mark = head }: Position,
): Promise<boolean> => {
  if (head.bytes === 0 || size < offset || !(await startsWith(file, head))) return false;
  return (
    offset <= mark.bytes ||
    mark === head ||
    (await printAt(file, offset - mark.bytes, offset)).sha256 === mark.sha256
  );
};

/** Reports whether all of `shorter` is the beginning of `longer`, by its first bytes and its last; false if it is empty. */
export const isBeginningOf = async (
  shorter: ReadableFile,
  size: number,
  longer: ReadableFile,
): Promise<boolean> => {
  if (size === 0 || !(await startsWith(longer, await headOf(shorter, size)))) return false;
  return isDeepStrictEqual(await markAt(longer, size), await markAt(shorter, size));
};

/**
 * Reports whether a file is a copy of a followed one, also one that is not complete. As long as the followed file has what was read of it, a
 * copy is its beginning; once it has been truncated unseen, the copy has what is gone.
 */
export const isCopyOf = async (
  copy: ReadableFile,
  size: number,
  {
    position,
    file,
    followedSize,
  }: { position: Position; file: ReadableFile; followedSize: number },
): Promise<boolean> => {
  if (await isBeginningOf(copy, size, file)) return true;
  const isIntact = await continues(file, followedSize, position);
  return !isIntact && (await continues(copy, size, position));
};
