import * as v from "valibot";
import { certificateStatuses } from "../fleet-health/vocabulary.ts";
import { Id, IsoTimestamp, PageOf, TimestampOrNull } from "../values.ts";

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

/** A certificate in a response. */
export type CertificateView = v.InferOutput<typeof CertificateView>;

/** Response of `GET /v1/collector/identities/{id}/certificates`: one page, newest first. */
export const CertificatePage = PageOf(CertificateView);
