/**
 * Certificates of hosts, with Ed25519 keys that follow from their names: their signatures are the same in each run. And cryptography that
 * answers at once, since what the thread pool answers has no place in virtual time.
 */
import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import { type Cryptography, writeSignatureAlgorithm } from "#functions/signer/cryptography.ts";
import { tag, writeDer, writeTime, writeUnsigned } from "#proto/certificate-der.ts";

/** The key of a host, and its certificate. */
export interface HostKey {
  readonly identity: string;
  sign(payload: Uint8Array): Uint8Array;
  readonly privateKey: KeyObject;
  readonly certificate: Uint8Array;
  /** SHA-256 of the certificate, in hex. */
  readonly fingerprintSha256: string;
}

/** PKCS#8 of an Ed25519 key, up to the 32 bytes of its seed. */
const keyHead = Buffer.from("302e020100300506032b657004220420", "hex");
const keys = new Map<string, HostKey>();
const sha256 = (data: string | Uint8Array): Buffer => hash("sha256", data, "buffer");

/** Returns the key of a host. */
export const keyOfHost = (identity: string): HostKey => {
  let key = keys.get(identity);
  if (key === undefined) {
    const der = Buffer.concat([keyHead, sha256(identity)]);
    const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    const certificate = certificateOf(privateKey);
    const fingerprintSha256 = sha256(certificate).toString("hex");
    key = {
      identity,
      privateKey,
      certificate,
      fingerprintSha256,
      sign: (payload) => sign(null, payload, privateKey),
    };
    keys.set(identity, key);
  }
  return key;
};

/** Returns the certificate of a key, which nobody has signed: the listener of a simulation does not check it. */
const certificateOf = (privateKey: KeyObject): Uint8Array => {
  const algorithm = writeSignatureAlgorithm("ed25519");
  const name = writeDer(tag.sequence);
  const version = writeDer(tag.context0, writeUnsigned(Uint8Array.of(2)));
  const validity = writeDer(
    tag.sequence,
    writeTime(Date.UTC(2026, 0)),
    writeTime(Date.UTC(2030, 0)),
  );
  const spki = createPublicKey(privateKey).export({ format: "der", type: "spki" });
  const signed = writeDer(
    tag.sequence,
    version,
    writeUnsigned(Uint8Array.of(1)),
    algorithm,
    name,
    validity,
    name,
    spki,
  );
  return writeDer(tag.sequence, signed, algorithm, writeDer(tag.bitString, new Uint8Array(65)));
};

/** Core's cryptography. */
export const hostCryptography: Cryptography = {
  sha256Hex: (data) => sha256(data).toString("hex"),
  verify: ({ spki, algorithm, data, signature }) =>
    algorithm === "ed25519" &&
    verify(
      null,
      data,
      createPublicKey({ key: Buffer.from(spki), format: "der", type: "spki" }),
      signature,
    ),
};
