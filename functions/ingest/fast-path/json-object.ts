import { decodeText } from "../../../proto/wire.ts";

const quote = 0x22;
const backslash = 0x5c;
const utf8 = new TextEncoder();

/** Writes a JSON object of string members, given as UTF-8, into a buffer that it reuses for the next object. */
export class JsonObject {
  #bytes = new Uint8Array(1024);
  #at = 0;

  /** Holds the text in its first `length` bytes, until the next `open`. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }
  get length(): number {
    return this.#at;
  }

  /** Begins an object. */
  open(): void {
    this.#at = 0;
    this.#bytes[this.#at++] = 0x7b;
  }

  /** Adds a member. Of two with the same name the last one counts, as for every reader of JSON. */
  entry(source: Uint8Array, nameStart: number, nameEnd: number, valueStart: number, valueEnd: number): void {
    if (this.#at > 1) this.#byte(0x2c);
    this.#text(source, nameStart, nameEnd);
    this.#byte(0x3a);
    this.#text(source, valueStart, valueEnd);
  }

  /** Ends the object. */
  close(): void {
    this.#byte(0x7d);
  }

  #text(source: Uint8Array, start: number, end: number): void {
    this.#reserve(end - start + 2);
    const before = this.#at;
    this.#bytes[this.#at++] = quote;
    for (let at = start; at < end; at++) {
      const byte = source[at] as number;
      if (byte < 0x20 || byte >= 0x7f || byte === quote || byte === backslash) {
        this.#at = before;
        this.#escaped(source.subarray(start, end));
        return;
      }
      this.#bytes[this.#at++] = byte;
    }
    this.#bytes[this.#at++] = quote;
  }

  #escaped(text: Uint8Array): void {
    const escaped = utf8.encode(JSON.stringify(decodeText(text)));
    this.#reserve(escaped.length);
    this.#bytes.set(escaped, this.#at);
    this.#at += escaped.length;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#at++] = value;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#at + bytes, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = grown;
  }
}
