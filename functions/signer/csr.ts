import {
  DerError,
  DerFields,
  type Extensions,
  readElements,
  readExtensions,
  readOid,
  readSigned,
  readValue,
  tag,
} from "#proto/certificate-der.ts";
import { type IdentityFault, identityOfExtensions } from "#proto/identity.ts";
import { decodePem } from "#proto/pem.ts";
import {
  algorithmFits,
  type KeyAlgorithm,
  readPublicKey,
  readSignatureAlgorithm,
  type SignatureVerifier,
} from "./cryptography.ts";

/** The only parts of an accepted request that go into a certificate. */
export interface CheckedCsr {
  /** The single requested URI, byte for byte. The enrollment decides whether the caller may have it. */
  readonly identity: string;
  /** The requested key, SubjectPublicKeyInfo in DER: P-256, P-384 or Ed25519. */
  readonly spki: Uint8Array;
  readonly keyAlgorithm: KeyAlgorithm;
}

/** Why a request is rejected. */
type CsrFault =
  | "too_large"
  | "not_pem"
  | "malformed"
  | "key_not_allowed"
  | "signature_invalid"
  | "name_not_uri"
  | Exclude<IdentityFault, "malformed">;

/** One sentence for each fault, for the caller. */
export const csrFaultDetail: Readonly<Record<CsrFault, string>> = {
  too_large: "The certificate request is larger than 16 KiB.",
  not_pem: "The certificate request must be one PEM block labelled CERTIFICATE REQUEST.",
  malformed: "The certificate request is not a PKCS#10 request in DER.",
  key_not_allowed:
    "The key of the certificate request must be ECDSA P-256, ECDSA P-384 or Ed25519.",
  signature_invalid: "The certificate request is not signed by its own key.",
  no_name: "The certificate request must ask for one URI as Subject Alternative Name.",
  several_names: "The certificate request asks for more than one Subject Alternative Name.",
  other_kind: "The Subject Alternative Name of the certificate request must be a URI.",
  name_not_uri: "The Subject Alternative Name of the certificate request must be a URI.",
  bad_characters:
    "The Subject Alternative Name of the certificate request must be printable ASCII.",
};

/** A request, or why it is rejected. */
type CsrResult =
  | { readonly ok: true; readonly csr: CheckedCsr }
  | { readonly ok: false; readonly fault: CsrFault };

const csrBytesMax = 16_384;

/** The parts of a request, as views of its DER. */
interface CsrParts {
  /** The signed part: the CertificationRequestInfo, in DER. */
  readonly info: Uint8Array;
  readonly spki: Uint8Array;
  /** The extensions of the one extensionRequest attribute. */
  readonly extensions: Extensions;
  readonly signatureAlgorithm: Uint8Array;
  readonly signature: Uint8Array;
}

/**
 * Checks a PKCS#10 request (RFC 2986) in PEM: one block of at most 16 KiB, an allowed key, its own signature, and exactly one name of any
 * type, which is a URI. Ignores other requested extensions. Never throws. Verifies the signature last, because it costs most.
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
  if (
    algorithm === undefined ||
    !algorithmFits(key.algorithm, algorithm) ||
    !(await verify({ ...check, algorithm }))
  ) {
    return { ok: false, fault: "signature_invalid" };
  }
  return {
    ok: true,
    csr: { identity: name.identity, spki: parts.spki, keyAlgorithm: key.algorithm },
  };
};

/** 1.2.840.113549.1.9.14 */
const extensionRequest = "2a864886f70d01090e";

/** Reads a request; throws `DerError` unless `der` is exactly one of version 1 with at most one extensionRequest. */
export const readCsr = (der: Uint8Array): CsrParts => {
  const { signed, signatureAlgorithm, signature } = readSigned(der);
  const fields = new DerFields(signed.value);
  if (fields.take(tag.integer).value.toHex() !== "00")
    throw new DerError("not a version 1 request");
  fields.take(tag.sequence);
  const spki = fields.take(tag.sequence).raw;
  const attributes = fields.takeIf(tag.context0);
  fields.end();
  const extensions = requestedExtensions(attributes?.value ?? new Uint8Array());
  return { info: signed.raw, spki, extensions, signatureAlgorithm, signature };
};

const requestedExtensions = (attributes: Uint8Array): Extensions => {
  let extensions: Extensions | undefined;
  for (const attribute of readElements(attributes)) {
    if (attribute.tag !== tag.sequence) throw new DerError("not an attribute");
    const fields = new DerFields(attribute.value);
    const oid = readOid(fields.take(tag.oid));
    const values = fields.take(tag.set);
    fields.end();
    if (oid !== extensionRequest) continue;
    // A second one would let two readers see two requests.
    if (extensions !== undefined) throw new DerError("repeated attribute");
    extensions = readExtensions(readValue(values.value, tag.sequence));
  }
  return extensions ?? new Map();
};
