import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { equalBytes } from "#kit/bytes.ts";
import { type CertificateParts, readCertificate } from "#proto/certificate-der.ts";
import { decodePemBundle, encodePem } from "#proto/pem.ts";
import {
  algorithmFits,
  readPublicKey,
  readSignatureAlgorithm,
  type SignatureVerifier,
} from "./cryptography.ts";

/** A certificate that may sign certificates: CA true, keyCertSign if key usage is stated, a supported key. */
export interface Authority extends CertificateParts {
  /** Lowercase hex of its Subject Key Identifier, if it has one. */
  readonly subjectKeyId: string | undefined;
}

/** A fault of a CA file, described for an operator. */
export class AuthorityFault extends Error {
  override readonly name = "AuthorityFault";
}

/**
 * Returns the authorities of a CA file, in its order: PEM, text between blocks is ignored. Throws `AuthorityFault` if there is none,
 * or if one cannot be read or may not sign certificates.
 */
export const readAuthorities = (pem: string): readonly Authority[] => {
  const blocks = decodePemBundle(pem, "CERTIFICATE");
  if (blocks === undefined) throw new AuthorityFault("the CA file holds a malformed PEM block");
  if (blocks.length === 0) throw new AuthorityFault("the CA file holds no certificate");
  return blocks.map((der, index) => {
    const result = readAuthority(der);
    if (typeof result === "string")
      throw new AuthorityFault(`certificate ${index + 1} of the CA file ${result}`);
    return result;
  });
};

/** Returns an authority, or its fault. */
const readAuthority = (der: Uint8Array<ArrayBuffer>): Authority | string => {
  try {
    // x509 also reads laxly encoded DER; `readCertificate` has the bytes by which signatures and names are compared.
    const parts = readCertificate(der);
    const certificate = new x509.X509Certificate(der);
    const usage = certificate.getExtension(x509.KeyUsagesExtension)?.usages;
    if (certificate.getExtension(x509.BasicConstraintsExtension)?.ca !== true)
      return "is not a certification authority (basicConstraints CA)";
    if (usage !== undefined && (usage & x509.KeyUsageFlags.keyCertSign) === 0)
      return "lacks the key usage keyCertSign";
    if (readPublicKey(parts.spki) === undefined)
      return "has a key that is not P-256, P-384, Ed25519 or RSA";
    return {
      ...parts,
      subjectKeyId: certificate.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId,
    };
  } catch {
    return "cannot be read";
  }
};

/** Reports whether `issuer` has signed `certificate`: the names match byte for byte and the signature is good. Ignores dates. */
export const hasIssued = async (
  issuer: Authority,
  certificate: CertificateParts,
  { verify }: SignatureVerifier,
): Promise<boolean> => {
  if (!equalBytes(issuer.subject, certificate.issuer)) return false;
  const key = readPublicKey(issuer.spki);
  const algorithm = readSignatureAlgorithm(certificate.signatureAlgorithm);
  if (key === undefined || algorithm === undefined || !algorithmFits(key.algorithm, algorithm))
    return false;
  return verify({
    spki: issuer.spki,
    algorithm,
    data: certificate.tbs,
    signature: certificate.signature,
  });
};

/** Returns the first of `authorities` that has signed `certificate`. Ignores dates. */
export const findIssuer = async (
  certificate: CertificateParts,
  authorities: readonly Authority[],
  verifier: SignatureVerifier,
): Promise<Authority | undefined> => {
  for (const authority of authorities)
    if (await hasIssued(authority, certificate, verifier)) return authority;
  return undefined;
};

/** Returns the PEM of `from` and its issuers among `authorities`, in order, without a self-signed one above `from`, which peers have. */
export const chainPemOf = async (
  from: Authority,
  authorities: readonly Authority[],
  verifier: SignatureVerifier,
): Promise<string> => {
  const chain = [from];
  for (let last = from; !equalBytes(last.subject, last.issuer); ) {
    const candidates = authorities.filter((each) => !chain.includes(each));
    const issuer = await findIssuer(last, candidates, verifier);
    if (issuer === undefined || equalBytes(issuer.subject, issuer.issuer)) break;
    chain.push(issuer);
    last = issuer;
  }
  return chain.map(({ der }) => encodePem(der, "CERTIFICATE")).join("");
};
