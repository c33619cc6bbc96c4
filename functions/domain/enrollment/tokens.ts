import type { WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  insertToken,
  lockPolicy,
  lockToken,
  type TokenRow,
  updateToken,
} from "#functions/store/enrollment/policies.ts";
import { sha256 } from "#kit/bytes.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { Secret } from "#kit/secret.ts";
import { type Origin, recordOperatorAction } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import { generateToken, tokenPrefixCharacters } from "./bootstrap-token.ts";

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
  operator: Operator,
  { ttlSeconds, ...draft }: TokenDraft,
  origin: Origin,
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
      createdBy: operator.userId,
      attestation: null,
    };
    await insertToken(tx, token);
    await recordOperatorAction(tx, core, operator, origin, {
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
  operator: Operator,
  { tokenId, reasonCode }: { tokenId: string; reasonCode: string | null },
  origin: Origin,
): Promise<TokenRow> =>
  core.db.transaction(async (tx) => {
    const token = requireFound(await lockToken(tx, tokenId));
    if (token.revokedAt !== null) return token;
    const revokedAt = new Date(core.clock.now());
    await updateToken(tx, tokenId, { revokedAt });
    await recordOperatorAction(tx, core, operator, origin, {
      action: "bootstrap_token.revoke",
      target: { type: "bootstrap_token", id: tokenId },
      reasonCode,
      details: { policy_id: token.policyId, token_prefix: token.tokenPrefix },
    });
    return { ...token, revokedAt };
  });
