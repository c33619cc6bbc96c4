/*
 * Keys, certificate requests and the check of what core issues, by x509. Import it dynamically: loading takes some 60 ms and 20 MB,
 * which only `enroll` and a renewal should pay.
 */
import "reflect-metadata";
import { Crypto } from "@peculiar/webcrypto";
import * as x509 from "@peculiar/x509";
import type { CertificateIssued } from "#proto/management/enroll.ts";
import { decodePem, decodePemBundle, encodePem } from "#proto/pem.ts";
import { CredentialsError, readPemCertificate } from "./credentials.ts";

/** Faster than Node's own for x509's small operations; passed to each call, as x509's default is one for the whole process. */
const webCrypto = new Crypto();

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Generates a P-256 private key, as PKCS#8 PEM. */
export const generateKeyPem = async (): Promise<string> => {
  const { privateKey } = await webCrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  return encodePem(
    new Uint8Array(await webCrypto.subtle.exportKey("pkcs8", privateKey)),
    "PRIVATE KEY",
  );
};

/**
 * Creates a PKCS#10 request (RFC 2986) in PEM for `identity`, a URI, signed by `keyPem`, a P-256 key: empty subject, and one
 * requested extension, the URI as the only subject alternative name.
 */
export const createCsr = async (identity: string, keyPem: string): Promise<string> => {
  const pkcs8 = decodePem(keyPem, "PRIVATE KEY");
  if (pkcs8 === undefined) throw new CredentialsError("key", "holds no private key in PKCS#8 PEM");
  const privateKey = await webCrypto.subtle.importKey("pkcs8", pkcs8, algorithm, true, ["sign"]);
  const { d: _, ...publicHalf } = await webCrypto.subtle.exportKey("jwk", privateKey);
  const publicKey = await webCrypto.subtle.importKey(
    "jwk",
    { ...publicHalf, key_ops: ["verify"] },
    algorithm,
    true,
    ["verify"],
  );
  // Critical, since the subject is empty (RFC 5280, 4.2.1.6).
  const extensions = [
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: identity }], true),
  ];
  const request = await x509.Pkcs10CertificateRequestGenerator.create(
    { keys: { privateKey, publicKey }, signingAlgorithm: algorithm, extensions },
    webCrypto,
  );
  return `${request.toString("pem")}\n`;
};

/**
 * Returns the text for `tls.crt` from what core issued: the certificate and its intermediates. Throws `CredentialsError` unless the
 * certificate names exactly `identity`, is for client authentication, and each certificate of the chain has signed the one before
 * it. `joinCredentials` checks that it belongs to the key.
 */
export const checkIssued = async (
  issued: Pick<CertificateIssued, "certificate_pem" | "chain_pem">,
  identity: string,
): Promise<string> => {
  const refuse = (message: string, cause?: unknown): never => {
    throw new CredentialsError("certificate", message, { cause });
  };
  const der =
    decodePem(issued.certificate_pem, "CERTIFICATE") ??
    refuse("core's answer holds no single certificate");
  if (readPemCertificate(issued.certificate_pem).identity !== identity)
    refuse("core issued a certificate for another identity");
  const chain = decodePemBundle(issued.chain_pem, "CERTIFICATE") ?? [];
  if (chain.length === 0) refuse("core's answer holds no chain");
  try {
    const leaf = new x509.X509Certificate(der);
    const usages = leaf.getExtension(x509.ExtendedKeyUsageExtension)?.usages;
    if (!usages?.includes(x509.ExtendedKeyUsage.clientAuth))
      refuse("core issued a certificate that is not for client authentication");
    const authorities = chain.map((bytes) => new x509.X509Certificate(bytes));
    const built = await new x509.X509ChainBuilder({ certificates: authorities }).build(
      leaf,
      webCrypto,
    );
    const isWhole = authorities.every(
      (authority, index) => authority === built[index + 1] && maySign(authority),
    );
    if (!isWhole)
      refuse("the certificate that core issued does not chain to the authority it names");
    const intermediates = authorities.filter(({ subject, issuer }) => subject !== issuer);
    return [leaf, ...intermediates]
      .map((certificate) => `${certificate.toString("pem")}\n`)
      .join("");
  } catch (cause) {
    if (cause instanceof CredentialsError) throw cause;
    return refuse("core's answer holds a certificate or a chain that cannot be read", cause);
  }
};

const maySign = (certificate: x509.X509Certificate) => {
  const usage =
    certificate.getExtension(x509.KeyUsagesExtension)?.usages ?? x509.KeyUsageFlags.keyCertSign;
  const constraints = certificate.getExtension(x509.BasicConstraintsExtension);
  return constraints?.ca === true && (usage & x509.KeyUsageFlags.keyCertSign) !== 0;
};
