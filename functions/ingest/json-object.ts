import { decodeText } from "./wire-reader.ts";

const quote = 0x22;
const backslash = 0x5c;
const utf8 = new TextEncoder();

/** Writes the text of a JSON object whose names and values are strings, given as UTF-8; its buffer is used again for the next. */
export class JsonObject {
  #bytes = new Uint8Array(1024);
  #at = 0;

  /** The text: `length` bytes of it. It lasts until the next object is begun. */
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

  /** Adds an entry; a name given again replaces the value that it had, as JSON's readers have it. */
  entry(source: Uint8Array, name: { start: number; end: number }, value: { start: number; end: number }): void {
    if (this.#at > 1) this.#byte(0x2c);
    this.#text(source, name.start, name.end);
    this.#byte(0x3a);
    this.#text(source, value.start, value.end);
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
