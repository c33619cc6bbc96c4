import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { recordSignIn } from "#functions/domain/audit/record-sign-in.ts";
import { web } from "#functions/http/resource.ts";
import { ReasonCode, route } from "#functions/http/route.ts";
import { Id, Identifier, StoredTimestamp } from "#proto/values.ts";
import { RemoteAddress, WebSessionId } from "../shapes.ts";

const SessionBody = v.strictObject({
  id: WebSessionId,
  expires_at: StoredTimestamp,
  provider_session_id: v.nullish(Identifier(255), null),
});

const SignInBody = v.variant(
  "outcome",
  [
    v.strictObject({
      outcome: v.literal("success"),
      remote_addr: RemoteAddress,
      session: v.nullish(SessionBody, null),
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

/** `POST /v1/operator/sign-ins`: web reports the outcome of a sign-in, for the audit log. */
export const recordSignInRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/operator/sign-ins",
    operationId: "recordSignIn",
    summary:
      "Record a sign-in at web: a success with the person's bridge token, a failure with web's own",
    guard: web(core),
    body: SignInBody,
    bodyExample: { outcome: "failure", reason_code: "suspended", remote_addr: "192.0.2.7" },
    replies: { 204: { description: "Recorded" } },
    problems: ["forbidden"],
    handle: async ({ body, caller, origin }) => {
      const { remote_addr: remoteAddress } = body;
      const signIn =
        body.outcome === "success"
          ? {
              outcome: body.outcome,
              remoteAddress,
              session: body.session && sessionOf(body.session),
            }
          : {
              outcome: body.outcome,
              reasonCode: body.reason_code,
              remoteAddress,
              userId: body.user_id,
              subject: body.subject,
            };
      await recordSignIn(core, caller, signIn, origin);
      return { status: 204 };
    },
  });

const sessionOf = ({
  id,
  expires_at,
  provider_session_id: providerSessionId,
}: v.InferOutput<typeof SessionBody>) => ({
  id,
  expiresAt: new Date(expires_at),
  providerSessionId,
});
