import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { lockToken, type TokenRow, updateTokenRevoked } from "../../store/tokens.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/record.ts";
import type { Operator } from "../operator/operator.ts";

/** Revokes a bootstrap token, idempotently: it enrolls nobody after the commit. 404 `not_found`. */
export const revokeToken = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  { tokenId, reasonCode }: { tokenId: string; reasonCode: string | null },
  origin: Origin,
): Promise<TokenRow> =>
  db.transaction(async (tx) => {
    const token = await lockToken(tx, tokenId);
    if (token === undefined) throw new Problem("not_found");
    if (token.revokedAt !== null) return token;
    const revokedAt = new Date(clock.now());
    await updateTokenRevoked(tx, tokenId, revokedAt);
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: operatorActor(operator),
        action: "bootstrap_token.revoke",
        target: { type: "bootstrap_token", id: tokenId },
        outcome: "success",
        reasonCode,
        origin,
        details: { policy_id: token.policyId, token_prefix: token.tokenPrefix },
      },
    );
    return { ...token, revokedAt };
  });
