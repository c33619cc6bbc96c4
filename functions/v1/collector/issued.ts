import { viewOf } from "#functions/http/route.ts";
import type { Issued } from "#functions/store/certificate/certificates.ts";
import { CertificateIssued } from "#proto/management/enroll.ts";

const view = viewOf(CertificateIssued);

/** Returns the response of enroll and renew: the certificate, when to renew it and how often to report. */
export const issuedView = (
  { identity, certificate }: Issued,
  { heartbeatIntervalSeconds, now }: { heartbeatIntervalSeconds: number; now: number },
): CertificateIssued =>
  view({
    ...certificate,
    identityId: identity.id,
    identity: identity.identity,
    certificateId: certificate.id,
    heartbeatIntervalSeconds,
    serverTime: new Date(now),
  });
