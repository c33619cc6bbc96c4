import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { recordProviderLogout } from "#functions/domain/audit/record-sign-in.ts";
import { webItself } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { Identifier, StoredTimestamp } from "#proto/values.ts";
import { RemoteAddress } from "../shapes.ts";

const ProviderLogoutBody = v.strictObject({
  jti: Identifier(255),
  subject: v.nullish(Identifier(255), null),
  provider_session_id: v.nullish(Identifier(255), null),
  expires_at: StoredTimestamp,
  remote_addr: RemoteAddress,
});

/** `POST /v1/operator/provider-logouts`: web reports a logout token of the identity provider, which ends sessions at every web. */
export const recordProviderLogoutRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/operator/provider-logouts",
    operationId: "recordProviderLogout",
    summary:
      "End the sessions at web that a logout token of the identity provider names; the same token again ends no more",
    guard: webItself(core),
    body: ProviderLogoutBody,
    bodyExample: {
      jti: "lt-7f3a",
      subject: "100000000000000000012",
      provider_session_id: "08a5019c-17e1-4977-8f42-65a12843ea02",
      expires_at: "2026-06-01T20:03:00.000Z",
      remote_addr: "192.0.2.9",
    },
    replies: { 204: { description: "The sessions have ended, if there were any" } },
    problems: ["forbidden", "logout_token_replayed"],
    handle: async ({ body, origin }) => {
      const {
        jti,
        subject,
        provider_session_id: providerSessionId,
        expires_at,
        remote_addr: remoteAddress,
      } = body;
      const logout = {
        jti,
        subject,
        providerSessionId,
        expiresAt: new Date(expires_at),
        remoteAddress,
      };
      await recordProviderLogout(core, logout, origin);
      return { status: 204 };
    },
  });
