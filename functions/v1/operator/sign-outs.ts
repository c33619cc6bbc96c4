import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { recordSignOut } from "#functions/domain/audit/record-sign-out.ts";
import { webItself } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { Id, StoredTimestamp } from "#proto/values.ts";
import { RemoteAddress, WebSessionId } from "../shapes.ts";

const SignOutBody = v.strictObject({
  session_id: WebSessionId,
  user_id: Id,
  expires_at: StoredTimestamp,
  remote_addr: RemoteAddress,
});

/** `POST /v1/operator/sign-outs`: web reports that a person signed out, which ends that session at every web. */
export const recordSignOutRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/operator/sign-outs",
    operationId: "recordSignOut",
    summary: "End a session at web, for every web; idempotent",
    guard: webItself(core),
    body: SignOutBody,
    bodyExample: {
      session_id: "bq3fTr0Hc1uV9kX2mZ8sYw5nQd7eLp4aGj6oWiKtRxE",
      user_id: "01920000-0000-7000-8000-00000000000a",
      expires_at: "2026-06-01T20:00:00.000Z",
      remote_addr: "192.0.2.7",
    },
    replies: { 204: { description: "The session has ended" } },
    problems: ["forbidden"],
    handle: async ({ body, origin }) => {
      const {
        session_id: sessionId,
        user_id: userId,
        expires_at,
        remote_addr: remoteAddress,
      } = body;
      await recordSignOut(
        core,
        { sessionId, userId, expiresAt: new Date(expires_at), remoteAddress },
        origin,
      );
      return { status: 204 };
    },
  });
