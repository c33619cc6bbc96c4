import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import {
  AlgorithmIdentifier,
  AuthorityKeyIdentifier,
  BasicConstraints,
  ExtendedKeyUsage,
  Extension,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_kp_clientAuth,
  KeyIdentifier,
  KeyUsage,
  KeyUsageFlags,
} from "@peculiar/asn1-x509";
import { contextConstructed, contextPrimitive, tag, writeDer, writeTime, writeUnsigned } from "../../proto/der.ts";
import { encodePem } from "../../proto/pem.ts";
import { equalBytes } from "../../proto/x509.ts";
import { type Authority, AuthorityFault, chainPemOf, publicKeyBits } from "./authority.ts";
import { type Cryptography, type SigningKey, signatureOid } from "./cryptography.ts";
import { authorityRemainingSecondsMin, type Signer, SignerFault } from "./signer.ts";

/** `not_before` lies this far before the issue time, for hosts whose clocks run behind. */
const backdateSeconds = 60;

/**
 * A certification authority in this process. What is the same in every certificate is encoded once, here; issuing one puts parts
 * together and signs. Profile: version 3, empty subject, critical URI SAN, client-auth, critical digitalSignature and CA false,
 * SKI (SHA-256 cut to 160 bits, RFC 7093) and AKI. Throws `AuthorityFault` if no certificate of the file matches the key.
 */
export const createLocalCa = async (options: {
  authorities: readonly Authority[];
  key: SigningKey;
  cryptography: Cryptography;
}): Promise<Signer> => {
  const { authorities, key, cryptography } = options;
  const authority = authorities.find((candidate) => equalBytes(candidate.spki, key.spki));
  if (authority === undefined) throw new AuthorityFault("the CA key matches no certificate of the CA file");
  const identifierOf = async (spki: Uint8Array) =>
    Uint8Array.fromHex(await cryptography.sha256Hex(publicKeyBits(spki))).subarray(0, 20);

  const rsa = key.algorithm.startsWith("rsa-");
  const algorithm = encode(
    new AlgorithmIdentifier({ algorithm: signatureOid(key.algorithm), ...(rsa ? { parameters: null } : {}) }),
  );
  const authorityKey = authority.subjectKeyIdentifier ?? (await identifierOf(authority.spki));
  const constantExtensions = [
    extension(id_ce_keyUsage, true, new KeyUsage(KeyUsageFlags.digitalSignature)),
    extension(id_ce_basicConstraints, true, new BasicConstraints({ cA: false })),
    extension(id_ce_extKeyUsage, false, new ExtendedKeyUsage([id_kp_clientAuth])),
    extension(
      id_ce_authorityKeyIdentifier,
      false,
      new AuthorityKeyIdentifier({ keyIdentifier: new KeyIdentifier(authorityKey.slice()) }),
    ),
  ];
  const chainPem = await chainPemOf(authority, authorities, cryptography);
  const ending = (now: number) => authority.notAfter - now < authorityRemainingSecondsMin * 1000;

  return {
    async sign({ spki, identity, ttlSeconds, serial, now }) {
      if (ending(now)) throw new SignerFault("the CA certificate is ending");
      const issuedAt = Math.floor(now / 1000) * 1000;
      const notBefore = issuedAt - backdateSeconds * 1000;
      const notAfter = Math.min(issuedAt + ttlSeconds * 1000, authority.notAfter);
      const subjectKey = writeDer(tag.octetString, await identifierOf(spki));
      const name = writeDer(tag.sequence, writeDer(contextPrimitive(6), new TextEncoder().encode(identity)));
      const serialNumber = writeUnsigned(serial);
      const tbs = writeDer(
        tag.sequence,
        version3,
        serialNumber,
        algorithm,
        authority.subject,
        writeDer(tag.sequence, writeTime(notBefore), writeTime(notAfter)),
        emptyName,
        spki,
        writeDer(
          contextConstructed(3),
          writeDer(
            tag.sequence,
            writeDer(tag.sequence, subjectAltNameOid, criticalTrue, writeDer(tag.octetString, name)),
            ...constantExtensions,
            writeDer(tag.sequence, subjectKeyIdentifierOid, writeDer(tag.octetString, subjectKey)),
          ),
        ),
      );
      const signature = await key.sign(tbs);
      const der = writeDer(tag.sequence, tbs, algorithm, writeDer(tag.bitString, new Uint8Array(1), signature));
      return {
        certificatePem: encodePem(der, "CERTIFICATE"),
        chainPem,
        serialNumber: serial.toHex().replace(/^(?:00)+(?=..)/, ""),
        fingerprintSha256: await cryptography.sha256Hex(der),
        notBefore,
        notAfter,
      };
    },
    faultAt: (now) => (ending(now) ? "the CA certificate ends in less than 300 seconds, or has ended" : undefined),
  };
};

const encode = (value: object): Uint8Array => new Uint8Array(AsnConvert.serialize(value));

const extension = (extnID: string, critical: boolean, value: object): Uint8Array =>
  encode(new Extension({ extnID, critical, extnValue: new OctetString(encode(value)) }));

const version3 = Uint8Array.of(0xa0, 0x03, 0x02, 0x01, 0x02);
const emptyName = Uint8Array.of(0x30, 0x00);
const criticalTrue = Uint8Array.of(0x01, 0x01, 0xff);
const subjectKeyIdentifierOid = Uint8Array.of(0x06, 0x03, 0x55, 0x1d, 0x0e);
const subjectAltNameOid = Uint8Array.of(0x06, 0x03, 0x55, 0x1d, 0x11);
