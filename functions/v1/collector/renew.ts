import type { Core } from "#functions/core.ts";
import { type RenewCore, renew } from "#functions/domain/certificate/renew.ts";
import { route } from "#functions/http/route.ts";
import { CertificateIssued } from "#proto/management/enroll.ts";
import { RenewRequest } from "#proto/management/renew.ts";
import { collector, type ManagementCore, managementProblems } from "./collector-guard.ts";
import { issuedView } from "./issued.ts";

/** `POST /v1/collector/renew`: issues a successor of the presented certificate. */
export const renewRoute = (core: RenewCore & ManagementCore & Pick<Core, "caBundles">) =>
  route({
    method: "POST",
    path: "/v1/collector/renew",
    operationId: "renewCertificate",
    summary: "Renew: a successor for the presented client certificate",
    guard: collector(core, "renew"),
    body: RenewRequest,
    replies: { 200: { description: "The successor", schema: CertificateIssued } },
    problems: [...managementProblems, "csr_invalid", "identity_mismatch", "signer_failed"],
    handle: async ({ body, caller, origin }) => {
      const renewed = await renew(core, caller, body, origin);
      return { status: 200, body: await issuedView(core, renewed) };
    },
  });
