import type { IssuedCertificate } from "../../signer/signer.ts";
import type { CertificateRow } from "../../store/certificates.ts";
import type { IdentityRow } from "../../store/identities.ts";

/** A certificate that a row makes valid, with the identity it stands for. */
export interface Issued {
  identity: IdentityRow;
  certificate: CertificateRow;
}

/** What is wrong with a signer whose certificate core has a row of already. */
export const issuedBefore = "the signer gave a certificate that it had issued before";

/** The row of a certificate that a signer issued at `issuedAt` (ms): active, not yet used, to be renewed at half its life. */
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
});
