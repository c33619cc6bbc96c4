/**
 * Strict DER (ITU-T X.690): what identities, certificate requests and certificates are read with, so that one byte string has
 * exactly one reading. Definite minimal lengths only, single-byte tags, nothing after the last element; anything else throws
 * `DerError`. Reading is lazy and never recurses, so hostile nesting costs nothing.
 */

/** Not DER, or not the structure that was expected. Never quotes the bytes. */
export class DerError extends Error {
  override readonly name = "DerError";
}

/** Tags as they appear in the first byte of an element. */
export const tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** A context-specific constructed tag, `[number]` in ASN.1. */
export const contextConstructed = (number: number): number => 0xa0 | number;

/** A context-specific primitive tag, `[number] IMPLICIT` of a primitive type. */
export const contextPrimitive = (number: number): number => 0x80 | number;

/** One element. `raw` is tag, length and value; `value` is the value alone; both are views of the bytes that were read. */
export interface DerElement {
  readonly tag: number;
  readonly raw: Uint8Array;
  readonly value: Uint8Array;
}

const elementAt = (bytes: Uint8Array, start: number): DerElement => {
  const first = bytes[start];
  let length = bytes[start + 1];
  if (first === undefined || length === undefined) throw new DerError("truncated");
  if ((first & 0x1f) === 0x1f) throw new DerError("tag in the long form");
  let valueStart = start + 2;
  if (length > 0x7f) {
    const octets = length & 0x7f;
    if (octets === 0 || octets > 4) throw new DerError("indefinite or oversized length");
    length = 0;
    for (let index = 0; index < octets; index++) length = length * 256 + (bytes[valueStart + index] ?? 0);
    if (length < 0x80 || length < 256 ** (octets - 1)) throw new DerError("length is not minimal");
    valueStart += octets;
  }
  const end = valueStart + length;
  if (end > bytes.length) throw new DerError("truncated");
  return { tag: first, raw: bytes.subarray(start, end), value: bytes.subarray(valueStart, end) };
};

/** The one element that `bytes` holds, of tag `expected`; bytes after it are an error. */
export const readDer = (bytes: Uint8Array, expected: number): DerElement => {
  const element = elementAt(bytes, 0);
  if (element.raw.length !== bytes.length) throw new DerError("bytes after the end");
  if (element.tag !== expected) throw new DerError("unexpected tag");
  return element;
};

/** The elements of a constructed value, in order. */
export const readAll = (value: Uint8Array): DerElement[] => {
  const elements: DerElement[] = [];
  for (let offset = 0; offset < value.length; ) {
    const element = elementAt(value, offset);
    elements.push(element);
    offset += element.raw.length;
  }
  return elements;
};

/** Walks the elements of a constructed value whose shape is known. */
export class DerSequence {
  readonly #elements: DerElement[];
  #next = 0;

  constructor(value: Uint8Array) {
    this.#elements = readAll(value);
  }

  /** The next element, which must be there and have this tag. */
  take(expected: number): DerElement {
    const element = this.takeIf(expected);
    if (element === undefined) throw new DerError("missing or unexpected element");
    return element;
  }

  /** The next element if it has this tag. */
  takeIf(expected: number): DerElement | undefined {
    const element = this.#elements[this.#next];
    if (element?.tag !== expected) return undefined;
    this.#next += 1;
    return element;
  }

  /** The next element, which must be there, whatever its tag. */
  takeAny(): DerElement {
    const element = this.#elements[this.#next];
    if (element === undefined) throw new DerError("missing element");
    this.#next += 1;
    return element;
  }

