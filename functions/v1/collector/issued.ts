import type { Core } from "#functions/core.ts";
import { viewOf } from "#functions/http/route.ts";
import type { Issued } from "#functions/store/certificate/certificates.ts";
import { CertificateIssued } from "#proto/management/enroll.ts";

const view = viewOf(CertificateIssued);

/** Returns the response of enroll and renew: the certificate, when to renew it, how often to report, and the newest CA bundles. */
export const issuedView = async (
  { config, clock, caBundles }: Pick<Core, "config" | "clock" | "caBundles">,
  { identity, certificate }: Issued,
): Promise<CertificateIssued> => ({
  ...view({
    ...certificate,
    identityId: identity.id,
    identity: identity.identity,
    certificateId: certificate.id,
    heartbeatIntervalSeconds: config.heartbeatIntervalSeconds,
    serverTime: new Date(clock.now()),
  }),
  ca_bundles: await caBundles.find(),
});
