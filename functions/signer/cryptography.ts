import { DerError, DerFields, readBitOctets, readValue, tag } from "#proto/certificate-der.ts";

/** The public key algorithms that core supports. Clients have one of the first three; only certification authorities may have RSA. */
export type KeyAlgorithm = "ecdsa-p256" | "ecdsa-p384" | "ed25519" | "rsa";

/** The signature algorithms that core supports: ECDSA as DER `Ecdsa-Sig-Value`, RSA as PKCS#1 v1.5. */
export type SignatureAlgorithm =
  | "ecdsa-sha256"
  | "ecdsa-sha384"
  | "ecdsa-sha512"
  | "ed25519"
  | "rsa-sha256"
  | "rsa-sha384"
  | "rsa-sha512";

/** A signature to verify. `spki` is a SubjectPublicKeyInfo in DER. */
export interface SignatureCheck {
  readonly spki: Uint8Array;
  readonly algorithm: SignatureAlgorithm;
  readonly data: Uint8Array;
  readonly signature: Uint8Array;
}

/** Verifies signatures. */
export interface SignatureVerifier {
  /**
   * Reports whether the signature is valid. Returns false, and never throws, for everything else: bytes that are no key, an algorithm that does not
   * belong to the key, an ECDSA signature in another encoding (P1363, bytes after the end), an empty one.
   */
  verify(check: SignatureCheck): boolean | Promise<boolean>;
}

/** The primitives that Node (synchronous, fast) and WebCrypto (portable) both provide. */
export interface Cryptography extends SignatureVerifier {
  /** SHA-256 of bytes, or of text as UTF-8, in lowercase hex. */
  sha256Hex(data: Uint8Array | string): string | Promise<string>;
}

/** A private key that signs with one algorithm, and does not leave this object. */
export interface SigningKey {
  readonly algorithm: SignatureAlgorithm;
  /** The public half, SubjectPublicKeyInfo in DER. */
  readonly spki: Uint8Array;
  sign(data: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** The parts of a SubjectPublicKeyInfo; `bits` is the content of `subjectPublicKey`. */
export interface PublicKeyParts {
  readonly algorithm: KeyAlgorithm;
  readonly bits: Uint8Array;
}

/** AlgorithmIdentifiers of keys, as hex of their DER, which has only one form. A point is uncompressed: 0x04, x, y. */
const keyIdentifiers = new Map<string, { algorithm: KeyAlgorithm; bytes?: number; first?: number }>(
  [
    [
      "301306072a8648ce3d020106082a8648ce3d030107",
      { algorithm: "ecdsa-p256", bytes: 65, first: 0x04 },
    ],
    ["301006072a8648ce3d020106052b81040022", { algorithm: "ecdsa-p384", bytes: 97, first: 0x04 }],
    ["300506032b6570", { algorithm: "ed25519", bytes: 32 }],
    ["300d06092a864886f70d0101010500", { algorithm: "rsa" }],
  ],
);

/**
 * Reads a SubjectPublicKeyInfo: P-256 or P-384 as an uncompressed point of a named curve, Ed25519 without parameters, RSA. Undefined for
 * anything else. The first verification checks whether a point lies on its curve.
 */
export const readPublicKey = (spki: Uint8Array): PublicKeyParts | undefined => {
  try {
    const fields = new DerFields(readValue(spki, tag.sequence));
    const key = keyIdentifiers.get(fields.take(tag.sequence).raw.toHex());
    const bits = readBitOctets(fields.take(tag.bitString));
    fields.end();
    if (key === undefined) return undefined;
    const { algorithm, bytes = bits.length, first = bits[0] } = key;
    return bits.length === bytes && bits[0] === first ? { algorithm, bits } : undefined;
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

/** Returns the algorithm of proofs for a client key: P-256 with SHA-256, P-384 with SHA-384, Ed25519. Undefined for RSA. */
export const proofAlgorithm = (key: KeyAlgorithm): SignatureAlgorithm | undefined =>
  proofAlgorithms[key];

/** AlgorithmIdentifiers of signatures, as hex of their whole DER. Core writes the first one of an algorithm. */
const signatureIdentifiers: readonly (readonly [hex: string, algorithm: SignatureAlgorithm])[] = [
  ["300a06082a8648ce3d040302", "ecdsa-sha256"],
  ["300a06082a8648ce3d040303", "ecdsa-sha384"],
  ["300a06082a8648ce3d040304", "ecdsa-sha512"],
  ["300506032b6570", "ed25519"],
  ["300d06092a864886f70d01010b0500", "rsa-sha256"],
  ["300d06092a864886f70d01010c0500", "rsa-sha384"],
  ["300d06092a864886f70d01010d0500", "rsa-sha512"],
  // RFC 4055 requires NULL parameters; some authorities omit them.
  ["300b06092a864886f70d01010b", "rsa-sha256"],
  ["300b06092a864886f70d01010c", "rsa-sha384"],
  ["300b06092a864886f70d01010d", "rsa-sha512"],
];
const signatureAlgorithms = new Map(signatureIdentifiers);

/** Returns the signature algorithm of an AlgorithmIdentifier in DER; undefined for all others, including SHA-1 and MD5. */
export const readSignatureAlgorithm = (identifier: Uint8Array): SignatureAlgorithm | undefined =>
  signatureAlgorithms.get(identifier.toHex());

/** Returns the AlgorithmIdentifier of a signature algorithm, in DER. */
export const writeSignatureAlgorithm = (algorithm: SignatureAlgorithm): Uint8Array => {
  const [hex] = signatureIdentifiers.find(([, name]) => name === algorithm) ?? [];
  if (hex === undefined) throw new TypeError("unknown signature algorithm");
  return Uint8Array.fromHex(hex);
};

/** Reports whether a key of this kind can have made a signature of this kind. */
export const algorithmFits = (key: KeyAlgorithm, signature: SignatureAlgorithm): boolean =>
  key === "ed25519"
    ? signature === "ed25519"
    : signature.startsWith(key === "rsa" ? "rsa-" : "ecdsa-");
