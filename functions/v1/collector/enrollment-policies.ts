import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  tokenState,
  tokenTtlSecondsDefault,
  tokenTtlSecondsMax,
} from "#functions/domain/enrollment/bootstrap-token.ts";
import {
  browseTokens,
  createPolicy,
  createToken,
  freezePolicy,
  getPolicy,
  revokeToken,
} from "#functions/domain/enrollment/policies.ts";
import { reasonBody, resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { PolicyRow, TokenRow } from "#functions/store/enrollment/policies.ts";
import { ListedPolicy, ListedToken } from "#proto/operator/enrollment.ts";
import { Cidrs, PolicyDraftBody } from "#proto/operator/policy-draft.ts";
import { Count, Identifier, inCamelCase, PageOf, Prose } from "#proto/values.ts";

/** A policy in a response. */
export const PolicyView = v.omit(ListedPolicy, ["created_by_email", "tokens"]);

/** A bootstrap token in a response, without its raw value. Its state does not depend on whether its policy is frozen. */
export const TokenView = v.strictObject({
  ...v.omit(ListedToken, ["policy_name", "created_by_email"]).entries,
  state: v.picklist(["revoked", "expired", "exhausted", "active"]),
});

const CreatedTokenView = v.strictObject({ ...TokenView.entries, token: v.string() });

const TokenDraftBody = v.strictObject({
  ttl_seconds: v.optional(
    v.pipe(
      Count(),
      v.maxValue(tokenTtlSecondsMax, `must be at most ${tokenTtlSecondsMax}`),
      v.description(`0 means ${tokenTtlSecondsDefault}: an hour`),
    ),
    0,
  ),
  max_uses: v.optional(
    v.pipe(Count(), v.description("0 means unlimited until the token expires")),
    1,
  ),
  description: v.optional(v.nullable(Prose(1000)), null),
  allowed_source_cidrs: Cidrs,
  bound_device_id: v.optional(v.nullable(Identifier(128)), null),
});

/** The routes of enrollment policies and their bootstrap tokens. */
export const enrollmentPolicyRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/enrollment-policies", ({ list, get, post, act }) => ({
    getEnrollmentPolicy: get("/:id", "One enrollment policy", {
      returns: ["The policy", PolicyView],
      handle: async ({ params }) => policyView(await getPolicy(core, params.id)),
    }),

    createEnrollmentPolicy: post("", "Create an enrollment policy", {
      body: PolicyDraftBody,
      bodyExample: {
        name: "web servers",
        allowed_identity_prefixes: ["spiffe://fleet.example/host/"],
        max_enrollments: 40,
      },
      returns: ["The policy; a TTL above 30 days is capped", PolicyView],
      problems: ["policy_name_taken"],
      handle: async ({ body, ...by }) =>
        policyView(await createPolicy(core, by, inCamelCase(body))),
    }),

    freezeEnrollmentPolicy: act(
      "/:id/freeze",
      "Freeze an enrollment policy; final and idempotent, renewals continue",
      {
        ...reasonBody("rollout_done"),
        returns: ["The frozen policy", PolicyView],
        handle: async ({ params, body, ...by }) => {
          const change = { policyId: params.id, ...body };
          return policyView(await freezePolicy(core, by, change));
        },
      },
    ),

    listBootstrapTokens: list("/:id/tokens", "The bootstrap tokens of a policy, newest first", {
      returns: ["A page of tokens", PageOf(TokenView)],
      find: (page, { params }) => browseTokens(core, params.id, page),
      view: (row) => tokenView(row, core.clock.now()),
    }),

    createBootstrapToken: post(
      "/:id/tokens",
      "Create a bootstrap token; only this response has its raw value",
      {
        body: TokenDraftBody,
        bodyAbsentAs: {},
        bodyExample: { ttl_seconds: 900, max_uses: 20 },
        returns: ["The token", CreatedTokenView],
        problems: [{ code: "policy_frozen", kind: "conflict" }],
        handle: async ({ params, body, ...by }) => {
          const members = inCamelCase(body);
          const draft = {
            ...members,
            policyId: params.id,
            ttlSeconds: members.ttlSeconds || tokenTtlSecondsDefault,
          };
          const { token, raw } = await createToken(core, by, draft);
          return { ...tokenView(token, core.clock.now()), token: raw.reveal() };
        },
      },
    ),
  }));

/** The routes of a bootstrap token, by its own id. */
export const tokenRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/tokens", ({ act }) => ({
    revokeBootstrapToken: act("/:id/revoke", "Revoke a bootstrap token; idempotent", {
      ...reasonBody("leaked"),
      returns: ["The revoked token", TokenView],
      handle: async ({ params, body, ...by }) => {
        const change = { tokenId: params.id, ...body };
        return tokenView(await revokeToken(core, by, change), core.clock.now());
      },
    }),
  }));

const policyOf = viewOf(PolicyView);
const tokenOf = viewOf(TokenView);

const policyView = (row: PolicyRow) =>
  policyOf({ ...row, state: row.frozenAt === null ? "active" : "frozen" });

const tokenView = (row: TokenRow, now: number) => tokenOf({ ...row, state: tokenState(row, now) });
