import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { simulateEnrollment } from "#functions/domain/enrollment/simulate.ts";
import { resource } from "#functions/http/resource.ts";
import { Problem } from "#functions/problems.ts";
import { RemoteAddress } from "#functions/v1/shapes.ts";
import { IdentityPrefix } from "#proto/operator/policy-draft.ts";
import { Identifier, inCamelCase, Platform, Sha256Hex, TextOrNull } from "#proto/values.ts";

const SimulationBody = v.strictObject({
  device_id: v.optional(
    v.pipe(
      Identifier(128),
      v.description("absent: that of the service account token, which is required then"),
    ),
  ),
  address: v.pipe(
    RemoteAddress,
    v.description("the host's address, as core sees it: behind a proxy, the proxy's"),
  ),
  platform: Platform,
  identity_prefix: v.optional(v.pipe(IdentityPrefix, v.description("absent: the policy's first"))),
  token_sha256: v.optional(
    v.pipe(
      Sha256Hex,
      v.description("of a bootstrap token, or of a service account token without its signature"),
    ),
  ),
  token_claims: v.optional(
    v.pipe(
      v.record(v.string(), v.unknown(), "must be an object of claims"),
      v.description("the payload of a service account token; its signature is not checked"),
    ),
  ),
});

const SimulationView = v.strictObject({
  allowed: v.boolean(),
  identity: v.pipe(TextOrNull, v.description("null: the service account token names no device")),
  labels: v.pipe(
    v.record(v.string(), v.string()),
    v.description("those that the policy would give the host"),
  ),
  code: v.pipe(TextOrNull, v.description("the problem code that enrollment would answer with")),
  rule: v.pipe(TextOrNull, v.description("the first rule that refuses")),
  detail: v.string(),
  checks: v.array(
    v.strictObject({
      rule: v.string(),
      outcome: v.picklist(["passed", "refused", "not_applicable"]),
      detail: v.string(),
    }),
  ),
});

/** The route that decides by the rules of enrollment, and changes nothing. */
export const enrollmentSimulation = (core: ReadCore) =>
  resource(core, "/v1/collector/enrollment-policies", ({ act }) => ({
    simulateEnrollment: act(
      "/:id/simulation",
      "Whether a device could enroll under a policy, and the rule that decides; changes nothing and spends no token",
      {
        by: "audit",
        body: SimulationBody,
        bodyExample: { device_id: "web-01", address: "10.1.2.3", platform: "linux/amd64" },
        returns: ["The decision, and the result of each rule in their order", SimulationView],
        handle: async ({ params, body }) => {
          const {
            address: remoteAddress,
            platform,
            deviceId = null,
            identityPrefix = null,
            tokenSha256,
            tokenClaims: payload = null,
          } = inCamelCase(body);
          if (deviceId === null && payload === null)
            throw new Problem("validation_failed", {
              errors: [{ path: "device_id", message: "is required" }],
            });
          return simulateEnrollment(core, {
            policyId: params.id,
            deviceId,
            remoteAddress,
            platform,
            identityPrefix,
            tokenSha256: tokenSha256 === undefined ? null : Uint8Array.fromHex(tokenSha256),
            payload,
          });
        },
      },
    ),
  }));
