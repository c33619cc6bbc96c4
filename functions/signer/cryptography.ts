import { DerError, DerSequence, readBitOctets, readDer, readOid, tag } from "../../proto/der.ts";

/** Public keys that are understood. Clients have one of the first three; only certification authorities may have RSA. */
export type KeyAlgorithm = "ecdsa-p256" | "ecdsa-p384" | "ed25519" | "rsa";

/** Signatures that are understood: ECDSA as DER `Ecdsa-Sig-Value`, RSA as PKCS#1 v1.5. */
export type SignatureAlgorithm =
  | "ecdsa-sha256"
  | "ecdsa-sha384"
  | "ecdsa-sha512"
  | "ed25519"
  | "rsa-sha256"
  | "rsa-sha384"
  | "rsa-sha512";

/** What is verified. `spki` is a SubjectPublicKeyInfo in DER. */
export interface SignatureCheck {
  readonly spki: Uint8Array;
  readonly algorithm: SignatureAlgorithm;
  readonly data: Uint8Array;
  readonly signature: Uint8Array;
}

/** Verifies signatures. */
export interface SignatureVerifier {
  /**
   * Whether the signature is good. Everything else is false and never throws: a key that is none, an algorithm that does not
   * belong to the key, an ECDSA signature in another encoding (P1363, bytes after the end), an empty one.
   */
  verify(check: SignatureCheck): boolean | Promise<boolean>;
}

/** The primitives that Node (synchronous, fast) and WebCrypto (portable) provide alike. */
export interface Cryptography extends SignatureVerifier {
  /** SHA-256 of bytes, or of text as UTF-8, in lowercase hex. */
  sha256Hex(data: Uint8Array | string): string | Promise<string>;
}

/** A private key that signs in one way. The key itself stays inside. */
export interface SigningKey {
  readonly algorithm: SignatureAlgorithm;
  /** The public half, SubjectPublicKeyInfo in DER. */
  readonly spki: Uint8Array;
  sign(data: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** A SubjectPublicKeyInfo taken apart; `bits` is the key without its wrapping. */
export interface PublicKeyParts {
  readonly algorithm: KeyAlgorithm;
  readonly bits: Uint8Array;
}

const ecPublicKey = "1.2.840.10045.2.1";
const curves = new Map<string, { algorithm: KeyAlgorithm; pointBytes: number }>([
  ["1.2.840.10045.3.1.7", { algorithm: "ecdsa-p256", pointBytes: 65 }],
  ["1.3.132.0.34", { algorithm: "ecdsa-p384", pointBytes: 97 }],
]);

/**
 * Reads a SubjectPublicKeyInfo: P-256 or P-384 as an uncompressed point of a named curve, Ed25519 without parameters, RSA.
 * Undefined for anything else. Whether a point lies on its curve shows when something is verified with it.
 */
export const readPublicKey = (spki: Uint8Array): PublicKeyParts | undefined => {
  try {
    const fields = new DerSequence(readDer(spki, tag.sequence).value);
    const identifier = new DerSequence(fields.take(tag.sequence).value);
    const bits = readBitOctets(fields.take(tag.bitString));
    fields.end();
    const oid = readOid(identifier.take(tag.oid));
    if (oid === ecPublicKey) {
      const curve = curves.get(readOid(identifier.take(tag.oid)));
      identifier.end();
      const uncompressed = curve !== undefined && bits.length === curve.pointBytes && bits[0] === 0x04;
      return uncompressed ? { algorithm: curve.algorithm, bits } : undefined;
    }
    if (oid === "1.3.101.112") {
      identifier.end();
      return bits.length === 32 ? { algorithm: "ed25519", bits } : undefined;
    }
    if (oid === "1.2.840.113549.1.1.1") {
      identifier.take(tag.null);
      identifier.end();
      return { algorithm: "rsa", bits };
    }
    return undefined;
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
};

const proofAlgorithms: Record<KeyAlgorithm, SignatureAlgorithm | undefined> = {
  "ecdsa-p256": "ecdsa-sha256",
  "ecdsa-p384": "ecdsa-sha384",
  ed25519: "ed25519",
  rsa: undefined,
};

/** The one algorithm of proofs for a client key: P-256 with SHA-256, P-384 with SHA-384, Ed25519. Undefined for RSA. */
export const proofAlgorithm = (key: KeyAlgorithm): SignatureAlgorithm | undefined => proofAlgorithms[key];

const signatureOids = new Map<string, SignatureAlgorithm>([
  ["1.2.840.10045.4.3.2", "ecdsa-sha256"],
  ["1.2.840.10045.4.3.3", "ecdsa-sha384"],
  ["1.2.840.10045.4.3.4", "ecdsa-sha512"],
  ["1.3.101.112", "ed25519"],
  ["1.2.840.113549.1.1.11", "rsa-sha256"],
  ["1.2.840.113549.1.1.12", "rsa-sha384"],
  ["1.2.840.113549.1.1.13", "rsa-sha512"],
]);

/** The signature algorithm of an AlgorithmIdentifier in DER; undefined if it is none of ours (SHA-1 and MD5 are not). */
export const readSignatureAlgorithm = (identifier: Uint8Array): SignatureAlgorithm | undefined => {
  try {
    const fields = new DerSequence(readDer(identifier, tag.sequence).value);
    const algorithm = signatureOids.get(readOid(fields.take(tag.oid)));
    if (algorithm?.startsWith("rsa-")) fields.takeIf(tag.null);
    fields.end();
    return algorithm;
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
};

/** The object identifier of a signature algorithm. */
export const signatureOid = (algorithm: SignatureAlgorithm): string => {
  for (const [oid, name] of signatureOids) if (name === algorithm) return oid;
  throw new TypeError("unknown signature algorithm");
};

/** Whether a key of this kind can have made a signature of this kind. */
export const algorithmFits = (key: KeyAlgorithm, signature: SignatureAlgorithm): boolean =>
  key === "ed25519" ? signature === "ed25519" : signature.startsWith(key === "rsa" ? "rsa-" : "ecdsa-");
