import {
  contextConstructed,
  contextPrimitive,
  type DerElement,
  DerError,
  DerSequence,
  readAll,
  readBitOctets,
  readBoolean,
  readDer,
  readOid,
  readTime,
  readUnsigned,
  tag,
} from "./der.ts";

/** Object identifiers of the extensions that are read or written. */
export const extensionOid = {
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  certificatePolicies: "2.5.29.32",
  authorityKeyIdentifier: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
} as const;

/** One extension; `value` is the DER inside the OCTET STRING. */
export interface Extension {
  readonly critical: boolean;
  readonly value: Uint8Array;
}

/** Extensions by object identifier in dotted form. */
export type Extensions = ReadonlyMap<string, Extension>;

/** The parts of an X.509 certificate (RFC 5280, 4.1), as views of its DER. Times are milliseconds since the epoch. */
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

/** Reads `Extensions`; throws `DerError` on a malformed or repeated extension. */
export const readExtensions = (sequence: DerElement): Extensions => {
  const extensions = new Map<string, Extension>();
  for (const element of readAll(sequence.value)) {
    if (element.tag !== tag.sequence) throw new DerError("not an extension");
    const fields = new DerSequence(element.value);
    const oid = readOid(fields.take(tag.oid));
    const critical = fields.takeIf(tag.boolean);
    const { value } = fields.take(tag.octetString);
    fields.end();
    if (extensions.has(oid)) throw new DerError("repeated extension");
    extensions.set(oid, { critical: critical !== undefined && readBoolean(critical), value });
  }
  return extensions;
};

/** Reads a certificate; throws `DerError` unless `der` is one certificate, version 3, in DER. */
export const readCertificate = (der: Uint8Array): CertificateParts => {
  const outer = new DerSequence(readDer(der, tag.sequence).value);
  const tbs = outer.take(tag.sequence);
  const signatureAlgorithm = outer.take(tag.sequence).raw;
  const signature = readBitOctets(outer.take(tag.bitString));
  outer.end();
  const fields = new DerSequence(tbs.value);
  const version = readUnsigned(readDer(fields.take(contextConstructed(0)).value, tag.integer));
  if (version.length !== 1 || version[0] !== 2) throw new DerError("not a version 3 certificate");
  const serialNumber = readUnsigned(fields.take(tag.integer)).toHex();
  if (!equalBytes(fields.take(tag.sequence).raw, signatureAlgorithm)) throw new DerError("two signature algorithms");
  const issuer = fields.take(tag.sequence).raw;
  const validity = new DerSequence(fields.take(tag.sequence).value);
  const notBefore = readTime(validity.takeAny());
  const notAfter = readTime(validity.takeAny());
  validity.end();
  const subject = fields.take(tag.sequence).raw;
  const spki = fields.take(tag.sequence).raw;
  fields.takeIf(contextPrimitive(1));
  fields.takeIf(contextPrimitive(2));
  const wrapped = fields.takeIf(contextConstructed(3));
  fields.end();
  const extensions = wrapped === undefined ? new Map() : readExtensions(readDer(wrapped.value, tag.sequence));
  return {
    der,
    tbs: tbs.raw,
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

/** Whether two byte strings are the same. Not constant in time: for public values only. */
export const equalBytes = (a: Uint8Array, b: Uint8Array): boolean => {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
};
