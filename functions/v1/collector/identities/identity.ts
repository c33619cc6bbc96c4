import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { IdentityRow } from "../../../store/certificate/identities.ts";

/** A collector identity in a response. */
export const IdentityView = v.strictObject({
  id: Id,
  identity: v.string(),
  device_id: v.string(),
  policy_id: Id,
  token_id: Id,
  hostname: v.nullable(v.string()),
  platform: v.string(),
  collector_version: v.string(),
  status: v.picklist(["active", "revoked"]),
  enrolled_at: IsoTimestamp,
  revoked_at: v.nullable(IsoTimestamp),
  last_auth_failure: v.nullable(v.strictObject({ at: IsoTimestamp, reason: v.string() })),
});

/** Returns the view of a row. */
export const identityView = (row: IdentityRow): v.InferOutput<typeof IdentityView> => ({
  id: row.id,
  identity: row.identity,
  device_id: row.deviceId,
  policy_id: row.policyId,
  token_id: row.tokenId,
  hostname: row.hostname,
  platform: row.platform,
  collector_version: row.collectorVersion,
  status: row.revokedAt === null ? "active" : "revoked",
  enrolled_at: row.enrolledAt.toISOString(),
  revoked_at: row.revokedAt?.toISOString() ?? null,
  last_auth_failure:
    row.lastAuthFailureAt !== null && row.lastAuthFailureReason !== null
      ? { at: row.lastAuthFailureAt.toISOString(), reason: row.lastAuthFailureReason }
      : null,
});
