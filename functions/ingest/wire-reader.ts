/** Thrown at a message that has to be read by the generated code. */
export class NotPlain extends Error {}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of valid UTF-8; throws `NotPlain`. */
export const decodeText = (bytes: Uint8Array): string => {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new NotPlain();
  }
};

/** Reads protobuf from `at` on. Everything throws `NotPlain` where a value does not end before `end`, the end of its message. */
export class WireReader {
  readonly bytes: Uint8Array;
  at = 0;
  /** The halves of the varint read last, each as an unsigned 32-bit number. */
  high = 0;
  low = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** A tag of one byte, as fields up to 15 have. */
  tag(end: number): number {
    if (this.at >= end) throw new NotPlain();
    return this.bytes[this.at++] as number;
  }

  /** Reads the length of a field and gives where it ends; `at` is then where it begins. */
  fieldEnd(end: number): number {
    let length = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.tag(end);
      length |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if (length > end - this.at) throw new NotPlain();
      return this.at + length;
    }
    throw new NotPlain();
  }

  /** Reads a varint of 64 bits into `high` and `low`. */
  varint(end: number): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.tag(end);
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte >= 0x80) continue;
      // Of the tenth byte only one bit fits.
      if (shift === 63 && byte > 1) break;
      this.low = low >>> 0;
      this.high = high >>> 0;
      return;
    }
    throw new NotPlain();
  }

  /** Checks that bytes are text that PostgreSQL stores: UTF-8 without NUL. */
  checkText(start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const byte = this.bytes[at] as number;
      if (byte === 0) throw new NotPlain();
      if (byte < 0x80) continue;
      decodeText(this.bytes.subarray(at, end));
      // Within UTF-8 a byte of 0 is the character NUL, and nothing else.
      if (this.bytes.subarray(at, end).includes(0)) throw new NotPlain();
      return;
    }
  }
}
