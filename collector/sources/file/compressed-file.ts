/* Compressed files, read as streams: neither memory nor disk holds their content. To read on costs what a stream costs; to go back begins anew. */
import { pipeline, Readable } from "node:stream";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { errorCode } from "#kit/describe-error.ts";
import { printBytesMax, type ReadableFile } from "./position.ts";
import type { LogFile } from "./source-files.ts";

/** The most bytes that are read of a content, as many as gzip states, and how many are measured at once. */
export const contentLimits = { bytesMax: 2 ** 32, measuredBytes: 64 * 1024 * 1024 };

const pieceBytes = 64 * 1024;

const nothing = Buffer.alloc(0);

/** The content of a compressed file. */
export type CompressedFile = ReturnType<typeof createCompressedFile>;

/** Returns the content of an open compressed file. */
export const createCompressedFile = (
  packed: LogFile,
  { bytesMax, measuredBytes } = contentLimits,
) => {
  let pieces: AsyncIterator<Buffer> | undefined;
  let start = nothing;
  let size = 0;

  const restart = () => {
    pieces = undefined;
    start = nothing;
    size = 0;
  };

  /** Measures on. Returns whether that is all. */
  const measure = async (): Promise<boolean> => {
    pieces ??= decompress(packed);
    for (const enough = size + measuredBytes; size < enough; ) {
      const { value, done } = await pieces.next();
      if (done) return true;
      if (start.length < printBytesMax)
        start = Buffer.concat([start, value.subarray(0, printBytesMax - start.length)]);
      size += value.length;
    }
    return size > bytesMax;
  };

  return {
    /** The size of the content, modulo 2^32, and its first bytes; undefined if it is not gzip, or has no complete beginning. */
    outline: async (): Promise<{ size: number; start: Buffer } | undefined> => {
      const first = await packed.read(Buffer.allocUnsafe(8192), 0);
      const last = await packed.read(Buffer.allocUnsafe(4), Math.max(0, packed.stat.size - 4));
      try {
        const content = gunzipSync(first, { finishFlush: constants.Z_SYNC_FLUSH });
        return { size: last.readUInt32LE(0), start: content.subarray(0, printBytesMax) };
      } catch {
        return undefined;
      }
    },
    /**
     * Measures the next bytes of the content, and returns it at the end; closing it closes the compressed file. `damaged`: it is not gzip, or
     * not complete.
     */
    content: async (): Promise<LogFile | "measuring" | "damaged"> => {
      try {
        if (!(await measure())) return "measuring";
        await pieces?.return?.();
        return contentOf(packed, Math.min(size, bytesMax), start, size > bytesMax);
      } catch (error) {
        restart();
        // Any other error is one of reading, which may pass.
        return errorCode(error)?.startsWith("Z_") ? "damaged" : "measuring";
      }
    },
  };
};

/** Returns the content of a compressed file as a file. */
const contentOf = (packed: LogFile, size: number, start: Buffer, isCut: boolean): LogFile => {
  const reader = createForwardReader(packed);
  const stat = { ...packed.stat, size };
  return {
    ...packed,
    stat,
    isCut,
    restat: async () => stat,
    read: async (buffer, offset) => {
      const wanted = buffer.subarray(0, Math.max(0, size - offset));
      if (offset + wanted.length <= start.length)
        return wanted.subarray(0, start.copy(wanted, 0, offset));
      if (buffer.length > printBytesMax) return await reader.read(wanted, offset);
      // A comparison, at any place: it does not disturb who reads on.
      const aside = createForwardReader(packed);
      return await aside.read(wanted, offset).finally(aside.close);
    },
    // The compressed file stays open as long as its content: otherwise a new file could get its inode, and be mistaken for it.
    close: async () => {
      await reader.close();
      await packed.close();
    },
  };
};

/** Reads the content of a file, of which it keeps what the last read returned. */
const createForwardReader = (packed: LogFile): ReadableFile & { close(): Promise<void> } => {
  let pieces: AsyncIterator<Buffer> | undefined;
  let kept = nothing;
  /** Where `kept` begins. */
  let from = 0;

  const close = async () => {
    const ended = pieces;
    pieces = undefined;
    kept = nothing;
    from = 0;
    await ended?.return?.();
  };

  const readUpTo = async (offset: number, end: number) => {
    pieces ??= decompress(packed);
    while (from + kept.length < end) {
      const { value, done } = await pieces.next();
      if (done) return;
      const passed = Math.min(Math.max(0, offset - from), kept.length);
      kept = Buffer.concat([kept.subarray(passed), value]);
      from += passed;
    }
  };

  return {
    close,
    read: async (buffer, offset) => {
      if (offset < from) await close();
      await readUpTo(offset, offset + buffer.length).catch(async (error: unknown) => {
        await close();
        throw error;
      });
      return buffer.subarray(0, kept.subarray(Math.max(0, offset - from)).copy(buffer));
    },
  };
};

const decompress = (packed: LogFile): AsyncIterator<Buffer> => {
  const gunzip = createGunzip();
  const pieces = Readable.from(piecesOf(packed), { highWaterMark: 1 });
  // The iterator throws its error.
  pipeline(pieces, gunzip, () => undefined);
  return gunzip[Symbol.asyncIterator]();
};

/** Yields a file in pieces. */
const piecesOf = async function* (file: LogFile): AsyncGenerator<Buffer> {
  for (let offset = 0; ; ) {
    const piece = await file.read(Buffer.allocUnsafe(pieceBytes), offset);
    if (piece.length === 0) return;
    offset += piece.length;
    yield piece;
  }
};
