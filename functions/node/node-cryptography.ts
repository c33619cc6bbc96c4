import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import {
  algorithmFits,
  type Cryptography,
  type PublicKeyParts,
  readPublicKey,
  type SignatureAlgorithm,
  type SigningKey,
} from "../signer/cryptography.ts";

const digestOf = (algorithm: SignatureAlgorithm) => algorithm.split("-")[1] ?? null;

type Verified = [digest: string | null, data: Uint8Array, key: KeyObject, signature: Uint8Array];

/** The fraction of its time in which the event loop verifies while no thread is awake. */
const loopShare = 0.2;

/**
 * Creates cryptography by node:crypto. Under low load, verifications run on the event loop: waking a thread for one costs half as much again.
 * Above a fifth of its time, and while threads are awake, at most `pooledMax` at a time run in the thread pool, on all processors; further ones run
 * on the event loop, so that no queue grows. `loopAheadMs` is how far the event loop may exceed its share, because requests arrive together. Caches
 * parsed public keys by the identity of their byte array, while the caller keeps it; the bytes must not change.
 */
export const createNodeCryptography = ({
  pooledMax = 256,
  loopAheadMs = 25,
} = {}): Cryptography => {
  const keys = new WeakMap<Uint8Array, { parts: PublicKeyParts; key: KeyObject }>();
  let pooled = 0;
  /** When the event loop's verifications are within its share again. */
  let evenAt = 0;
  const keyOf = (spki: Uint8Array) => {
    const known = keys.get(spki);
    if (known !== undefined) return known;
    const parts = readPublicKey(spki);
    if (parts === undefined) return undefined;
    const key = createPublicKey({ key: Buffer.from(spki), format: "der", type: "spki" });
    keys.set(spki, { parts, key });
    return { parts, key };
  };
  const verifyInPool = (...given: Verified) =>
    new Promise<boolean>((resolve) => {
      pooled += 1;
      verify(...given, (error, isGood) => {
        pooled -= 1;
        resolve(error === null && isGood);
      });
    });
  const verifyOnLoop = (...given: Verified) => {
    const start = performance.now();
    const isGood = verify(...given);
    evenAt = Math.max(evenAt, start) + (performance.now() - start) / loopShare;
    return isGood;
  };
  return {
    sha256Hex: (data) => hash("sha256", data, "hex"),
    verify({ spki, algorithm, data, signature }) {
      try {
        const known = keyOf(spki);
        if (known === undefined || !algorithmFits(known.parts.algorithm, algorithm)) return false;
        const digest = digestOf(algorithm);
        const isFew = pooled === 0 && evenAt - performance.now() <= loopAheadMs;
        const run = isFew || pooled >= pooledMax ? verifyOnLoop : verifyInPool;
        return run(digest, data, known.key, signature);
      } catch {
        return false;
      }
    },
  };
};

const signingAlgorithms: Record<PublicKeyParts["algorithm"], SignatureAlgorithm> = {
  "ecdsa-p256": "ecdsa-sha256",
  "ecdsa-p384": "ecdsa-sha384",
  ed25519: "ed25519",
  rsa: "rsa-sha256",
};

/**
 * Creates a signing key from PEM (PKCS#8, SEC1 or PKCS#1): P-256, P-384, Ed25519, or RSA of at least 2048 bits. Throws `TypeError`
 * for anything else, with a message that quotes nothing.
 */
export const createNodeSigningKey = (pem: Uint8Array | string): SigningKey => {
  const key = parsePrivateKey(pem);
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const parts = readPublicKey(spki);
  if (parts === undefined)
    throw new TypeError("the key must be ECDSA P-256 or P-384, Ed25519, or RSA");
  if (parts.algorithm === "rsa" && (key.asymmetricKeyDetails?.modulusLength ?? 0) < 2048) {
    throw new TypeError("an RSA key must have at least 2048 bits");
  }
  const algorithm = signingAlgorithms[parts.algorithm];
  return { algorithm, spki, sign: (data) => sign(digestOf(algorithm), data, key) };
};

const parsePrivateKey = (pem: Uint8Array | string): KeyObject => {
  try {
    return createPrivateKey(typeof pem === "string" ? pem : Buffer.from(pem));
  } catch {
    throw new TypeError("not an unencrypted private key in PEM");
  }
};
