import { sha256 } from "../../../kit/bytes.ts";
import { findTokenByHash } from "../../store/tokens.ts";
import type { Origin } from "../audit/record.ts";
import { isWellFormedToken, tokenPrefixCharacters } from "./bootstrap-token.ts";
import { Refusal, type RefusedUse, type RefusingCore, refusing } from "./refuse.ts";
import { admitUse } from "./reserve.ts";

/** A token that lives, under a policy that is open, from an address that both allow. */
export interface AdmittedToken {
  tokenId: string;
  tokenPrefix: string;
  policyId: string;
}

/** Admits the token that a caller presents; null: none. */
export type AdmitToken = (rawToken: string | null, origin: Origin) => Promise<AdmittedToken>;

/**
 * The token that a caller presents, before anything of its request is looked at: a stranger's body is not even read. Nothing is
 * used up, and the reservation and the issue check again. 401 `token_invalid`, 403 `policy_frozen` or `source_not_allowed`, 429
 * `throttled`.
 */
export const createAdmitToken = (core: RefusingCore): AdmitToken => {
  const findToken = createFindToken(core);
  return (rawToken, origin) => {
    const use: RefusedUse = { tokenId: null, tokenPrefix: null, policyId: null, identity: null };
    return refusing(core, use, origin, async () => {
      if (rawToken === null || !isWellFormedToken(rawToken)) {
        throw new Refusal("token_invalid", { reason: rawToken === null ? "token_missing" : "token_malformed" });
      }
      const tokenPrefix = rawToken.slice(0, tokenPrefixCharacters);
      use.tokenPrefix = tokenPrefix;
      const found = await findToken(await sha256(rawToken));
      use.tokenId = found?.token.id ?? null;
      use.policyId = found?.policy.id ?? null;
      const { token, policy } = admitUse(found?.policy, found?.token, origin.remoteAddress, core.clock.now());
      return { tokenId: token.id, tokenPrefix, policyId: policy.id };
    });
  };
};

/** A token by its hash. Requests at once share a look-up: what it says is decided on again under the policy's lock. */
const createFindToken = ({ db }: Pick<RefusingCore, "db">) => {
  const running = new Map<string, ReturnType<typeof findTokenByHash>>();
  return (tokenSha256: Uint8Array) => {
    const key = tokenSha256.toHex();
    const shared = running.get(key) ?? findTokenByHash(db, tokenSha256).finally(() => running.delete(key));
    running.set(key, shared);
    return shared;
  };
};
