import * as v from "valibot";
import { Identifier, Platform, Sha256Hex } from "../../../../proto/management/text.ts";
import type { Core } from "../../../core.ts";
import { simulateEnrollment } from "../../../domain/enrollment/simulate.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams, RemoteAddress } from "../../shapes.ts";
import { IdentityPrefix } from "./policy.ts";

const SimulationBody = v.strictObject({
  device_id: Identifier(128),
  address: v.pipe(RemoteAddress, v.description("the host's address, as core sees it: behind a proxy, the proxy's")),
  platform: Platform,
  identity_prefix: v.optional(v.pipe(IdentityPrefix, v.description("absent: the policy's first"))),
  token_sha256: v.optional(
    v.pipe(Sha256Hex, v.description("of a bootstrap token; absent: the rules of tokens do not apply")),
  ),
});

const SimulationView = v.strictObject({
  allowed: v.boolean(),
  identity: v.string(),
  code: v.pipe(v.nullable(v.string()), v.description("the problem code that enrollment would answer with")),
  rule: v.pipe(v.nullable(v.string()), v.description("the first rule that refuses")),
  detail: v.string(),
  checks: v.array(
    v.strictObject({
      rule: v.string(),
      outcome: v.picklist(["passed", "refused", "not_applicable"]),
      detail: v.string(),
    }),
  ),
});

/** `POST /v1/collector/enrollment-policies/{id}/simulation`: whether a device could enroll, by the rules of enrollment; changes nothing. */
export const simulateEnrollmentRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "POST",
    path: "/v1/collector/enrollment-policies/:id/simulation",
    operationId: "simulateEnrollment",
    summary:
      "Whether a device could enroll under a policy, and the rule that decides; changes nothing and spends no token",
    guard: scope(core, "audit"),
    params: IdParams,
    body: SimulationBody,
    bodyExample: { device_id: "web-01", address: "10.1.2.3", platform: "linux/amd64" },
    replies: {
      200: { description: "The decision, and the result of each rule in their order", schema: SimulationView },
    },
    problems: ["not_found"],
    handle: async ({ params, body }) => {
      const { identity_prefix: identityPrefix = null, token_sha256: tokenSha256 } = body;
      const simulation = await simulateEnrollment(core, {
        policyId: params.id,
        deviceId: body.device_id,
        remoteAddress: body.address,
        platform: body.platform,
        identityPrefix,
        tokenSha256: tokenSha256 === undefined ? null : Uint8Array.fromHex(tokenSha256),
      });
      return { status: 200, body: simulation };
    },
  });
