import { LRUCache } from "lru-cache";
import {
  DerError,
  DerFields,
  readUnsigned,
  readValue,
  tag,
  writeDer,
  writeUnsigned,
} from "#proto/certificate-der.ts";
import { decodePem } from "#proto/pem.ts";
import {
  algorithmFits,
  type Cryptography,
  type KeyAlgorithm,
  readPublicKey,
  type SignatureAlgorithm,
  type SigningKey,
} from "./cryptography.ts";

const coordinateBytes: Partial<Record<KeyAlgorithm, number>> = {
  "ecdsa-p256": 32,
  "ecdsa-p384": 48,
};
const hashes = { sha256: "SHA-256", sha384: "SHA-384", sha512: "SHA-512" } as const;
const hashOf = (algorithm: SignatureAlgorithm) =>
  hashes[algorithm.split("-")[1] as keyof typeof hashes];

/** Returns `bytes` over an ArrayBuffer, which WebCrypto's types require; copies only shared memory. */
const owned = (bytes: Uint8Array): Uint8Array<ArrayBuffer> =>
  bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);

const importParameters = (key: KeyAlgorithm, signature: SignatureAlgorithm) => {
  if (key === "ed25519") return { name: "Ed25519" };
  if (key === "rsa") return { name: "RSASSA-PKCS1-v1_5", hash: hashOf(signature) };
  return { name: "ECDSA", namedCurve: key === "ecdsa-p256" ? "P-256" : "P-384" };
};

const operationParameters = (signature: SignatureAlgorithm) => {
  if (signature === "ed25519") return { name: "Ed25519" };
  if (signature.startsWith("rsa-")) return { name: "RSASSA-PKCS1-v1_5" };
  return { name: "ECDSA", hash: hashOf(signature) };
};

/** Imported public keys to keep, the last used ones. */
const keysMax = 1_000;

/** Creates cryptography with WebCrypto, for every runtime that has it. */
export const createWebCryptography = (): Cryptography => {
  const keys = new LRUCache<string, CryptoKey>({ max: keysMax });
  const verify: Cryptography["verify"] = async ({ spki, algorithm, data, signature }) => {
    const publicKey = readPublicKey(spki);
    if (publicKey === undefined || !algorithmFits(publicKey.algorithm, algorithm)) return false;
    const size = coordinateBytes[publicKey.algorithm];
    const raw = size === undefined ? signature : p1363OfDer(signature, size);
    if (raw === undefined) return false;
    const name = `${algorithm} ${spki.toHex()}`;
    try {
      let key = keys.get(name);
      if (key === undefined) {
        const parameters = importParameters(publicKey.algorithm, algorithm);
        key = await crypto.subtle.importKey("spki", owned(spki), parameters, false, ["verify"]);
        keys.set(name, key);
      }
      return await crypto.subtle.verify(
        operationParameters(algorithm),
        key,
        owned(raw),
        owned(data),
      );
    } catch {
      return false;
    }
  };
  return {
    verify,
    sha256Hex: async (data) => {
      const bytes = typeof data === "string" ? new TextEncoder().encode(data) : owned(data);
      return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
    },
  };
};

/** Converts DER `Ecdsa-Sig-Value` to WebCrypto's fixed width; undefined unless it is strict DER of numbers that fit. */
const p1363OfDer = (signature: Uint8Array, size: number): Uint8Array<ArrayBuffer> | undefined => {
  try {
    const fields = new DerFields(readValue(signature, tag.sequence));
    const r = readUnsigned(fields.take(tag.integer));
    const s = readUnsigned(fields.take(tag.integer));
    fields.end();
    if (r.length > size || s.length > size) return undefined;
    const raw = new Uint8Array(size * 2);
    raw.set(r, size - r.length);
    raw.set(s, size * 2 - s.length);
    return raw;
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
};

const candidates: readonly { key: KeyAlgorithm; signature: SignatureAlgorithm }[] = [
  { key: "ecdsa-p256", signature: "ecdsa-sha256" },
  { key: "ecdsa-p384", signature: "ecdsa-sha384" },
  { key: "ed25519", signature: "ed25519" },
  { key: "rsa", signature: "rsa-sha256" },
];

/** Imports a signing key from a PKCS#8 PEM: P-256, P-384, Ed25519 or RSA of at least 2048 bits. Throws `TypeError` for others. */
export const createWebSigningKey = async (pem: string): Promise<SigningKey> => {
  const pkcs8 = decodePem(pem, "PRIVATE KEY");
  if (pkcs8 === undefined) throw new TypeError("not an unencrypted PKCS#8 private key in PEM");
  for (const { key: algorithm, signature } of candidates) {
    const parameters = importParameters(algorithm, signature);
    // Only the import for the key's own kind accepts it. Extractable, because the public half is derived from its JWK.
    const key = await crypto.subtle
      .importKey("pkcs8", pkcs8, parameters, true, ["sign"])
      .catch(() => undefined);
    if (key === undefined) continue;
    const { kty, crv, x, y, n, e } = await crypto.subtle.exportKey("jwk", key);
    const publicJwk = Object.fromEntries(
      Object.entries({ kty, crv, x, y, n, e }).filter(([, member]) => member !== undefined),
    );
    const publicKey = await crypto.subtle.importKey("jwk", publicJwk, parameters, true, ["verify"]);
    const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
    if (algorithm === "rsa" && (readPublicKey(spki)?.bits.length ?? 0) < 266) break;
    return {
      algorithm: signature,
      spki,
      sign: (data) => signWith(key, algorithm, signature, data),
    };
  }
  throw new TypeError(
    "the key must be ECDSA P-256 or P-384, Ed25519, or RSA of at least 2048 bits",
  );
};

const signWith = async (
  key: CryptoKey,
  algorithm: KeyAlgorithm,
  signature: SignatureAlgorithm,
  data: Uint8Array,
) => {
  const raw = new Uint8Array(
    await crypto.subtle.sign(operationParameters(signature), key, owned(data)),
  );
  const size = coordinateBytes[algorithm];
  if (size === undefined) return raw;
  return writeDer(
    tag.sequence,
    writeUnsigned(raw.subarray(0, size)),
    writeUnsigned(raw.subarray(size)),
  );
};
