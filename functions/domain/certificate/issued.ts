import type { IssuedCertificate } from "#functions/signer/signer.ts";
import type { CertificateRow } from "#functions/store/certificate/certificates.ts";
import type { EnrolledIdentity } from "#functions/store/certificate/identities.ts";

/** A recorded certificate and its identity. */
export interface Issued {
  identity: EnrolledIdentity;
  certificate: CertificateRow;
}

/** The fault of a signer that returned a certificate which core has recorded already. */
export const issuedBefore = "the signer returned a certificate that it had issued before";

/** Returns the row of a certificate that a signer issued at `issuedAt` (ms): active, unused, due for renewal at half its life. */
export const issuedRow = (
  issued: IssuedCertificate,
  facts: {
    id: string;
    identityId: string;
    predecessorId: string | null;
    tokenId: string | null;
    spkiSha256: Uint8Array;
    issuedAt: number;
  },
): CertificateRow => ({
  id: facts.id,
  identityId: facts.identityId,
  predecessorId: facts.predecessorId,
  tokenId: facts.tokenId,
  status: "active",
  serialNumber: issued.serialNumber,
  fingerprintSha256: Uint8Array.fromHex(issued.fingerprintSha256),
  spkiSha256: facts.spkiSha256,
  certificatePem: issued.certificatePem,
  chainPem: issued.chainPem,
  notBefore: new Date(issued.notBefore),
  notAfter: new Date(issued.notAfter),
  renewAfter: new Date(facts.issuedAt + Math.floor((issued.notAfter - facts.issuedAt) / 2)),
  issuedAt: new Date(facts.issuedAt),
  firstUsedAt: null,
  replacedAt: null,
  revokedAt: null,
  endedXid: null,
});
