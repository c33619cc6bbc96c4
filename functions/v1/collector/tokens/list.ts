import * as v from "valibot";
import { TokenPage, tokenStates } from "../../../../proto/operator/enrollment.ts";
import { Id, Repeatable } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { browseAllTokens } from "../../../domain/enrollment/enrollment-report.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import type { TokenFilter } from "../../../store/enrollment/report.ts";
import { listedTokenView } from "./token.ts";

const expected = "must be a state of a token";

/** The query fields that select tokens; `state` is repeatable. */
export const tokenFilterFields = {
  state: v.optional(
    Repeatable(v.picklist(tokenStates, expected), {
      ...{ expected, countMax: tokenStates.length, tooMany: "must be given at most once for each state" },
    }),
  ),
  policy_id: v.optional(Id),
};

/** Returns the filter of parsed query fields. */
export const tokenFilterOf = ({
  state: states,
  policy_id: policyId,
}: v.InferOutput<v.ObjectSchema<typeof tokenFilterFields, undefined>>): TokenFilter => ({ states, policyId });

/** `GET /v1/collector/tokens`: the bootstrap tokens of all policies, newest first, without their values. */
export const listAllTokensRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "all-tokens");
  return route({
    method: "GET",
    path: "/v1/collector/tokens",
    operationId: "listAllBootstrapTokens",
    summary: "The bootstrap tokens of all policies with their states, newest first",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...tokenFilterFields, ...listFields }),
    replies: { 200: { description: "A page of tokens", schema: TokenPage } },
    handle: ({ query }) => list(query, (page) => browseAllTokens(core, tokenFilterOf(query), page), listedTokenView),
  });
};
