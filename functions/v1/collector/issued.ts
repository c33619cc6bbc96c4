import type { CertificateIssued } from "../../../proto/management/enroll.ts";
import type { Issued } from "../../domain/certificate/issued.ts";

/** Returns the response of enroll and renew: the certificate, when to renew it and how often to report. */
export const issuedView = (
  { identity, certificate }: Issued,
  { heartbeatIntervalSeconds, now }: { heartbeatIntervalSeconds: number; now: number },
): CertificateIssued => ({
  identity_id: identity.id,
  certificate_id: certificate.id,
  identity: identity.identity,
  certificate_pem: certificate.certificatePem,
  chain_pem: certificate.chainPem,
  serial_number: certificate.serialNumber,
  fingerprint_sha256: certificate.fingerprintSha256.toHex(),
  not_before: certificate.notBefore.toISOString(),
  not_after: certificate.notAfter.toISOString(),
  renew_after: certificate.renewAfter.toISOString(),
  heartbeat_interval_seconds: heartbeatIntervalSeconds,
  server_time: new Date(now).toISOString(),
});
