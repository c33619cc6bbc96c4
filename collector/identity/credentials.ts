import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { identityOfCertificate } from "#proto/identity.ts";
import { decodePemBundle } from "#proto/pem.ts";

/** A certificate with its private key, checked to belong together. */
export interface Credentials {
  /** The certificate's single DNS or URI name. */
  readonly identity: string;
  readonly certificate: X509Certificate;
  /** Lowercase hex of the SHA-256 of the certificate's DER. */
  readonly fingerprintSha256: string;
  readonly privateKey: KeyObject;
  /** The certificate file's text: the certificate and its intermediates. */
  readonly certificatePem: string;
  readonly keyPem: string;
}

/** Reports that a text has no usable certificate or key, or that the two do not belong together. The message quotes nothing. */
export class CredentialsError extends Error {
  override readonly name = "CredentialsError";
  readonly part: "certificate" | "key";

  constructor(part: "certificate" | "key", message: string, options?: ErrorOptions) {
    super(message, options);
    this.part = part;
  }
}

const identityFaults = {
  malformed: "holds a malformed certificate",
  no_name: "holds a certificate without a DNS or URI name; a common name does not count",
  several_names: "holds a certificate with several names; exactly one DNS or URI name is needed",
  other_kind: "holds a certificate whose name is neither DNS nor URI",
  bad_characters: "holds a certificate whose name has characters that no identity may have",
} as const;

/** Reads the first certificate of a PEM text and its identity; throws `CredentialsError`. */
export const readPemCertificate = (
  pem: string,
): { certificate: X509Certificate; identity: string } => {
  const der = decodePemBundle(pem, "CERTIFICATE")?.[0];
  if (der === undefined) throw new CredentialsError("certificate", "holds no PEM certificate");
  const result = identityOfCertificate(der);
  if (!result.ok) throw new CredentialsError("certificate", identityFaults[result.reason]);
  return { certificate: new X509Certificate(der), identity: result.identity };
};

/** Returns what the collector's outputs say of a certificate. */
export const describeCertificate = (certificate: X509Certificate) => ({
  serial_number: certificate.serialNumber.toLowerCase(),
  fingerprint_sha256: certificate.fingerprint256.replaceAll(":", "").toLowerCase(),
  not_before: certificate.validFromDate.toISOString(),
  not_after: certificate.validToDate.toISOString(),
});

/** Returns the certificates of a PEM bundle that can be parsed, without the text between them: OpenSSL would ignore every one after a broken one. */
export const readableCertificates = (pem: string): string => {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];
  const readable = blocks.flatMap((block) => {
    try {
      return [new X509Certificate(block).toString()];
    } catch {
      return [];
    }
  });
  return readable.join("");
};

/** Reads a private key in PEM; throws `CredentialsError`. */
const readPrivateKey = (pem: string): KeyObject => {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    // OpenSSL's own message does not help, and could one day quote the text.
    throw new CredentialsError("key", "holds no private key in PEM without a passphrase", {
      cause,
    });
  }
};

/** Joins a certificate text and a key text; throws `CredentialsError` if one is unusable, or they do not belong together. */
export const joinCredentials = (certificatePem: string, keyPem: string): Credentials => {
  const { certificate, identity } = readPemCertificate(certificatePem);
  const privateKey = readPrivateKey(keyPem);
  if (!certificate.checkPrivateKey(privateKey))
    throw new CredentialsError("key", "does not belong to the certificate");
  return {
    identity,
    certificate,
    fingerprintSha256: describeCertificate(certificate).fingerprint_sha256,
    privateKey,
    certificatePem,
    keyPem,
  };
};