  /** Throws if anything is left. */
  end(): void {
    if (this.#next !== this.#elements.length) throw new DerError("unexpected element");
  }
}

/** An object identifier in dotted form. Arcs above 2^53 are refused. */
export const readOid = (element: DerElement): string => {
  if (element.tag !== tag.oid || element.value.length === 0) throw new DerError("not an object identifier");
  const arcs: number[] = [];
  let arc = 0;
  let started = false;
  for (const byte of element.value) {
    if (!started && byte === 0x80) throw new DerError("object identifier is not minimal");
    arc = arc * 128 + (byte & 0x7f);
    if (arc > Number.MAX_SAFE_INTEGER) throw new DerError("object identifier is too long");
    started = (byte & 0x80) !== 0;
    if (started) continue;
    if (arcs.length === 0) {
      const root = Math.min(Math.floor(arc / 40), 2);
      arcs.push(root, arc - root * 40);
    } else arcs.push(arc);
    arc = 0;
  }
  if (started) throw new DerError("truncated object identifier");
  return arcs.join(".");
};

/** DER's BOOLEAN: 0x00 or 0xff, nothing else. */
export const readBoolean = (element: DerElement): boolean => {
  const [byte] = element.value;
  if (element.tag !== tag.boolean || element.value.length !== 1 || (byte !== 0 && byte !== 0xff)) {
    throw new DerError("not a boolean");
  }
  return byte === 0xff;
};

/** The magnitude of an INTEGER that is not negative, big-endian, without leading zeros (zero is one zero byte). */
export const readUnsigned = (element: DerElement): Uint8Array => {
  const { value } = element;
  const first = value[0];
  const second = value[1];
  if (element.tag !== tag.integer || first === undefined || first > 0x7f) throw new DerError("not an unsigned integer");
  if (first !== 0 || second === undefined) return value;
  if (second < 0x80) throw new DerError("integer is not minimal");
  return value.subarray(1);
};

/** A BIT STRING of whole octets, as keys and signatures are. */
export const readBitOctets = (element: DerElement): Uint8Array => {
  if (element.tag !== tag.bitString || element.value[0] !== 0) throw new DerError("not a bit string of whole octets");
  return element.value.subarray(1);
};

/** UTCTime or GeneralizedTime in the only form RFC 5280 (4.1.2.5) allows: to the second, in UTC. Milliseconds since the epoch. */
export const readTime = (element: DerElement): number => {
  const text = String.fromCharCode(...element.value.subarray(0, 16));
  const long = element.tag === tag.generalizedTime;
  if (!long && element.tag !== tag.utcTime) throw new DerError("not a time");
  const digits = long ? 14 : 12;
  if (text.length !== digits + 1 || !/^\d+Z$/.test(text)) throw new DerError("not a time");
  const year = long ? Number(text.slice(0, 4)) : Number(text.slice(0, 2)) + (text < "50" ? 2000 : 1900);
  const rest = text.slice(digits - 10, digits).match(/../g) ?? [];
  const iso = `${String(year).padStart(4, "0")}-${rest[0]}-${rest[1]}T${rest[2]}:${rest[3]}:${rest[4]}.000Z`;
  const ms = Date.parse(iso);
  if (Number.isNaN(ms) || new Date(ms).toISOString() !== iso) throw new DerError("not a time");
  return ms;
};

/** One element of `tag` around `parts`. */
export const writeDer = (elementTag: number, ...parts: Uint8Array[]): Uint8Array<ArrayBuffer> => {
  let length = 0;
  for (const part of parts) length += part.length;
  const header = [elementTag];
  if (length < 0x80) header.push(length);
  else {
    const octets = length < 0x100 ? 1 : length < 0x1_0000 ? 2 : length < 0x100_0000 ? 3 : 4;
    header.push(0x80 | octets);
    for (let shift = octets - 1; shift >= 0; shift--) header.push(Math.floor(length / 256 ** shift) & 0xff);
  }
  const bytes = new Uint8Array(header.length + length);
  bytes.set(header);
  let offset = header.length;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
};

/** An INTEGER from a big-endian magnitude of any padding. */
export const writeUnsigned = (magnitude: Uint8Array): Uint8Array<ArrayBuffer> => {
  let start = 0;
  while (start < magnitude.length - 1 && magnitude[start] === 0) start += 1;
  const digits = magnitude.subarray(start);
  const first = digits[0];
  if (first === undefined) return writeDer(tag.integer, new Uint8Array(1));
  return first > 0x7f ? writeDer(tag.integer, new Uint8Array(1), digits) : writeDer(tag.integer, digits);
};

/** UTCTime through 2049 and GeneralizedTime from 2050 (RFC 5280, 4.1.2.5); fractions of a second are cut. */
export const writeTime = (ms: number): Uint8Array<ArrayBuffer> => {
  const text = `${new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "")}`;
  const short = ms < Date.UTC(2050, 0);
  return writeDer(short ? tag.utcTime : tag.generalizedTime, new TextEncoder().encode(short ? text.slice(2) : text));
};
