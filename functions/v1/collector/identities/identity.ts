import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import { viewOf } from "../../../http/view-of.ts";
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

const view = viewOf(IdentityView);

/** Returns the view of a row. */
export const identityView = (row: IdentityRow): v.InferOutput<typeof IdentityView> => {
  const { lastAuthFailureAt: at, lastAuthFailureReason: reason } = row;
  return view({
    ...row,
    status: row.revokedAt === null ? "active" : "revoked",
    lastAuthFailure: at !== null && reason !== null ? { at: at.toISOString(), reason } : null,
  });
};
