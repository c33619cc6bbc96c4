// x509 needs the polyfill before anything of it is loaded.
import "reflect-metadata";
import { isIP } from "node:net";
import { Crypto } from "@peculiar/webcrypto";
import * as x509 from "@peculiar/x509";
import { encodePem } from "../../proto/pem.ts";

/** A key pair and a certificate for it. */
export interface LabCredentials {
  readonly certificate: x509.X509Certificate;
  readonly certificatePem: string;
  readonly keys: CryptoKeyPair;
  /** PKCS#8. */
  readonly keyPem: string;
}

/** When a certificate is valid; whole seconds count. */
export interface Validity {
  notBefore: Date;
  notAfter: Date;
}

const webCrypto = new Crypto();
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Generates an extractable P-256 key. */
export const createKey = async (): Promise<{ keys: CryptoKeyPair; keyPem: string; spki: Uint8Array<ArrayBuffer> }> => {
  const keys = await webCrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const pkcs8 = new Uint8Array(await webCrypto.subtle.exportKey("pkcs8", keys.privateKey));
  const spki = new Uint8Array(await webCrypto.subtle.exportKey("spki", keys.publicKey));
  return { keys, keyPem: encodePem(pkcs8, "PRIVATE KEY"), spki };
};

/** Creates a self-signed authority that may sign end-entity certificates and nothing above them (path length 0). */
export const createAuthority = async (options: { name: string } & Validity): Promise<LabCredentials> => {
  const { name, notBefore, notAfter } = options;
  const { keys, keyPem } = await createKey();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serialNumber(),
      name: `CN=${name}`,
      notBefore,
      notAfter,
      keys,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webCrypto),
      ],
    },
    webCrypto,
  );
  return { certificate, certificatePem: pemOf(certificate), keys, keyPem };
};

/** Creates a TLS server certificate for DNS names and IP addresses. */
export const createServerCertificate = async (
  options: { issuer: LabCredentials; names: readonly string[] } & Validity,
): Promise<LabCredentials> => {
  const { issuer, names, notBefore, notAfter } = options;
  const { keys, keyPem } = await createKey();
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: serialNumber(),
      subject: `CN=${names[0] ?? ""}`,
      issuer: issuer.certificate.subject,
      notBefore,
      notAfter,
      publicKey: keys.publicKey,
      signingKey: issuer.keys.privateKey,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({ type: isIP(value) === 0 ? ("dns" as const) : ("ip" as const), value })),
        ),
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webCrypto),
        await x509.AuthorityKeyIdentifierExtension.create(issuer.certificate, false, webCrypto),
      ],
    },
    webCrypto,
  );
  return { certificate, certificatePem: pemOf(certificate), keys, keyPem };
};

/** 127 random bits: positive, and never with a leading zero byte. */
const serialNumber = (): string => {
  const bytes = webCrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toHex();
};

const pemOf = (certificate: x509.X509Certificate): string => `${certificate.toString("pem")}\n`;
