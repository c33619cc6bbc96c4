import { isUtf8 } from "node:buffer";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import type { CodeUnit } from "./lines.ts";

/** The name of an encoding in a config. */
export type Encoding = Extract<SourceConfig, { type: "file" }>["encoding"];

/** The conversions of an encoding. */
interface Conversions {
  /** How many times as long a text may be as UTF-8. */
  readonly growth: number;
  /** Reports whether bytes are whole characters of the encoding. */
  isValid(bytes: Buffer): boolean;
  /** Returns a part as a string, with U+FFFD for invalid bytes. */
  text(bytes: Buffer, start: number, end: number): string;
  /** Returns a text as UTF-8, with U+FFFD for invalid bytes. */
  decode(bytes: Buffer): Buffer;
}

/** How the bytes of one file are read as text. */
export interface Charset extends Conversions {
  readonly unit: CodeUnit;
  /** The length of the byte order mark at the start of the file. */
  readonly markBytes: number;
}

const replacement = "\ufffd";
const oneByte: CodeUnit = { bytes: 1, asciiAt: 0 };

const marks: Readonly<Partial<Record<Encoding, Buffer>>> = {
  "utf-8": Buffer.from([0xef, 0xbb, 0xbf]),
  "utf-16le": Buffer.from([0xff, 0xfe]),
  "utf-16be": Buffer.from([0xfe, 0xff]),
};

const hasMark = (start: Buffer, encoding: Encoding): boolean => {
  const mark = marks[encoding];
  return mark !== undefined && start.subarray(0, mark.length).equals(mark);
};

const unitOf = (encoding: Encoding): CodeUnit => {
  if (encoding === "utf-16le") return { bytes: 2, asciiAt: 0 };
  return encoding === "utf-16be" ? { bytes: 2, asciiAt: 1 } : oneByte;
};

const isUtf16 = (encoding: Encoding): boolean => unitOf(encoding).bytes === 2;

/** The two byte orders of UTF-16. */
const utf16 = ["utf-16le", "utf-16be"] as const;

const utf8: Conversions = {
  growth: 1,
  isValid: isUtf8,
  text: (bytes, start, end) => bytes.toString("utf8", start, end),
  decode: (bytes) => (isUtf8(bytes) ? bytes : Buffer.from(bytes.toString())),
};

const createConversions = (encoding: Encoding): Conversions => {
  if (encoding === "utf-8") return utf8;
  const strict = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  const lenient = new TextDecoder(encoding, { ignoreBOM: true });
  const isValid = (bytes: Buffer): boolean => {
    try {
      strict.decode(bytes);
      return true;
    } catch {
      return false;
    }
  };
  return {
    growth: 3,
    isValid,
    text: (bytes, start, end) => lenient.decode(bytes.subarray(start, end)),
    decode: (bytes) => Buffer.from(lenient.decode(bytes)),
  };
};

/** Creates the charset of a file that begins with `start`. Its byte order mark decides between the two orders of UTF-16. */
export const createCharset = (configured: Encoding, start: Buffer): Charset => {
  const marked = utf16.find((order) => hasMark(start, order));
  const encoding = isUtf16(configured) ? (marked ?? configured) : configured;
  return {
    ...createConversions(encoding),
    unit: unitOf(encoding),
    markBytes: hasMark(start, encoding) ? (marks[encoding]?.length ?? 0) : 0,
  };
};

/** In UTF-16, at least one character in this many has a NUL byte: blanks and digits have one, whatever the script. */
const charactersOfNul = 10;

/**
 * Returns the order of UTF-16 in which a file seems to be written that begins with `start`, by its mark, or by NULs at every other place alone.
 * Undefined if it is read as that.
 */
export const suspectUtf16 = (configured: Encoding, start: Buffer): Encoding | undefined => {
  if (isUtf16(configured)) return undefined;
  const nuls = [0, 0];
  for (const [at, byte] of start.entries()) if (byte === 0) nuls[at % 2] = (nuls[at % 2] ?? 0) + 1;
  const isText = (order: Encoding): boolean => {
    const { asciiAt } = unitOf(order);
    return nuls[asciiAt] === 0 && (nuls[1 - asciiAt] ?? 0) * 2 * charactersOfNul >= start.length;
  };
  return utf16.find((order) => hasMark(start, order) || (start.length > 2 && isText(order)));
};

/** The most bytes of a character, less one. */
const restBytesMax = 3;

/** Returns how long the whole characters of a piece are, which ends anywhere; all of it if it is invalid elsewhere. */
export const wholeLength = ({ isValid }: Pick<Charset, "isValid">, piece: Buffer): number => {
  for (let length = piece.length; length >= Math.max(0, piece.length - restBytesMax); length--)
    if (isValid(piece.subarray(0, length))) return length;
  return piece.length;
};

/** Lines as UTF-8. */
export interface Decoded {
  readonly buffer: Buffer;
  readonly bounds: readonly number[];
  /** Where each line starts in what was read; absent if `buffer` is that. */
  readonly starts?: readonly number[];
  /** How many U+FFFD stand for invalid bytes. */
  readonly invalidCharacters: number;
}

const countReplacements = (text: Buffer): number => text.toString().split(replacement).length - 1;

/** Decodes the lines of a chunk; valid UTF-8 without a copy. */
export const decodeFileLines = (
  charset: Charset,
  chunk: Buffer,
  bounds: readonly number[],
): Decoded => {
  const isCopy = charset.growth > 1;
  if (!isCopy && charset.isValid(chunk.subarray(bounds[0], bounds.at(-1))))
    return { buffer: chunk, bounds, invalidCharacters: 0 };
  const starts = bounds.filter((_, index) => index % 2 === 0);
  const texts: Buffer[] = [];
  const textBounds: number[] = [];
  let invalidCharacters = 0;
  let end = 0;
  for (const [index, start] of starts.entries()) {
    const line = chunk.subarray(start, bounds[2 * index + 1]);
    const text = charset.decode(line);
    if (text.includes(replacement) && !charset.isValid(line))
      invalidCharacters += countReplacements(text);
    texts.push(text);
    textBounds.push(end, end + text.length);
    end += text.length;
  }
  return { buffer: Buffer.concat(texts), bounds: textBounds, starts, invalidCharacters };
};
