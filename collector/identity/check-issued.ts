import { X509Certificate } from "node:crypto";
import type { CertificateIssued } from "../../proto/management/enroll.ts";
import { decodePem, decodePemBundle, encodePem } from "../../proto/pem.ts";
import { CredentialsError, readCertificate } from "./credentials.ts";

const clientAuth = "1.3.6.1.5.5.7.3.2";

/**
 * The text for `tls.crt` from what core issued: the certificate, then what leads to its root. Throws `CredentialsError` unless it names
 * exactly `identity`, is for client authentication, and each certificate is signed by the next one of the chain. Whether it goes
 * with the key is `joinCredentials`'s to say.
 */
export const checkIssued = (
  issued: Pick<CertificateIssued, "certificate_pem" | "chain_pem">,
  identity: string,
): string => {
  const der = decodePem(issued.certificate_pem, "CERTIFICATE");
  if (der === undefined) throw new CredentialsError("certificate", "core's answer holds no single certificate");
  const leaf = readCertificate(issued.certificate_pem);
  if (leaf.identity !== identity)
    throw new CredentialsError("certificate", "core issued a certificate for another identity");
  if (!leaf.certificate.keyUsage?.includes(clientAuth))
    throw new CredentialsError("certificate", "core issued a certificate that is not for client authentication");
  const chain = (decodePemBundle(issued.chain_pem, "CERTIFICATE") ?? []).map((bytes) => new X509Certificate(bytes));
  if (chain.length === 0) throw new CredentialsError("certificate", "core's answer holds no chain");
  let below = leaf.certificate;
  for (const above of chain) {
    if (!above.ca || !below.checkIssued(above) || !below.verify(above.publicKey))
      throw new CredentialsError(
        "certificate",
        "the certificate that core issued does not chain to the authority it names",
      );
    below = above;
  }
  const intermediates = chain.filter((certificate) => !certificate.checkIssued(certificate));
  return [der, ...intermediates.map(({ raw }) => raw)].map((bytes) => encodePem(bytes, "CERTIFICATE")).join("");
};
