import { LRUCache } from "lru-cache";
import { DerError, readAll, readDer, readOid, tag } from "../../proto/der.ts";
import { type IdentityFault, identityOfExtensions } from "../../proto/identity.ts";
import { type CertificateParts, extensionOid, readCertificate } from "../../proto/x509.ts";
import { type Authority, hasIssued, isAuthority, keyUsage, keyUsageBits } from "./authority.ts";
import { type Cryptography, proofAlgorithm, readPublicKey, type SignatureAlgorithm } from "./cryptography.ts";

/** A client certificate that chains to the bundle and may identify a collector. Its dates are for `isWithinValidity`. */
export interface ClientCertificate {
  /** The single DNS or URI name, byte for byte. */
  readonly identity: string;
  /** SHA-256 of the DER, lowercase hex. */
  readonly fingerprintSha256: string;
  /** Lowercase hex without leading zero bytes. */
  readonly serialNumber: string;
  readonly spki: Uint8Array;
  /** The one algorithm of proofs by its key. */
  readonly proofAlgorithm: SignatureAlgorithm;
  /** Milliseconds since the epoch, as are the dates below. The later of its own and its issuer's. */
  readonly notBefore: number;
  /** The earlier of its own and its issuer's. */
  readonly notAfter: number;
}

/** Why a certificate identifies no collector. */
export type ClientCertificateFault =
  | "malformed"
  | "identity_invalid"
  | "key_not_allowed"
  /** CA true, no client-auth usage, key usage without digitalSignature, or a critical extension that is not understood. */
  | "usage_not_allowed"
  /** No authority of the bundle has signed it. */
  | "untrusted";

/** A certificate, or why it is refused; `identityFault` tells more about `identity_invalid`. */
export type ClientCertificateResult =
  | { readonly ok: true; readonly certificate: ClientCertificate }
  | { readonly ok: false; readonly fault: ClientCertificateFault; readonly identityFault?: IdentityFault };

/** Reads and verifies client certificates against one bundle. */
export interface ClientCertificateReader {
  read(der: Uint8Array): Promise<ClientCertificateResult>;
}

const clientAuth = "1.3.6.1.5.5.7.3.2";
const understood = new Set<string>(Object.values(extensionOid));

/**
 * A reader for one bundle; a bundle that changed gets a new reader. Every certificate of the bundle is an anchor: a client
 * certificate must be signed by one of them directly. Results are kept by fingerprint for the `entriesMax` certificates seen last;
 * only good ones, so that junk cannot push them out.
 */
export const createClientCertificateReader = (options: {
  authorities: readonly Authority[];
  cryptography: Cryptography;
  entriesMax?: number;
}): ClientCertificateReader => {
  const { authorities, cryptography, entriesMax = 20_000 } = options;
  const known = new LRUCache<string, ClientCertificateResult>({ max: entriesMax });
  return {
    async read(der) {
      const fingerprintSha256 = await cryptography.sha256Hex(der);
      const seen = known.get(fingerprintSha256);
      if (seen !== undefined) return seen;
      const result = await verifyClientCertificate(der, fingerprintSha256, authorities, cryptography);
      if (result.ok) known.set(fingerprintSha256, result);
      return result;
    },
  };
};

const verifyClientCertificate = async (
  der: Uint8Array,
  fingerprintSha256: string,
  authorities: readonly Authority[],
  cryptography: Cryptography,
): Promise<ClientCertificateResult> => {
  let parts: CertificateParts;
  try {
    parts = readCertificate(der);
    if (!isClientCertificate(parts)) return { ok: false, fault: "usage_not_allowed" };
  } catch (error) {
    if (error instanceof DerError) return { ok: false, fault: "malformed" };
    throw error;
  }
  const name = identityOfExtensions(parts.extensions);
  if (!name.ok) return { ok: false, fault: "identity_invalid", identityFault: name.reason };
  const key = readPublicKey(parts.spki);
  const algorithm = key && proofAlgorithm(key.algorithm);
  if (algorithm === undefined) return { ok: false, fault: "key_not_allowed" };
  for (const authority of authorities) {
    if (!(await hasIssued(authority, parts, cryptography))) continue;
    const certificate: ClientCertificate = {
      identity: name.identity,
      fingerprintSha256,
      serialNumber: parts.serialNumber,
      spki: parts.spki.slice(),
      proofAlgorithm: algorithm,
      notBefore: Math.max(parts.notBefore, authority.notBefore),
      notAfter: Math.min(parts.notAfter, authority.notAfter),
    };
    return { ok: true, certificate };
  }
  return { ok: false, fault: "untrusted" };
};

/**
 * Whether a certificate is fit for a collector: CA false, client-auth, digitalSignature where key usage is stated, and no critical
 * extension that is not understood. Throws `DerError` if one of these is malformed.
 */
export const isClientCertificate = ({ extensions }: CertificateParts): boolean => {
  for (const [oid, { critical }] of extensions) if (critical && !understood.has(oid)) return false;
  const usage = keyUsageBits(extensions);
  if (usage !== undefined && (usage & keyUsage.digitalSignature) === 0) return false;
  return !isAuthority(extensions) && extendedKeyUsages(extensions).includes(clientAuth);
};

/** Whether client authentication is all that a certificate is for. Throws `DerError` if the extension is malformed. */
export const isForClientsAlone = ({ extensions }: CertificateParts): boolean => {
  const usages = extendedKeyUsages(extensions);
  return usages.length > 0 && usages.every((usage) => usage === clientAuth);
};

/** Object identifiers in dotted form; none where the extension is missing. */
const extendedKeyUsages = (extensions: CertificateParts["extensions"]): string[] => {
  const extended = extensions.get(extensionOid.extendedKeyUsage);
  return extended === undefined ? [] : readAll(readDer(extended.value, tag.sequence).value).map(readOid);
};
