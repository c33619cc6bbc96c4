import type { Reenrollment } from "#drizzle/schema/enrollment.ts";
import type { ConfiguredCore, Core, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import * as store from "#functions/store/enrollment/policies.ts";
import {
  insertPolicy,
  insertToken,
  listTokens,
  lockPolicy,
  lockToken,
  type PolicyRow,
  type TokenRow,
  updatePolicy,
  updateToken,
} from "#functions/store/enrollment/policies.ts";
import { sha256 } from "#kit/bytes.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { Secret } from "#kit/secret.ts";
import type { Labels } from "#proto/labels.ts";
import { certificateTtlSecondsMax, faultOfWorkload } from "#proto/operator/policy-draft.ts";
import type { WorkloadTerms } from "#proto/operator/workload.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";
import { generateToken, tokenPrefixCharacters } from "./bootstrap-token.ts";

/** A policy to create, with defaults applied. */
interface PolicyDraft {
  name: string;
  description: string | null;
  allowedIdentityPrefixes: string[];
  certificateTtlSeconds: number;
  allowedPlatforms: string[];
  maxEnrollments: number;
  maxEnrollmentsPerHour: number;
  allowedSourceCidrs: string[];
  reenrollment: Reenrollment;
  labels: Labels;
  workload: WorkloadTerms | null;
}

/**
 * Creates an enrollment policy; caps a TTL above 30 days. Throws 409 `policy_name_taken`, 422 `validation_failed` for an issuer that core
 * does not know.
 */
export const createPolicy = async (
  core: ConfiguredCore,
  by: By,
  draft: PolicyDraft,
): Promise<PolicyRow> => {
  const fault = faultOfWorkload(
    draft,
    core.config.workloadIssuers().map(({ issuer }) => issuer),
  );
  if (fault !== undefined) throw new Problem("validation_failed", { errors: [fault] });
  return core.db.transaction(async (tx) => {
    const policy = await insertPolicy(tx, {
      ...draft,
      id: uuidv7(core),
      certificateTtlSeconds: Math.min(draft.certificateTtlSeconds, certificateTtlSecondsMax),
      createdAt: new Date(core.clock.now()),
      createdBy: by.caller.userId,
    });
    if (policy === undefined) throw new Problem("policy_name_taken");
    await recordOperatorAction(tx, core, by, {
      action: "enrollment_policy.create",
      target: { type: "enrollment_policy", id: policy.id },
      details: {
        name: policy.name,
        allowed_identity_prefixes: policy.allowedIdentityPrefixes,
        certificate_ttl_seconds: policy.certificateTtlSeconds,
        allowed_platforms: policy.allowedPlatforms,
        max_enrollments: policy.maxEnrollments,
        max_enrollments_per_hour: policy.maxEnrollmentsPerHour,
        allowed_source_cidrs: policy.allowedSourceCidrs,
        reenrollment: policy.reenrollment,
        labels: policy.labels,
        workload: policy.workload,
      },
    });
    return policy;
  });
};

/** Freezes a policy; final and idempotent. Its tokens stop enrolling with the commit. Throws 404 `not_found`. */
export const freezePolicy = async (
  core: WriteCore,
  by: By,
  { policyId, reasonCode }: { policyId: string; reasonCode: string | null },
): Promise<PolicyRow> =>
  core.db.transaction(async (tx) => {
    const policy = requireFound(await lockPolicy(tx, policyId));
    if (policy.frozenAt !== null) return policy;
    const frozenAt = new Date(core.clock.now());
    await updatePolicy(tx, policyId, { frozenAt });
    await recordOperatorAction(tx, core, by, {
      action: "enrollment_policy.freeze",
      target: { type: "enrollment_policy", id: policyId },
      reasonCode,
    });
    return { ...policy, frozenAt };
  });

/** Returns the policy. Throws 404 `not_found`. */
export const getPolicy = async ({ db }: Pick<Core, "db">, id: string): Promise<store.PolicyRow> =>
  requireFound(await store.findPolicy(db, id));

/** Returns one page of a policy's tokens, newest first. Throws 404 `not_found` for an unknown policy. */
export const browseTokens = async (
  core: Pick<Core, "db">,
  policyId: string,
  page: PageRequest,
): Promise<Paged<TokenRow>> => {
  await getPolicy(core, policyId);
  return listTokens(core.db, policyId, page);
};

/** A token to create, with defaults applied. */
interface TokenDraft {
  policyId: string;
  ttlSeconds: number;
  maxUses: number;
  description: string | null;
  allowedSourceCidrs: string[];
  boundDeviceId: string | null;
}

/**
 * Creates a bootstrap token. Only this result has the raw value; the database stores its SHA-256 and a prefix. Throws 404 `not_found`, 409
 * `policy_frozen`.
 */
export const createToken = async (
  core: WriteCore,
  by: By,
  { ttlSeconds, ...draft }: TokenDraft,
): Promise<{ token: TokenRow; raw: Secret }> => {
  const raw = new Secret(generateToken(core.entropy));
  const tokenSha256 = await sha256(raw.reveal());
  return core.db.transaction(async (tx) => {
    const policy = requireFound(await lockPolicy(tx, draft.policyId));
    if (policy.frozenAt !== null) throw new Problem("policy_frozen", { kind: "conflict" });
    const now = core.clock.now();
    const token: TokenRow = {
      ...draft,
      id: uuidv7(core),
      tokenSha256,
      tokenPrefix: raw.reveal().slice(0, tokenPrefixCharacters),
      useCount: 0,
      lastUsedAt: null,
      lastUsedAddress: null,
      expiresAt: new Date(now + ttlSeconds * 1000),
      revokedAt: null,
      createdAt: new Date(now),
      createdBy: by.caller.userId,
      attestation: null,
    };
    await insertToken(tx, token);
    await recordOperatorAction(tx, core, by, {
      action: "bootstrap_token.create",
      target: { type: "bootstrap_token", id: token.id },
      details: {
        policy_id: token.policyId,
        token_prefix: token.tokenPrefix,
        max_uses: token.maxUses,
        expires_at: token.expiresAt.toISOString(),
        allowed_source_cidrs: token.allowedSourceCidrs,
        bound_device_id: token.boundDeviceId,
      },
    });
    return { token, raw };
  });
};

/** Revokes a bootstrap token; idempotent. It enrolls no host after the commit. Throws 404 `not_found`. */
export const revokeToken = async (
  core: WriteCore,
  by: By,
  { tokenId, reasonCode }: { tokenId: string; reasonCode: string | null },
): Promise<TokenRow> =>
  core.db.transaction(async (tx) => {
    const token = requireFound(await lockToken(tx, tokenId));
    if (token.revokedAt !== null) return token;
    const revokedAt = new Date(core.clock.now());
    await updateToken(tx, tokenId, { revokedAt });
    await recordOperatorAction(tx, core, by, {
      action: "bootstrap_token.revoke",
      target: { type: "bootstrap_token", id: tokenId },
      reasonCode,
      details: { policy_id: token.policyId, token_prefix: token.tokenPrefix },
    });
    return { ...token, revokedAt };
  });
