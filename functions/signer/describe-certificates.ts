import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { decodePemBundle } from "#proto/pem.ts";

/** A certificate as operators know it. */
export interface DescribedCertificate {
  subject: string;
  /** When it expires: RFC 3339. */
  endsAt: string;
}

/** Returns the certificates of PEM, in its order, without those that cannot be read. */
export const describeCertificates = (pem: string): DescribedCertificate[] =>
  (decodePemBundle(pem, "CERTIFICATE") ?? []).flatMap((der) => {
    try {
      const { subject, notAfter } = new x509.X509Certificate(der);
      return [{ subject, endsAt: notAfter.toISOString() }];
    } catch {
      return [];
    }
  });
