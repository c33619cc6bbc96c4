import { parseCoreConfig } from "../../functions/config.ts";
import type { Core } from "../../functions/core.ts";
import type { Route } from "../../functions/http/route.ts";
import { opsRoutesOf } from "../../functions/ops/index.ts";
import { PolicyView } from "../../functions/v1/collector/enrollment-policies/policy.ts";
import { TokenView } from "../../functions/v1/collector/tokens/token.ts";
import { routesOf } from "../../functions/v1/index.ts";
import { FleetHealthRow } from "../../proto/fleet-health/row.ts";
import { CertificateIssued } from "../../proto/management/enroll.ts";

/** Schemas that several routes share, by their name in the document and in generated clients. */
export const namedSchemas = {
  EnrollmentPolicy: PolicyView,
  BootstrapToken: TokenView,
  IssuedCertificate: CertificateIssued,
  FleetHealthRow,
};

/** Returns every route of a fully configured core. The routes are described and never called, so their dependencies may be empty. */
export const documentedRoutes = (): readonly Route[] => {
  const { config } = parseCoreConfig(
    {
      SVC_DATABASE_URL: "postgres://documented",
      SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
      SVC_AUTH_TOKEN_SECRET: "0".repeat(32),
      SVC_DIRECTORY_DOMAIN: "fleet.example",
      SVC_DIRECTORY_DELEGATE_EMAIL: "root@fleet.example",
      SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/etc/svc/directory.json",
    },
    () => "",
  );
  const core = { config, signer: {}, observe: {}, clock: {}, db: {} } as unknown as Core;
  return [
    ...routesOf(core),
    ...opsRoutesOf({
      ...core,
      checks: { core: [], ingest: [], licensing: [] },
      metrics: async () => ({ type: "", content: "" }),
    }),
  ];
};
