import type { FileHandle } from "node:fs/promises";

/** The lines of one read. */
interface Lines {
  /** Where each line starts and ends in `chunk`, in turn, without its line end (`\n` or `\r\n`). */
  readonly bounds: readonly number[];
  /** Whether the only one is a piece of a line that is longer than `lineBytesMax`, of which more follows. */
  readonly partial: boolean;
  /** The offset after the last line, where the next read starts. */
  readonly next: number;
  /** All bytes that were read, from the offset on. */
  readonly chunk: Buffer;
}

/** The size of the read buffer: some thousand lines. */
export const chunkBytes = 256 * 1024;
const lineBytesMax = 1024 * 1024;
const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * Reads the complete lines of a file from `offset` on: those of one read into `buffer`, as far as `admits` returns true for their
 * lengths (the first one always). Leaves a line without its end for later, unless `final`. A line of more than 1 MiB is split, and each
 * piece returned alone.
 */
export const readLines = async (
  file: FileHandle,
  offset: number,
  options: { final: boolean; admits(length: number): boolean; buffer: Buffer },
): Promise<Lines> => {
  let chunk = await readAt(file, offset, options.buffer);
  if (chunk.length === options.buffer.length && !chunk.includes(newline))
    chunk = await readAt(file, offset, Buffer.allocUnsafe(lineBytesMax + 2));
  const bounds: number[] = [];
  let start = 0;
  while (start < chunk.length) {
    const found = chunk.indexOf(newline, start);
    const stop = found === -1 ? chunk.length : found;
    if (stop - start > lineBytesMax + 1) {
      if (bounds.length > 0) break;
      return {
        bounds: [start, start + lineBytesMax],
        partial: true,
        next: offset + start + lineBytesMax,
        chunk,
      };
    }
    if (found === -1 && !options.final) break;
    const end = chunk[stop - 1] === carriageReturn ? stop - 1 : stop;
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
