import type { FileHandle } from "node:fs/promises";

/** A line, or a piece of one that is longer than `lineBytesMax`. */
export interface Line {
  /** The offset of its first byte in the file. */
  readonly offset: number;
  /** Without its line end (`\n` or `\r\n`). */
  readonly bytes: Uint8Array;
  /** Whether more of the same line follows. */
  readonly partial: boolean;
}

/** The lines of one read. */
export interface Lines {
  readonly lines: readonly Line[];
  /** The offset after the last line, where the next read starts. */
  readonly next: number;
  /** All bytes that were read, from the offset on. */
  readonly chunk: Uint8Array;
}

/** The size of the read buffer: some thousand lines. */
export const chunkBytes = 256 * 1024;
const lineBytesMax = 1024 * 1024;
const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * Reads the complete lines of a file from `offset` on: those of one read into `buffer`, of which they are views, as far as `admits`
 * returns true (the first one always). Leaves a line without its end for later, unless `final`. Splits lines of more than 1 MiB.
 */
export const readLines = async (
  file: FileHandle,
  offset: number,
  options: { final: boolean; admits(line: Line): boolean; buffer: Buffer },
): Promise<Lines> => {
  let chunk = await readAt(file, offset, options.buffer);
  if (chunk.length === options.buffer.length && !chunk.includes(newline))
    chunk = await readAt(file, offset, Buffer.allocUnsafe(lineBytesMax + 2));
  const lines: Line[] = [];
  let start = 0;
  while (start < chunk.length) {
    const found = chunk.indexOf(newline, start);
    const end = found === -1 ? chunk.length : found;
    const tooLong = end - start > lineBytesMax + 1;
    if (found === -1 && !tooLong && !options.final) break;
    const line: Line = tooLong
      ? { offset: offset + start, bytes: chunk.subarray(start, start + lineBytesMax), partial: true }
      : { offset: offset + start, bytes: withoutCarriageReturn(chunk.subarray(start, end)), partial: false };
    if (lines.length > 0 && !options.admits(line)) break;
    if (lines.length === 0) options.admits(line);
    lines.push(line);
    start = tooLong ? start + lineBytesMax : found === -1 ? end : found + 1;
  }
  return { lines, next: offset + start, chunk };
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

const withoutCarriageReturn = (line: Uint8Array): Uint8Array =>
  line.at(-1) === carriageReturn ? line.subarray(0, -1) : line;
