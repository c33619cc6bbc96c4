import {
  contextConstructed,
  DerError,
  DerSequence,
  readAll,
  readBitOctets,
  readDer,
  readOid,
  tag,
} from "../../proto/der.ts";
import { type IdentityFault, identityOfExtensions } from "../../proto/identity.ts";
import { decodePem } from "../../proto/pem.ts";
import { type Extensions, readExtensions } from "../../proto/x509.ts";
import {
  algorithmFits,
  type KeyAlgorithm,
  readPublicKey,
  readSignatureAlgorithm,
  type SignatureVerifier,
} from "./cryptography.ts";

/** A request that may be signed: what of it goes into a certificate, and nothing else. */
export interface CheckedCsr {
  /** The single URI it asks for, byte for byte. Whether the caller may have it is not decided here. */
  readonly identity: string;
  /** The requested key, SubjectPublicKeyInfo in DER: P-256, P-384 or Ed25519. */
  readonly spki: Uint8Array;
  readonly keyAlgorithm: KeyAlgorithm;
}

/** Why a request is refused. */
export type CsrFault =
  | "too_large"
  | "not_pem"
  | "malformed"
  | "key_not_allowed"
  | "signature_invalid"
  | "name_not_uri"
  | Exclude<IdentityFault, "malformed">;

/** One sentence for each fault, fit to be shown to the caller. */
export const csrFaultDetail: Readonly<Record<CsrFault, string>> = {
  too_large: "The certificate request is larger than 16 KiB.",
  not_pem: "The certificate request must be one PEM block labelled CERTIFICATE REQUEST.",
  malformed: "The certificate request is not a PKCS#10 request in DER.",
  key_not_allowed: "The key of the certificate request must be ECDSA P-256, ECDSA P-384 or Ed25519.",
  signature_invalid: "The certificate request is not signed by its own key.",
  no_name: "The certificate request must ask for one URI as Subject Alternative Name.",
  several_names: "The certificate request asks for more than one Subject Alternative Name.",
  other_kind: "The Subject Alternative Name of the certificate request must be a URI.",
  name_not_uri: "The Subject Alternative Name of the certificate request must be a URI.",
  bad_characters: "The Subject Alternative Name of the certificate request must be printable ASCII.",
};

/** A request, or why it is refused. */
export type CsrResult =
  | { readonly ok: true; readonly csr: CheckedCsr }
  | { readonly ok: false; readonly fault: CsrFault };

const csrBytesMax = 16_384;
const extensionRequest = "1.2.840.113549.1.9.14";

/**
 * Checks a PKCS#10 request (RFC 2986) from its PEM: 16 KiB at most, one block, an allowed key, its self-signature, and exactly one
 * name of any type, which is a URI. Other requested extensions are ignored. Never throws, whatever `pem` holds; nothing is
 * computed with the key before everything else is right.
 */
export const checkCsr = async (pem: string, { verify }: SignatureVerifier): Promise<CsrResult> => {
  if (pem.length > csrBytesMax) return { ok: false, fault: "too_large" };
  const der = decodePem(pem, "CERTIFICATE REQUEST");
  if (der === undefined) return { ok: false, fault: "not_pem" };
  let parts: CsrParts;
  try {
    parts = readCsr(der);
  } catch (error) {
    if (error instanceof DerError) return { ok: false, fault: "malformed" };
    throw error;
  }
  const key = readPublicKey(parts.spki);
  if (key === undefined || key.algorithm === "rsa") return { ok: false, fault: "key_not_allowed" };
  const name = identityOfExtensions(parts.extensions);
  if (!name.ok) return { ok: false, fault: name.reason };
  if (name.kind !== "uri") return { ok: false, fault: "name_not_uri" };
  const algorithm = readSignatureAlgorithm(parts.signatureAlgorithm);
  const check = { spki: parts.spki, data: parts.info, signature: parts.signature };
  if (algorithm === undefined || !algorithmFits(key.algorithm, algorithm) || !(await verify({ ...check, algorithm }))) {
    return { ok: false, fault: "signature_invalid" };
  }
  return { ok: true, csr: { identity: name.identity, spki: parts.spki, keyAlgorithm: key.algorithm } };
};

interface CsrParts {
  readonly info: Uint8Array;
  readonly spki: Uint8Array;
  readonly extensions: Extensions;
  readonly signatureAlgorithm: Uint8Array;
  readonly signature: Uint8Array;
}

const readCsr = (der: Uint8Array): CsrParts => {
  const outer = new DerSequence(readDer(der, tag.sequence).value);
  const info = outer.take(tag.sequence);
  const signatureAlgorithm = outer.take(tag.sequence).raw;
  const signature = readBitOctets(outer.take(tag.bitString));
  outer.end();
  const fields = new DerSequence(info.value);
  const version = fields.take(tag.integer).value;
  if (version.length !== 1 || version[0] !== 0) throw new DerError("not a version 1 request");
  fields.take(tag.sequence);
  const spki = fields.take(tag.sequence).raw;
  const attributes = fields.takeIf(contextConstructed(0));
  fields.end();
  return {
    info: info.raw,
    spki,
    extensions: requestedExtensions(attributes?.value ?? new Uint8Array()),
    signatureAlgorithm,
    signature,
  };
};

/** The extensions of the one extensionRequest attribute; a second one would let two readers see two requests. */
const requestedExtensions = (attributes: Uint8Array): Extensions => {
  let extensions: Extensions | undefined;
  for (const attribute of readAll(attributes)) {
    if (attribute.tag !== tag.sequence) throw new DerError("not an attribute");
    const fields = new DerSequence(attribute.value);
    const oid = readOid(fields.take(tag.oid));
    const values = fields.take(tag.set);
    fields.end();
    if (oid !== extensionRequest) continue;
    if (extensions !== undefined) throw new DerError("repeated attribute");
    extensions = readExtensions(readDer(values.value, tag.sequence));
  }
  return extensions ?? new Map();
};
