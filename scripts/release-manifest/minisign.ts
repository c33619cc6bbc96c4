/**
 * Signatures in the format of minisign, by the same Ed25519 key as the raw ones: of the BLAKE2b-512 digest of a file, with a trusted
 * comment. `minisign -V` accepts them.
 */
import { createHash, createPublicKey, type KeyObject, sign, verify } from "node:crypto";

const keyIdBytes = 8;
const signatureBytes = 64;
/** The algorithms of a public key, and of a signature of a digest. */
const keyAlgorithm = "Ed";
const digestAlgorithm = "ED";

/** The 32 bytes of an Ed25519 public key, or of that of a private one. */
const rawKey = (key: KeyObject): Buffer =>
  (key.type === "private" ? createPublicKey(key) : key)
    .export({ type: "spki", format: "der" })
    .subarray(-32);

/** minisign draws it at random; here it is of the key. */
const keyIdOf = (key: KeyObject): Buffer =>
  createHash("sha256").update(rawKey(key)).digest().subarray(0, keyIdBytes);

const digestOf = (content: Uint8Array): Buffer => createHash("blake2b512").update(content).digest();

/** Returns the public key of `key` as minisign reads it. */
export const minisignPublicKey = (key: KeyObject): string => {
  const id = keyIdOf(key);
  const name = Buffer.from(id).reverse().toString("hex").toUpperCase();
  const encoded = Buffer.concat([Buffer.from(keyAlgorithm), id, rawKey(key)]).toString("base64");
  return `untrusted comment: minisign public key ${name}\n${encoded}\n`;
};

/** Signs a file's content. `comment` is one line, and is signed too. */
export const signMinisign = (content: Uint8Array, key: KeyObject, comment: string): string => {
  const signature = sign(null, digestOf(content), key);
  const encoded = Buffer.concat([Buffer.from(digestAlgorithm), keyIdOf(key), signature]).toString(
    "base64",
  );
  const global = sign(null, Buffer.concat([signature, Buffer.from(comment)]), key).toString(
    "base64",
  );
  return `untrusted comment: signature from the release key\n${encoded}\ntrusted comment: ${comment}\n${global}\n`;
};

/** Reports whether `text` is exactly what `signMinisign` makes of this content with the private half of `publicKey`. */
export const verifyMinisign = (
  content: Uint8Array,
  text: string,
  publicKey: KeyObject,
): boolean => {
  const {
    encoded = "",
    comment = "",
    global = "",
  } = /^untrusted comment: [^\n]*\n(?<encoded>\S+)\ntrusted comment: (?<comment>[^\n]*)\n(?<global>\S+)\n$/.exec(
    text,
  )?.groups ?? {};
  const head = Buffer.concat([Buffer.from(digestAlgorithm), keyIdOf(publicKey)]);
  const decoded = Buffer.from(encoded, "base64");
  const signature = decoded.subarray(head.length);
  return (
    decoded.subarray(0, head.length).equals(head) &&
    signature.length === signatureBytes &&
    decoded.toString("base64") === encoded &&
    verify(null, digestOf(content), publicKey, signature) &&
    verify(
      null,
      Buffer.concat([signature, Buffer.from(comment)]),
      publicKey,
      Buffer.from(global, "base64"),
    )
  );
};
