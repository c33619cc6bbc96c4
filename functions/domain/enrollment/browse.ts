import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import type { Page, Paged } from "../../store/page.ts";
import * as store from "../../store/policies.ts";
import { listTokens, type TokenRow } from "../../store/tokens.ts";

/** One page of the policies, newest first. */
export const browsePolicies = ({ db }: Pick<Core, "db">, page: Page): Promise<Paged<store.PolicyRow>> =>
  store.listPolicies(db, page);

/** The policy. 404 `not_found`. */
export const getPolicy = async ({ db }: Pick<Core, "db">, id: string): Promise<store.PolicyRow> => {
  const policy = await store.findPolicy(db, id);
  if (policy === undefined) throw new Problem("not_found");
  return policy;
};

/** One page of a policy's tokens, newest first. 404 `not_found` for a policy that is not there. */
export const browseTokens = async (core: Pick<Core, "db">, policyId: string, page: Page): Promise<Paged<TokenRow>> => {
  await getPolicy(core, policyId);
  return listTokens(core.db, policyId, page);
};
