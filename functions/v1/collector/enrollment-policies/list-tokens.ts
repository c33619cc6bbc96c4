import * as v from "valibot";
import type { Core } from "../../../core.ts";
import { browseTokens } from "../../../domain/enrollment/policies.ts";
import { scope } from "../../../http/guards.ts";
import { createList, ListView, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import type { TokenRow } from "../../../store/enrollment/policies.ts";
import { IdParams } from "../../shapes.ts";
import { TokenView, tokenView } from "../tokens/token.ts";

/** `GET /v1/collector/enrollment-policies/{id}/tokens`: a policy's tokens, newest first, without their raw values. */
export const listTokensRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "tokens");
  return route({
    method: "GET",
    path: "/v1/collector/enrollment-policies/:id/tokens",
    operationId: "listBootstrapTokens",
    summary: "The bootstrap tokens of a policy, newest first",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject(listFields),
    replies: { 200: { description: "A page of tokens", schema: ListView(TokenView) } },
    problems: ["not_found"],
    handle: async ({ params, query }) => {
      const view = (token: TokenRow) => tokenView(token, core.clock.now());
      return list(query, (page) => browseTokens(core, params.id, page), view);
    },
  });
};
