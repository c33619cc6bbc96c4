import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { contextConstructed, contextPrimitive, tag, writeDer, writeUnsigned } from "../../proto/der.ts";
import { encodePem } from "../../proto/pem.ts";

/** A fresh P-256 private key, as PKCS#8 PEM. */
export const generateKeyPem = (): string =>
  generateKeyPairSync("ec", {
    namedCurve: "P-256",
    publicKeyEncoding: { type: "spki", format: "der" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }).privateKey;

const oid = {
  extensionRequest: Uint8Array.fromHex("2a864886f70d01090e"),
  subjectAltName: Uint8Array.fromHex("551d11"),
  ecdsaWithSha256: Uint8Array.fromHex("2a8648ce3d040302"),
};

/**
 * A PKCS#10 request (RFC 2986) in PEM for `identity`, a URI, signed by `keyPem`, a P-256 key: empty subject, and one requested
 * extension, the URI as the only subject alternative name.
 */
export const createCsr = (identity: string, keyPem: string): string => {
  const key = createPrivateKey(keyPem);
  const names = writeDer(tag.sequence, writeDer(contextPrimitive(6), new TextEncoder().encode(identity)));
  const extension = writeDer(
    tag.sequence,
    writeDer(tag.oid, oid.subjectAltName),
    writeDer(tag.boolean, new Uint8Array([0xff])), // critical, since the subject is empty (RFC 5280, 4.2.1.6)
    writeDer(tag.octetString, names),
  );
  const attribute = writeDer(
    tag.sequence,
    writeDer(tag.oid, oid.extensionRequest),
    writeDer(tag.set, writeDer(tag.sequence, extension)),
  );
  const info = writeDer(
    tag.sequence,
    writeUnsigned(new Uint8Array(1)),
    writeDer(tag.sequence),
    publicKeyDer(key),
    writeDer(contextConstructed(0), attribute),
  );
  const signature = sign("sha256", info, key);
  const request = writeDer(
    tag.sequence,
    info,
    writeDer(tag.sequence, writeDer(tag.oid, oid.ecdsaWithSha256)),
    writeDer(tag.bitString, new Uint8Array(1), signature),
  );
  return encodePem(request, "CERTIFICATE REQUEST");
};

const publicKeyDer = (key: KeyObject): Uint8Array =>
  new Uint8Array(createPublicKey(key).export({ type: "spki", format: "der" }));
