import * as v from "valibot";
import { Identifier, Prose } from "../../../../proto/management/text.ts";
import { Cidrs } from "../../../../proto/operator/policy-draft.ts";
import { Count } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { tokenTtlSecondsDefault, tokenTtlSecondsMax } from "../../../domain/enrollment/bootstrap-token.ts";
import { createToken } from "../../../domain/enrollment/tokens.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { inCamelCase } from "../../../http/view-of.ts";
import { IdParams } from "../../shapes.ts";
import { CreatedTokenView, tokenView } from "../tokens/token.ts";

const TokenDraftBody = v.strictObject({
  ttl_seconds: v.optional(
    v.pipe(
      Count(),
      v.maxValue(tokenTtlSecondsMax, `must be at most ${tokenTtlSecondsMax}`),
      v.description(`0 means ${tokenTtlSecondsDefault}: an hour`),
    ),
    0,
  ),
  max_uses: v.optional(v.pipe(Count(), v.description("0 means unlimited until the token expires")), 1),
  description: v.optional(v.nullable(Prose(1000)), null),
  allowed_source_cidrs: Cidrs,
  bound_device_id: v.optional(v.nullable(Identifier(128)), null),
});

/** `POST /v1/collector/enrollment-policies/{id}/tokens`: creates a bootstrap token, which only this response shows. */
export const createTokenRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/enrollment-policies/:id/tokens",
    operationId: "createBootstrapToken",
    summary: "Create a bootstrap token; only this response has its raw value",
    guard: scope(core, "admin"),
    params: IdParams,
    body: TokenDraftBody,
    bodyAbsentAs: {},
    bodyExample: { ttl_seconds: 900, max_uses: 20 },
    replies: { 201: { description: "The token", schema: CreatedTokenView } },
    problems: ["not_found", { code: "policy_frozen", kind: "conflict" }],
    handle: async ({ params, body, caller, origin }) => {
      const members = inCamelCase(body);
      const draft = { ...members, policyId: params.id, ttlSeconds: members.ttlSeconds || tokenTtlSecondsDefault };
      const { token, raw } = await createToken(core, caller, draft, origin);
      return { status: 201, body: { ...tokenView(token, core.clock.now()), token: raw.reveal() } };
    },
  });
