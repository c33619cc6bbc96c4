import { type RenewCore, renew } from "#functions/domain/certificate/renew.ts";
import {
  type AdmitToken,
  type AdmittedToken,
  createAdmitToken,
  createEnroll,
  type EnrollCore,
} from "#functions/domain/enrollment/enroll.ts";
import { createRunOrRefuse } from "#functions/domain/enrollment/refuse.ts";
import { resource } from "#functions/http/resource.ts";
import { type Guard, viewOf } from "#functions/http/route.ts";
import type { Issued } from "#functions/store/certificate/certificates.ts";
import { CertificateIssued, EnrollRequest } from "#proto/management/enroll.ts";
import { RenewRequest } from "#proto/management/renew.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";

/** Admits a token that may be used from the caller's address. Counts and audits every refusal, also of a missing token. */
const bootstrapToken = (admitToken: AdmitToken): Guard<AdmittedToken> => ({
  describe: { kind: "bootstrap_token" },
  admit: (c) => {
    const raw = /^Bearer ([!-~]{1,4096})$/i.exec(c.req.header("authorization") ?? "")?.[1] ?? null;
    return admitToken(raw, c.get("origin"));
  },
});

/** The routes that issue a host's certificate: for a bootstrap or service account token, and as the successor of the presented one. */
export const certificateIssue = (core: EnrollCore & RenewCore & ManagementCore) => {
  const runOrRefuse = createRunOrRefuse(core);
  const enroll = createEnroll(core, runOrRefuse);
  const issuedView = ({ identity, certificate }: Issued) =>
    view({
      ...certificate,
      identityId: identity.id,
      identity: identity.identity,
      certificateId: certificate.id,
      heartbeatIntervalSeconds: core.config.heartbeatIntervalSeconds,
      serverTime: new Date(core.clock.now()),
    });
  return resource(core, "/v1/collector", ({ post, act }) => ({
    enrollCollector: post(
      "/enroll",
      "Enroll a host: a client certificate for a bootstrap or service account token and a certificate request",
      {
        by: bootstrapToken(createAdmitToken(core, runOrRefuse)),
        body: EnrollRequest,
        bodyExample: {
          csr_pem: "-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n",
          device_id: "web-01",
          hostname: "web-01.fleet.example",
          platform: "linux/amd64",
          collector_version: "1.4.0",
        },
        returns: ["The certificate", CertificateIssued],
        problems: [
          "token_invalid",
          "policy_frozen",
          "source_not_allowed",
          "identity_not_allowed",
          "device_not_allowed",
          "platform_not_allowed",
          "enrollment_limit_reached",
          "enrollment_rate_limited",
          "enrollment_in_progress",
          "identity_revoked",
          "identity_exists",
          "csr_invalid",
          "throttled",
          "issuer_unavailable",
          "signer_failed",
        ],
        handle: async ({ body, caller, origin }) => issuedView(await enroll(caller, body, origin)),
      },
    ),

    renewCertificate: act("/renew", "Renew: a successor for the presented client certificate", {
      by: collector(core, "renew"),
      body: RenewRequest,
      returns: ["The successor", CertificateIssued],
      problems: [...managementProblems, "csr_invalid", "identity_mismatch", "signer_failed"],
      handle: async ({ body, caller, origin }) =>
        issuedView(await renew(core, caller, body, origin)),
    }),
  }));
};

/** Returns the certificate, when to renew it and how often to report. */
const view = viewOf(CertificateIssued);
