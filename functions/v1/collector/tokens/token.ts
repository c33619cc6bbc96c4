import * as v from "valibot";
import type { ListedToken } from "../../../../proto/operator/enrollment.ts";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import { tokenState } from "../../../domain/enrollment/bootstrap-token.ts";
import type { TokenRow } from "../../../store/enrollment/policies.ts";
import type { ListedTokenRow } from "../../../store/enrollment/report.ts";

const view = {
  id: Id,
  policy_id: Id,
  token_prefix: v.string(),
  description: v.nullable(v.string()),
  allowed_source_cidrs: v.array(v.string()),
  bound_device_id: v.nullable(v.string()),
  expires_at: IsoTimestamp,
  max_uses: v.number(),
  use_count: v.number(),
  last_used_at: v.nullable(IsoTimestamp),
  last_used_address: v.nullable(v.string()),
  state: v.picklist(["revoked", "expired", "exhausted", "active"]),
  created_at: IsoTimestamp,
  created_by: v.string(),
};

/** A bootstrap token in a response, without its raw value. */
export const TokenView = v.strictObject(view);

/** The response of a token's creation, the only one with the raw value. */
export const CreatedTokenView = v.strictObject({ ...view, token: v.string() });

/** Returns the view of a row at `now`. */
export const tokenView = (row: TokenRow, now: number): v.InferOutput<typeof TokenView> => ({
  id: row.id,
  policy_id: row.policyId,
  token_prefix: row.tokenPrefix,
  description: row.description,
  allowed_source_cidrs: row.allowedSourceCidrs,
  bound_device_id: row.boundDeviceId,
  expires_at: row.expiresAt.toISOString(),
  max_uses: row.maxUses,
  use_count: row.useCount,
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
  last_used_address: row.lastUsedAddress,
  state: tokenState(row, now),
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
});

/** Returns the view of a token, without its value or the hash of it. */
export const listedTokenView = (row: ListedTokenRow): ListedToken => ({
  id: row.id,
  policy_id: row.policyId,
  policy_name: row.policyName,
  token_prefix: row.tokenPrefix,
  description: row.description,
  allowed_source_cidrs: row.allowedSourceCidrs,
  bound_device_id: row.boundDeviceId,
  expires_at: row.expiresAt.toISOString(),
  max_uses: row.maxUses,
  use_count: row.useCount,
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
  last_used_address: row.lastUsedAddress,
  state: row.state,
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
  created_by_email: row.createdByEmail,
});
