import { certificateStatus } from "../../../../proto/fleet-health/vocabulary.ts";
import type { CertificateView } from "../../../../proto/operator/certificate.ts";
import type { CertificateRow } from "../../../store/certificate/certificates.ts";

/** Returns the view of a row at `now`. */
export const certificateView = (row: CertificateRow, now: number): CertificateView => ({
  id: row.id,
  identity_id: row.identityId,
  predecessor_id: row.predecessorId,
  serial_number: row.serialNumber,
  fingerprint_sha256: row.fingerprintSha256.toHex(),
  status: certificateStatus(row, now),
  certificate_pem: row.certificatePem,
  not_before: row.notBefore.toISOString(),
  not_after: row.notAfter.toISOString(),
  renew_after: row.renewAfter.toISOString(),
  issued_at: row.issuedAt.toISOString(),
  first_used_at: row.firstUsedAt?.toISOString() ?? null,
  replaced_at: row.replacedAt?.toISOString() ?? null,
  revoked_at: row.revokedAt?.toISOString() ?? null,
});
