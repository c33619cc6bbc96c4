import { certificateStatus } from "../../../../proto/fleet-health/vocabulary.ts";
import { CertificateView } from "../../../../proto/operator/certificate.ts";
import { viewOf } from "../../../http/view-of.ts";
import type { CertificateRow } from "../../../store/certificate/certificates.ts";

const view = viewOf(CertificateView);

/** Returns the view of a row at `now`. */
export const certificateView = (row: CertificateRow, now: number): CertificateView =>
  view({ ...row, status: certificateStatus(row, now) });
