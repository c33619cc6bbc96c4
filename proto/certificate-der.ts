/**
 * Certificates (RFC 5280) and requests (PKCS#10, RFC 2986) on the hot paths of core: each enrollment, each ingest connection, each
 * management request whose certificate is not cached, each certificate that core issues. Reading takes 7 to 12 µs of CPU, by
 * `@peculiar/x509` 210 to 360 µs; a P-256 verification takes 60 µs. `certificate-der.test.ts` compares this file with x509 on random and
 * tampered input. The decision is docs/decisions/certificates.md.
 *
 * Strict DER (X.690): definite minimal lengths, single-byte tags, nothing after the last element. Anything else throws `DerError`.
 * Never recurses, so nesting costs nothing.
 */

/** The bytes are not DER, or not the expected structure. The message never quotes them. */
export class DerError extends Error {
  override readonly name = "DerError";
}

/** Tags as they appear in the first byte of an element. */
export const tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
  /** `[2] IMPLICIT` of a string: the DNS name among GeneralNames. */
  dnsName: 0x82,
  /** `[6] IMPLICIT` of a string: the URI among GeneralNames. */
  uri: 0x86,
  /** `[0]`, constructed: a certificate's version, a request's attributes. */
  context0: 0xa0,
  /** `[3]`, constructed: a certificate's extensions. */
  context3: 0xa3,
} as const;

/** One element. `raw` is tag, length and value; both arrays are views of the bytes that were read. */
interface DerElement {
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
    for (let index = 0; index < octets; index++)
      length = length * 256 + (bytes[valueStart + index] ?? 0);
    if (length < 0x80 || length < 256 ** (octets - 1)) throw new DerError("length is not minimal");
    valueStart += octets;
  }
  const end = valueStart + length;
  if (end > bytes.length) throw new DerError("truncated");
  return { tag: first, raw: bytes.subarray(start, end), value: bytes.subarray(valueStart, end) };
};

/** Returns the elements that `bytes` consist of, in order. */
export const readElements = (bytes: Uint8Array): DerElement[] => {
  const elements: DerElement[] = [];
  for (let offset = 0; offset < bytes.length; ) {
    const element = elementAt(bytes, offset);
    elements.push(element);
    offset += element.raw.length;
  }
  return elements;
};

/** Returns the value of the one element that `bytes` are, which must have the tag `expected`. */
export const readValue = (bytes: Uint8Array, expected: number): Uint8Array => {
  const element = elementAt(bytes, 0);
  if (element.raw.length !== bytes.length) throw new DerError("bytes after the end");
  if (element.tag !== expected) throw new DerError("unexpected tag");
  return element.value;
};

/** The elements of a constructed value whose structure is known, taken one after the other. */
export class DerFields {
  readonly #elements: DerElement[];
  #next = 0;

  constructor(value: Uint8Array) {
    this.#elements = readElements(value);
  }

  /** Returns the next element, which must have one of these tags. */
  take(...expected: readonly number[]): DerElement {
    const element = this.takeIf(...expected);
    if (element === undefined) throw new DerError("missing or unexpected element");
    return element;
  }

  /** Returns the next element if it has one of these tags. */
  takeIf(...expected: readonly number[]): DerElement | undefined {
    const element = this.#elements[this.#next];
    if (element === undefined || !expected.includes(element.tag)) return undefined;
    this.#next += 1;
    return element;
  }

