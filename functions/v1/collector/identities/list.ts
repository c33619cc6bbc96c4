import * as v from "valibot";
import { Identifier } from "../../../../proto/management/text.ts";
import { Id } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { browseIdentities } from "../../../domain/certificate/identities.ts";
import { scope } from "../../../http/guards.ts";
import { createList, ListView, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import { IdentityView, identityView } from "./identity.ts";

const Query = v.strictObject({
  q: v.optional(Identifier(256)),
  status: v.optional(v.picklist(["active", "revoked"], "must be active or revoked")),
  policy_id: v.optional(Id),
  token_id: v.optional(Id),
  ...listFields,
});

/** `GET /v1/collector/identities`: the enrolled hosts, newest first. */
export const listIdentitiesRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "identities");
  return route({
    method: "GET",
    path: "/v1/collector/identities",
    operationId: "listCollectorIdentities",
    summary: "Collector identities, newest first",
    guard: scope(core, "admin"),
    query: Query,
    replies: { 200: { description: "A page of identities", schema: ListView(IdentityView) } },
    handle: ({ query: { q: text, status, policy_id: policyId, token_id: tokenId, ...query } }) =>
      list(query, (page) => browseIdentities(core, { text, status, policyId, tokenId }, page), identityView),
  });
};
