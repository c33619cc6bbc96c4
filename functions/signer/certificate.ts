import { LRUCache } from "lru-cache";
import {
  type CertificateParts,
  DerError,
  type Extensions,
  extensionOid,
  readCertificate,
  readElements,
  readOid,
  readValue,
  tag,
} from "#proto/certificate-der.ts";
import { type IdentityFault, identityOfExtensions } from "#proto/identity.ts";
import { type Authority, findIssuer } from "./authority.ts";
import {
  type Cryptography,
  proofAlgorithm,
  readPublicKey,
  type SignatureAlgorithm,
} from "./cryptography.ts";

/** A client certificate that chains to the bundle and may identify a collector. `isWithinValidity` checks its dates. */
export interface ClientCertificate {
  /** The single DNS or URI name, byte for byte. */
  readonly identity: string;
  /** SHA-256 of the DER, lowercase hex. */
  readonly fingerprintSha256: string;
  /** Lowercase hex without leading zero bytes. */
  readonly serialNumber: string;
  readonly spki: Uint8Array;
  /** The algorithm of proofs by its key. */
  readonly proofAlgorithm: SignatureAlgorithm;
  /** In milliseconds since the epoch, like the date below. The later of its own and its issuer's. */
  readonly notBefore: number;
  /** The earlier of its own and its issuer's. */
  readonly notAfter: number;
}

/** Why a certificate identifies no collector. */
type ClientCertificateFault =
  | "malformed"
  | "identity_invalid"
  | "key_not_allowed"
  /** A CA, no client-auth usage, key usage without digitalSignature, or an unknown critical extension. */
  | "usage_not_allowed"
  /** No authority of the bundle has signed it. */
  | "untrusted";

/** A certificate, or why it is rejected; `identityFault` is the reason for `identity_invalid`. */
type ClientCertificateResult =
  | { readonly ok: true; readonly certificate: ClientCertificate }
  | {
      readonly ok: false;
      readonly fault: ClientCertificateFault;
      readonly identityFault?: IdentityFault;
    };

/** Reads and verifies client certificates against one bundle. */
export interface ClientCertificateReader {
  read(der: Uint8Array): Promise<ClientCertificateResult>;
}

/** 1.3.6.1.5.5.7.3.2, id-kp-clientAuth */
const clientAuth = "2b06010505070302";
const understood = new Set<string>(Object.values(extensionOid));

/**
 * Creates a reader for one bundle; a changed bundle needs a new reader. Every certificate of the bundle is an anchor: one of them must have
 * signed the client certificate directly. Caches the `entriesMax` last used certificates, by fingerprint: only accepted ones, so that junk
 * cannot displace them. The bytes of a certificate must not change.
 */
export const createClientCertificateReader = (options: {
  authorities: readonly Authority[];
  cryptography: Cryptography;
  entriesMax?: number;
}): ClientCertificateReader => {
  const { authorities, cryptography, entriesMax = 20_000 } = options;
  const known = new LRUCache<string, ClientCertificateResult>({ max: entriesMax });
  // A connection passes the same bytes with each of its requests: they need not be hashed again.
  const byBytes = new WeakMap<Uint8Array, ClientCertificateResult>();
  return {
    async read(der) {
      const read = byBytes.get(der);
      if (read !== undefined) return read;
      const fingerprintSha256 = await cryptography.sha256Hex(der);
      const seen = known.get(fingerprintSha256);
      if (seen !== undefined) {
        byBytes.set(der, seen);
        return seen;
      }
      const result = await verifyClientCertificate(
        der,
        fingerprintSha256,
        authorities,
        cryptography,
      );
      if (result.ok) {
        known.set(fingerprintSha256, result);
        byBytes.set(der, result);
      }
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
  const issuer = await findIssuer(parts, authorities, cryptography);
  if (issuer === undefined) return { ok: false, fault: "untrusted" };
  const certificate: ClientCertificate = {
    identity: name.identity,
    fingerprintSha256,
    serialNumber: parts.serialNumber,
    spki: parts.spki.slice(),
    proofAlgorithm: algorithm,
    notBefore: Math.max(parts.notBefore, issuer.notBefore),
    notAfter: Math.min(parts.notAfter, issuer.notAfter),
  };
  return { ok: true, certificate };
};

/**
 * Reports whether a certificate may identify a collector: not a CA, client-auth, digitalSignature if key usage is stated, and no critical extension
 * that core does not understand. Throws `DerError` if one of these is malformed.
 */
export const isClientCertificate = ({ extensions }: CertificateParts): boolean => {
  for (const [oid, { critical }] of extensions) if (critical && !understood.has(oid)) return false;
  const constraints = extensions.get(extensionOid.basicConstraints)?.value.toHex();
  if (constraints !== undefined && !notCa.has(constraints)) return false;
  return allowsSignatures(extensions) && extendedKeyUsages(extensions).includes(clientAuth);
};

/** basicConstraints that state CA false: by default, and explicitly, as some authorities do against DER's rule. */
const notCa = new Set(["3000", "3003010100"]);

/** Key usage (RFC 5280, 4.2.1.3): digitalSignature is the first bit. */
const allowsSignatures = (extensions: Extensions) => {
  const extension = extensions.get(extensionOid.keyUsage);
  if (extension === undefined) return true;
  const [unusedBits = 8, bits] = readValue(extension.value, tag.bitString);
  if (unusedBits > 7 || bits === undefined) throw new DerError("not key usage bits");
  return (bits & 0x80) !== 0;
};

/** Reports whether a certificate is for client authentication and for nothing else. Throws `DerError` if the extension is malformed. */
export const isForClientsAlone = ({ extensions }: CertificateParts): boolean => {
  const usages = extendedKeyUsages(extensions);
  return usages.length > 0 && usages.every((usage) => usage === clientAuth);
};

const extendedKeyUsages = (extensions: Extensions): string[] => {
  const extension = extensions.get(extensionOid.extendedKeyUsage);
  if (extension === undefined) return [];
  return readElements(readValue(extension.value, tag.sequence)).map((element) => {
    if (element.tag !== tag.oid) throw new DerError("not an extended key usage");
    return readOid(element);
  });
};
