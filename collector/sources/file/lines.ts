import type { FileHandle } from "node:fs/promises";

/** The lines of one read. */
interface Lines {
  /** Offsets in `chunk`, without line ends (`\n` or `\r\n`): start, end, start, end, … */
  readonly bounds: readonly number[];
  /** Whether there is one line, and it is a piece of a longer one that continues. */
  readonly partial: boolean;
  /** The offset after the last line, where the next read starts. */
  readonly next: number;
  /** All bytes that were read, from the offset on. */
  readonly chunk: Buffer;
}

/** The size of the read buffer: some thousand lines. */
export const chunkBytes = 256 * 1024;
/** The longest line that is stored whole. */
const lineBytesMax = 1024 * 1024;
const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * Reads the complete lines of a file from `offset` on, as many as one read into `buffer` has. Returns the first line, and further ones until
 * `admits` rejects a length. Returns an incomplete last line only if `final`. Splits a line of more than 1 MiB, and returns each piece alone.
 */
export const readLines = async (
  file: FileHandle,
  offset: number,
  options: { final: boolean; admits(length: number): boolean; buffer: Buffer },
): Promise<Lines> => {
  let chunk = await readAt(file, offset, options.buffer);
  const isLongLine = chunk.length === options.buffer.length && !chunk.includes(newline);
  // With room for a line end of two bytes, `\r\n`.
  if (isLongLine) chunk = await readAt(file, offset, Buffer.allocUnsafe(lineBytesMax + 2));
  const bounds: number[] = [];
  let start = 0;
  while (start < chunk.length) {
    const found = chunk.indexOf(newline, start);
    const stop = found === -1 ? chunk.length : found;
    const end = chunk[stop - 1] === carriageReturn ? stop - 1 : stop;
    if (end - start > lineBytesMax) {
      if (bounds.length > 0) break;
      const cut = start + lineBytesMax;
      return { bounds: [start, cut], partial: true, next: offset + cut, chunk };
    }
    if (found === -1 && !options.final) break;
    if (!options.admits(end - start) && bounds.length > 0) break;
    bounds.push(start, end);
    start = found === -1 ? stop : found + 1;
  }
  return { bounds, partial: false, next: offset + start, chunk };
};

/** Fills `buffer` from `offset` on and returns the filled part, which is shorter only at the end of the file. */
export const readAt = async (file: FileHandle, offset: number, buffer: Buffer): Promise<Buffer> => {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, offset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
};
