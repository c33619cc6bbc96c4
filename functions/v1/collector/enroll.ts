import type { Core } from "#functions/core.ts";
import {
  type AdmitToken,
  type AdmittedToken,
  createAdmitToken,
  createEnroll,
  type EnrollCore,
} from "#functions/domain/enrollment/enroll.ts";
import { createRunOrRefuse } from "#functions/domain/enrollment/refuse.ts";
import { route } from "#functions/http/route.ts";
import type { Guard } from "#functions/http/route-definition.ts";
import { CertificateIssued, EnrollRequest } from "#proto/management/enroll.ts";
import { issuedView } from "./issued.ts";

/** Admits a token that may be used from the caller's address. Counts and audits every refusal, also of a missing token. */
const bootstrapToken = (admitToken: AdmitToken): Guard<AdmittedToken> => ({
  describe: { kind: "bootstrap_token" },
  admit: (c) => {
    const raw = /^Bearer ([!-~]{1,4096})$/i.exec(c.req.header("authorization") ?? "")?.[1] ?? null;
    return admitToken(raw, c.get("origin"));
  },
});

/** `POST /v1/collector/enroll`: issues a host's certificate for a bootstrap or service account token and a certificate request. */
export const enrollRoute = (core: EnrollCore & Pick<Core, "caBundles">) => {
  const runOrRefuse = createRunOrRefuse(core);
  const enroll = createEnroll(core, runOrRefuse);
  return route({
    method: "POST",
    path: "/v1/collector/enroll",
    operationId: "enrollCollector",
    summary:
      "Enroll a host: a client certificate for a bootstrap or service account token and a certificate request",
    guard: bootstrapToken(createAdmitToken(core, runOrRefuse)),
    body: EnrollRequest,
    bodyExample: {
      csr_pem: "-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n",
      device_id: "web-01",
      hostname: "web-01.fleet.example",
      platform: "linux/amd64",
      collector_version: "1.4.0",
    },
    replies: { 201: { description: "The certificate", schema: CertificateIssued } },
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
    handle: async ({ body, caller, origin }) => {
      const enrolled = await enroll(caller, body, origin);
      return { status: 201, body: await issuedView(core, enrolled) };
    },
  });
};
