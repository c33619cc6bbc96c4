import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  recordProviderLogout,
  recordSignIn,
  recordSignOut,
} from "#functions/domain/audit/web-sessions.ts";
import { resource, web, webItself } from "#functions/http/resource.ts";
import { ReasonCode } from "#functions/http/route.ts";
import { Id, Identifier, inCamelCase, StoredTimestamp } from "#proto/values.ts";
import { RemoteAddress, WebSessionId } from "../shapes.ts";

const SignInBody = v.variant(
  "outcome",
  [
    v.strictObject({
      outcome: v.literal("success"),
      remote_addr: RemoteAddress,
      session: v.nullish(
        v.strictObject({
          id: WebSessionId,
          expires_at: StoredTimestamp,
          provider_session_id: v.nullish(Identifier(255), null),
        }),
        null,
      ),
    }),
    v.strictObject({
      outcome: v.literal("failure"),
      reason_code: ReasonCode,
      remote_addr: RemoteAddress,
      user_id: v.nullish(Id, null),
      subject: v.nullish(Identifier(255), null),
    }),
  ],
  "must be success or failure",
);

const SignOutBody = v.strictObject({
  session_id: WebSessionId,
  user_id: Id,
  expires_at: StoredTimestamp,
  remote_addr: RemoteAddress,
});

const ProviderLogoutBody = v.strictObject({
  jti: Identifier(255),
  subject: v.nullish(Identifier(255), null),
  provider_session_id: v.nullish(Identifier(255), null),
  expires_at: StoredTimestamp,
  remote_addr: RemoteAddress,
});

/** The routes with which web reports the sessions of people at web: for the audit log, and for every other web. */
export const webReports = (core: ConfiguredCore) =>
  resource(core, "/v1/operator", ({ act }) => ({
    recordSignIn: act(
      "/sign-ins",
      "Record a sign-in at web: a success with the person's bridge token, a failure with web's own",
      {
        by: web(core),
        status: 204,
        body: SignInBody,
        bodyExample: { outcome: "failure", reason_code: "suspended", remote_addr: "192.0.2.7" },
        returns: ["Recorded"],
        problems: ["forbidden"],
        handle: ({ body, caller, origin }) => recordSignIn(core, caller, signInOf(body), origin),
      },
    ),

    recordSignOut: act("/sign-outs", "End a session at web, for every web; idempotent", {
      by: webItself(core),
      status: 204,
      body: SignOutBody,
      bodyExample: {
        session_id: "bq3fTr0Hc1uV9kX2mZ8sYw5nQd7eLp4aGj6oWiKtRxE",
        user_id: "01920000-0000-7000-8000-00000000000a",
        expires_at: "2026-06-01T20:00:00.000Z",
        remote_addr: "192.0.2.7",
      },
      returns: ["The session has ended"],
      problems: ["forbidden"],
      handle: ({ body, origin }) => recordSignOut(core, reportOf(body), origin),
    }),

    recordProviderLogout: act(
      "/provider-logouts",
      "End the sessions at web that a logout token of the identity provider names; the same token again ends no more",
      {
        by: webItself(core),
        status: 204,
        body: ProviderLogoutBody,
        bodyExample: {
          jti: "lt-7f3a",
          subject: "100000000000000000012",
          provider_session_id: "08a5019c-17e1-4977-8f42-65a12843ea02",
          expires_at: "2026-06-01T20:03:00.000Z",
          remote_addr: "192.0.2.9",
        },
        returns: ["The sessions have ended, if there were any"],
        problems: ["forbidden", "logout_token_replayed"],
        handle: ({ body, origin }) => recordProviderLogout(core, reportOf(body), origin),
      },
    ),
  }));

/** Returns the end of sessions that a body reports. */
const reportOf = <Body extends { expires_at: string; remote_addr: string }>(body: Body) => ({
  ...inCamelCase(body),
  expiresAt: new Date(body.expires_at),
  remoteAddress: body.remote_addr,
});

const signInOf = (body: v.InferOutput<typeof SignInBody>) => {
  const { outcome, remote_addr: remoteAddress } = body;
  if (outcome === "failure") {
    const { reason_code: reasonCode, user_id: userId, subject } = body;
    return { outcome, remoteAddress, reasonCode, userId, subject };
  }
  const session = body.session && {
    id: body.session.id,
    expiresAt: new Date(body.session.expires_at),
    providerSessionId: body.session.provider_session_id,
  };
  return { outcome, remoteAddress, session };
};
