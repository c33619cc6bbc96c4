import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { revokeIdentity } from "../../../domain/certificate/identities.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams, ReasonBody } from "../../shapes.ts";

const RevokedIdentityView = v.strictObject({
  id: Id,
  identity: v.string(),
  device_id: v.string(),
  status: v.picklist(["revoked"]),
  revoked_at: IsoTimestamp,
  revoked_certificate_ids: v.array(Id),
});

/** `POST /v1/collector/identities/{id}/revoke`: revokes a host and all its certificates. */
export const revokeIdentityRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/identities/:id/revoke",
    operationId: "revokeCollectorIdentity",
    summary: "Revoke a collector identity and its active certificates; final and idempotent",
    guard: scope(core, "admin"),
    params: IdParams,
    body: ReasonBody,
    bodyAbsentAs: {},
    bodyExample: { reason_code: "host_compromised" },
    replies: { 200: { description: "The revoked identity", schema: RevokedIdentityView } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { identityId: params.id, reasonCode: body.reason_code ?? null };
      const { identity, revokedCertificateIds } = await revokeIdentity(core, caller, change, origin);
      return {
        status: 200,
        body: {
          id: identity.id,
          identity: identity.identity,
          device_id: identity.deviceId,
          status: "revoked",
          revoked_at: identity.revokedAt?.toISOString(),
          revoked_certificate_ids: revokedCertificateIds,
        },
      };
    },
  });
