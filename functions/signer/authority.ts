import { DerError, DerSequence, readBitOctets, readBoolean, readDer, readUnsigned, tag } from "../../proto/der.ts";
import { decodePemBundle, encodePem } from "../../proto/pem.ts";
import { type CertificateParts, type Extensions, equalBytes, extensionOid, readCertificate } from "../../proto/x509.ts";
import { algorithmFits, readPublicKey, readSignatureAlgorithm, type SignatureVerifier } from "./cryptography.ts";

/** A certificate that may sign certificates: CA true, keyCertSign where key usage is stated, a key that is understood. */
export interface Authority extends CertificateParts {
  /** Value of its Subject Key Identifier, if it has one. */
  readonly subjectKeyIdentifier: Uint8Array | undefined;
}

/** What is wrong with a CA file, in words for an operator. */
export class AuthorityFault extends Error {
  override readonly name = "AuthorityFault";
}

/**
 * The authorities of a CA file, in its order: PEM, text between blocks is ignored. Throws `AuthorityFault` if there is none, or
 * if one cannot be read or may not sign certificates.
 */
export const readAuthorities = (pem: string): readonly Authority[] => {
  const blocks = decodePemBundle(pem, "CERTIFICATE");
  if (blocks === undefined) throw new AuthorityFault("the CA file holds a malformed PEM block");
  if (blocks.length === 0) throw new AuthorityFault("the CA file holds no certificate");
  return blocks.map((der, index) => readAuthority(der, index + 1));
};

const readAuthority = (der: Uint8Array, place: number): Authority => {
  const refuse = (what: string): never => {
    throw new AuthorityFault(`certificate ${place} of the CA file ${what}`);
  };
  try {
    const parts = readCertificate(der);
    if (!isAuthority(parts.extensions)) return refuse("is not a certification authority (basicConstraints CA)");
    const usage = keyUsageBits(parts.extensions);
    if (usage !== undefined && (usage & keyUsage.keyCertSign) === 0) return refuse("lacks the key usage keyCertSign");
    if (readPublicKey(parts.spki) === undefined) return refuse("has a key that is not P-256, P-384, Ed25519 or RSA");
    const identifier = parts.extensions.get(extensionOid.subjectKeyIdentifier);
    const subjectKeyIdentifier = identifier && readDer(identifier.value, tag.octetString).value;
    return { ...parts, subjectKeyIdentifier };
  } catch (error) {
    if (error instanceof DerError) return refuse("cannot be read");
    throw error;
  }
};

/** Key usage bits (RFC 5280, 4.2.1.3) in the first byte of the bit string. */
export const keyUsage = { digitalSignature: 0x80, keyCertSign: 0x04 } as const;

/** First byte of the key usage bits; undefined when key usage is not stated. Throws `DerError` if malformed. */
export const keyUsageBits = (extensions: Extensions): number | undefined => {
  const extension = extensions.get(extensionOid.keyUsage);
  if (extension === undefined) return undefined;
  const { value } = readDer(extension.value, tag.bitString);
  if (value.length < 2 || (value[0] ?? 8) > 7) throw new DerError("not key usage bits");
  return value[1] ?? 0;
};

/** Whether basicConstraints says CA. Throws `DerError` if malformed. */
export const isAuthority = (extensions: Extensions): boolean => {
  const extension = extensions.get(extensionOid.basicConstraints);
  if (extension === undefined) return false;
  const fields = new DerSequence(readDer(extension.value, tag.sequence).value);
  const ca = fields.takeIf(tag.boolean);
  const pathLength = fields.takeIf(tag.integer);
  fields.end();
  if (pathLength !== undefined) readUnsigned(pathLength);
  return ca !== undefined && readBoolean(ca);
};

/** Whether `issuer` has signed `certificate`: names match byte for byte and the signature is good. Dates are not looked at. */
export const hasIssued = async (
  issuer: Authority,
  certificate: CertificateParts,
  { verify }: SignatureVerifier,
): Promise<boolean> => {
  if (!equalBytes(issuer.subject, certificate.issuer)) return false;
  const key = readPublicKey(issuer.spki);
  const algorithm = readSignatureAlgorithm(certificate.signatureAlgorithm);
  if (key === undefined || algorithm === undefined || !algorithmFits(key.algorithm, algorithm)) return false;
  return verify({ spki: issuer.spki, algorithm, data: certificate.tbs, signature: certificate.signature });
};

/** The key bits of a SubjectPublicKeyInfo, over which key identifiers are computed. */
export const publicKeyBits = (spki: Uint8Array): Uint8Array => {
  const fields = new DerSequence(readDer(spki, tag.sequence).value);
  fields.take(tag.sequence);
  return readBitOctets(fields.take(tag.bitString));
};

/**
 * PEM of `from` and its issuers among `authorities`, in order; a self-signed one above `from` is left out, as peers hold it already.
 */
export const chainPemOf = async (
  from: Authority,
  authorities: readonly Authority[],
  verifier: SignatureVerifier,
): Promise<string> => {
  const chain = [from];
  for (let last = from; !equalBytes(last.subject, last.issuer); ) {
    let issuer: Authority | undefined;
    for (const candidate of authorities) {
      if (!chain.includes(candidate) && (await hasIssued(candidate, last, verifier))) issuer ??= candidate;
    }
    if (issuer === undefined || equalBytes(issuer.subject, issuer.issuer)) break;
    chain.push(issuer);
    last = issuer;
  }
  return chain.map(({ der }) => encodePem(der, "CERTIFICATE")).join("");
};