  /** Throws if an element is left. */
  end(): void {
    if (this.#next !== this.#elements.length) throw new DerError("unexpected element");
  }
}

/** Returns the hex of an object identifier's value, whose arcs must be minimal. */
export const readOid = ({ value }: DerElement): string => {
  let atStart = true;
  for (const byte of value) {
    if (atStart && byte === 0x80) throw new DerError("object identifier is not minimal");
    atStart = byte < 0x80;
  }
  if (value.length === 0 || !atStart) throw new DerError("not an object identifier");
  return value.toHex();
};

/** Returns the big-endian magnitude of an INTEGER that is not negative, without leading zeros (zero is one zero byte). */
export const readUnsigned = ({ value }: DerElement): Uint8Array => {
  const [first, second] = value;
  if (first === undefined || first > 0x7f) throw new DerError("not an unsigned integer");
  if (first !== 0 || second === undefined) return value;
  if (second < 0x80) throw new DerError("integer is not minimal");
  return value.subarray(1);
};

/** Returns the octets of a BIT STRING without unused bits, as keys and signatures are. */
export const readBitOctets = ({ value }: DerElement): Uint8Array => {
  if (value[0] !== 0) throw new DerError("not a bit string of whole octets");
  return value.subarray(1);
};

/** Reads UTCTime or GeneralizedTime in the only form of RFC 5280 (4.1.2.5): to the second, in UTC. Milliseconds since the epoch. */
const readTime = (element: DerElement) => {
  const text = String.fromCharCode(...element.value.subarray(0, 16));
  const digits = element.tag === tag.generalizedTime ? 14 : 12;
  if (text.length !== digits + 1 || !/^\d+Z$/.test(text)) throw new DerError("not a time");
  const year = digits === 14 ? text.slice(0, 4) : `${text < "50" ? 20 : 19}${text.slice(0, 2)}`;
  const [month, day, hour, minute, second] = text.slice(digits - 10, digits).match(/../g) ?? [];
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const ms = Date.parse(iso);
  if (Number.isNaN(ms) || new Date(ms).toISOString() !== iso) throw new DerError("not a time");
  return ms;
};

/** One extension; `value` is the DER inside the OCTET STRING. */
interface CertificateExtension {
  readonly critical: boolean;
  readonly value: Uint8Array;
}

/** Extensions by the hex of their object identifier. */
export type Extensions = ReadonlyMap<string, CertificateExtension>;

/** Object identifiers (2.5.29.x) of the extensions that core understands in a client certificate. */
export const extensionOid = {
  subjectKeyIdentifier: "551d0e",
  keyUsage: "551d0f",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
  certificatePolicies: "551d20",
  authorityKeyIdentifier: "551d23",
  extendedKeyUsage: "551d25",
} as const;

/** Reads the elements of an `Extensions` sequence; throws `DerError` on a malformed or repeated one. */
export const readExtensions = (sequence: Uint8Array): Extensions => {
  const extensions = new Map<string, CertificateExtension>();
  for (const element of readElements(sequence)) {
    if (element.tag !== tag.sequence) throw new DerError("not an extension");
    const fields = new DerFields(element.value);
    const oid = readOid(fields.take(tag.oid));
    const critical = fields.takeIf(tag.boolean);
    const { value } = fields.take(tag.octetString);
    fields.end();
    if (critical !== undefined && !/^(00|ff)$/.test(critical.value.toHex()))
      throw new DerError("not a boolean");
    if (extensions.has(oid)) throw new DerError("repeated extension");
    extensions.set(oid, { critical: critical?.value[0] === 0xff, value });
  }
  return extensions;
};

/** The parts of a certificate, as views of its DER. Times are milliseconds since the epoch. */
export interface CertificateParts {
  readonly der: Uint8Array;
  readonly tbs: Uint8Array;
  /** Lowercase hex of the magnitude, without leading zero bytes. */
  readonly serialNumber: string;
  readonly issuer: Uint8Array;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly subject: Uint8Array;
  readonly spki: Uint8Array;
  readonly extensions: Extensions;
  /** The outer AlgorithmIdentifier, equal byte for byte to the inner one. */
  readonly signatureAlgorithm: Uint8Array;
  readonly signature: Uint8Array;
}

/** Reads a certificate; throws `DerError` unless `der` is exactly one of version 3, without repeated extensions. */
export const readCertificate = (der: Uint8Array): CertificateParts => {
  const { signed, signatureAlgorithm, signature } = readSigned(der);
  const fields = new DerFields(signed.value);
  if (fields.take(tag.context0).value.toHex() !== "020102")
    throw new DerError("not a version 3 certificate");
  const serialNumber = readUnsigned(fields.take(tag.integer)).toHex();
  if (fields.take(tag.sequence).raw.toHex() !== signatureAlgorithm.toHex())
    throw new DerError("two signature algorithms");
  const issuer = fields.take(tag.sequence).raw;
  const validity = new DerFields(fields.take(tag.sequence).value);
  const notBefore = readTime(validity.take(tag.utcTime, tag.generalizedTime));
  const notAfter = readTime(validity.take(tag.utcTime, tag.generalizedTime));
  validity.end();
  const subject = fields.take(tag.sequence).raw;
  const spki = fields.take(tag.sequence).raw;
  fields.takeIf(0x81); // issuerUniqueID
  fields.takeIf(0x82); // subjectUniqueID
  const wrapped = fields.takeIf(tag.context3);
  fields.end();
  const extensions =
    wrapped === undefined ? new Map() : readExtensions(readValue(wrapped.value, tag.sequence));
  return {
    der,
    tbs: signed.raw,
    serialNumber,
    issuer,
    notBefore,
    notAfter,
    subject,
    spki,
    extensions,
    signatureAlgorithm,
    signature,
  };
};

/** Takes a signed structure apart, as certificates and requests have it: what is signed, the algorithm, the signature. */
export const readSigned = (der: Uint8Array) => {
  const fields = new DerFields(readValue(der, tag.sequence));
  const signed = fields.take(tag.sequence);
  const signatureAlgorithm = fields.take(tag.sequence).raw;
  const signature = readBitOctets(fields.take(tag.bitString));
  fields.end();
  return { signed, signatureAlgorithm, signature };
};

/** Encodes one element of `elementTag` around `parts`. */
export const writeDer = (elementTag: number, ...parts: Uint8Array[]): Uint8Array<ArrayBuffer> => {
  let length = 0;
  for (const part of parts) length += part.length;
  const header = [elementTag];
  if (length < 0x80) header.push(length);
  else if (length < 0x100) header.push(0x81, length);
  else if (length < 0x1_0000) header.push(0x82, length >> 8, length & 0xff);
  else throw new RangeError("the element is too long");
  const bytes = new Uint8Array(header.length + length);
  bytes.set(header);
  let offset = header.length;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
};

/** Encodes an INTEGER from a big-endian magnitude, which may be padded. */
export const writeUnsigned = (magnitude: Uint8Array): Uint8Array<ArrayBuffer> => {
  const start = magnitude.findIndex((byte) => byte !== 0);
  const digits = start < 0 ? Uint8Array.of(0) : magnitude.subarray(start);
  return writeDer(tag.integer, new Uint8Array((digits[0] ?? 0) > 0x7f ? 1 : 0), digits);
};

/** Encodes UTCTime through 2049 and GeneralizedTime from 2050 (RFC 5280, 4.1.2.5); drops fractions of a second. */
export const writeTime = (ms: number): Uint8Array<ArrayBuffer> => {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  const short = ms < Date.UTC(2050, 0);
  return writeDer(
    short ? tag.utcTime : tag.generalizedTime,
    new TextEncoder().encode(short ? text.slice(2) : text),
  );
};
