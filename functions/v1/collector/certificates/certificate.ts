import * as v from "valibot";
import { certificateStatus, certificateStatuses } from "../../../../proto/fleet-health/vocabulary.ts";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { CertificateRow } from "../../../store/certificates.ts";

const TimestampOrNull = v.nullable(IsoTimestamp);

/** A certificate in a response. */
export const CertificateView = v.strictObject({
  id: Id,
  identity_id: Id,
  predecessor_id: v.nullable(Id),
  serial_number: v.string(),
  fingerprint_sha256: v.string(),
  status: v.picklist(certificateStatuses),
  certificate_pem: v.string(),
  not_before: IsoTimestamp,
  not_after: IsoTimestamp,
  renew_after: IsoTimestamp,
  issued_at: IsoTimestamp,
  first_used_at: TimestampOrNull,
  replaced_at: TimestampOrNull,
  revoked_at: TimestampOrNull,
});

/** Returns the view of a row at `now`. */
export const certificateView = (row: CertificateRow, now: number): v.InferOutput<typeof CertificateView> => ({
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
