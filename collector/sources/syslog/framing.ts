import { isUtf8 } from "node:buffer";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import { wholeLength } from "../file/charset.ts";

/** The bytes of one message, or of a piece of it. */
export interface Frame {
  readonly bytes: Buffer;
  /** More of the message follows, or never came. */
  readonly isPartial: boolean;
  /** It continues the message of the frame before. */
  readonly isContinued: boolean;
}

/** A sender's frames cannot be read: where its next message begins is unknown. */
export class FramingError extends Error {
  override readonly name = "FramingError";
  readonly reason: SourceRefusal;

  constructor(reason: SourceRefusal, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Divides the bytes of one connection into messages. */
export interface Framing {
  /** Returns the messages that `chunk` completes. Throws `FramingError`. */
  push(chunk: Buffer): Frame[];
  /** The bytes of a message that is not complete. */
  heldBytes(): number;
  /** Returns them: the connection has ended. */
  rest(): Frame[];
}

const newline = 0x0a;
const carriageReturn = 0x0d;

/** The start of a message with its length before it, as far as it has come. */
const counted = /^[1-9]\d{0,19}(?:$| (?:$|<))/;
const countCharactersMax = 22;
const noBytes = Buffer.alloc(0);

/**
 * Creates the framing of a connection, which its first bytes decide (RFC 6587): each message has its length before it, or ends with a line
 * end or, as glibc writes to a stream socket, with NUL. A longer line than `bytesMax` becomes several frames; a longer length is an error,
 * and nothing is kept for it.
 */
export const createFraming = (bytesMax: number): Framing => {
  /** Twice as large as needed, so that a message in many small parts is copied a few times only. */
  let memory: Buffer = noBytes;
  let held: Buffer = noBytes;
  let isCounted: boolean | undefined;
  /** No end of the held line is before it. */
  let searched = 0;
  let isContinued = false;

  const add = (chunk: Buffer): Buffer => {
    const length = held.length + chunk.length;
    if (held.length === 0) return chunk;
    if (length > memory.length) {
      memory = Buffer.allocUnsafeSlow(2 * length);
      held.copy(memory);
    }
    chunk.copy(memory, held.length);
    return memory.subarray(0, length);
  };
  const keep = (bytes: Buffer, at: number) => {
    held = bytes.subarray(at);
    if (at === 0 && bytes.buffer === memory.buffer) return;
    memory = Buffer.allocUnsafeSlow(held.length);
    held.copy(memory);
    held = memory;
  };

  const countedFrame = (bytes: Buffer, at: number): { start: number; end: number } | undefined => {
    const head = bytes.toString("latin1", at, at + countCharactersMax);
    const [digits = ""] = /^(?:[1-9]\d*)?/.exec(head) ?? [];
    if (digits.length === head.length && digits.length < countCharactersMax) return undefined;
    if (digits === "" || head[digits.length] !== " ")
      throw new FramingError("malformed", "a message has no length before it");
    if (Number(digits) > bytesMax)
      throw new FramingError(
        "too_large",
        `a message is announced with more than ${bytesMax} bytes`,
      );
    const start = at + digits.length + 1;
    const end = start + Number(digits);
    return end > bytes.length ? undefined : { start, end };
  };

  const readCounted = (bytes: Buffer): Frame[] => {
    const frames: Frame[] = [];
    let at = 0;
    for (;;) {
      // Some senders end a counted message with a line end, too.
      while (isLineEnd(bytes[at])) at += 1;
      const frame = countedFrame(bytes, at);
      if (frame === undefined) break;
      frames.push(whole(bytes.subarray(frame.start, frame.end)));
      at = frame.end;
    }
    keep(bytes, at);
    return frames;
  };

  const readLines = (bytes: Buffer): Frame[] => {
    const frames: Frame[] = [];
    for (let nul = bytes.indexOf(0, searched); nul !== -1; nul = bytes.indexOf(0, nul))
      bytes[nul] = newline;
    let at = 0;
    for (;;) {
      const line = bytes.indexOf(newline, Math.max(at, searched));
      const found = line === -1 ? bytes.length : line;
      const isLong = found - at > bytesMax;
      if (found === bytes.length && !isLong) break;
      const end = isLong
        ? at + wholeLength({ isValid: isUtf8 }, bytes.subarray(at, at + bytesMax))
        : found;
      if (end > at) frames.push({ bytes: bytes.subarray(at, end), isPartial: isLong, isContinued });
      isContinued = isLong;
      at = isLong ? end : end + 1;
      searched = at;
    }
    keep(bytes, at);
    searched = held.length;
    return frames;
  };

  return {
    push: (chunk) => {
      const bytes = add(chunk);
      isCounted ??= detect(bytes);
      if (isCounted !== undefined) return isCounted ? readCounted(bytes) : readLines(bytes);
      keep(bytes, 0);
      return [];
    },
    heldBytes: () => held.length,
    rest: () => {
      const bytes = isCounted ? held.subarray(lengthBefore(held)) : held;
      held = noBytes;
      return bytes.length === 0 ? [] : [{ bytes, isPartial: true, isContinued }];
    },
  };
};

/** Returns how many bytes the length before a message takes, with its blank. */
const lengthBefore = (bytes: Buffer): number =>
  /^\d* ?/.exec(bytes.toString("latin1", 0, countCharactersMax))?.[0].length ?? 0;

/** Reports whether lengths stand before messages; undefined while that is open. */
const detect = (bytes: Buffer): boolean | undefined => {
  const head = bytes.toString("latin1", 0, countCharactersMax);
  if (!counted.test(head)) return false;
  return head.includes("<") ? true : undefined;
};

const isLineEnd = (byte: number | undefined) => byte === newline || byte === carriageReturn;

const whole = (bytes: Buffer): Frame => ({ bytes, isPartial: false, isContinued: false });
