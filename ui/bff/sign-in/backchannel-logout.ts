import { errors } from "jose";
import * as v from "valibot";
import { rfc3339 } from "#kit/clock.ts";
import type { CoreClient } from "../core-client.ts";
import type { RefusalLimit } from "../limit-address.ts";
import { WebProblem } from "../problems.ts";
import { readForm } from "../read-request.ts";
import type { Handler } from "../request.ts";
import type { Web } from "../web.ts";
import { type Provider, ProviderUnavailable } from "./provider.ts";
import type { ReportSignOut } from "./sign-outs.ts";

/** The path of the back-channel logout URI, registered at the provider under the origin of `WEBAUTH_URL`. */
export const backchannelLogoutPath = "/api/auth/backchannel-logout";

/**
 * Creates the handler of logout tokens (OpenID Connect Back-Channel Logout 1.0): 200 once core has ended the sessions, also if there were
 * none, and for the same token again. Throws 400 `logout_token_invalid` and `logout_token_replayed`, and 429 `rate_limited` for an address
 * after too many of them.
 */
export const createBackchannelLogout =
  (
    { config, clock, log }: Pick<Web, "config" | "clock" | "log">,
    parts: {
      provider: Provider;
      core: CoreClient;
      refusals: RefusalLimit;
      reportSignOut: ReportSignOut;
    },
  ): Handler =>
  async (c) => {
    const { provider, core, refusals, reportSignOut } = parts;
    const requestId = c.get("requestId");
    const remoteAddress = c.get("remoteAddress");
    const refuse = (
      code: "logout_token_invalid" | "logout_token_replayed",
      description?: string,
      cause?: unknown,
    ) => {
      // Only a rejected token counts: the provider may share the address of an attacker.
      refusals.check(remoteAddress);
      refusals.recordRefusal(remoteAddress);
      log.warn({ request_id: requestId, code, err: cause }, "logout token refused");
      return new WebProblem(code, {
        // The members of RFC 6749 (5.2), which providers read.
        extensions: { error: "invalid_request", error_description: description ?? code },
        ...(description === undefined ? {} : { detail: description }),
      });
    };
    const { logout_token: token = "" } = await readForm(c);
    const logout = await provider.loggedOutBy(token).catch((cause: unknown) => {
      if (cause instanceof ProviderUnavailable)
        throw new WebProblem("identity_provider_unavailable", { cause });
      throw refuse("logout_token_invalid", faultOf(cause), cause);
    });
    const expiresAt = clock.now() / 1000 + config.sessionTtlSeconds;
    const { jti, subject } = logout;
    const body = {
      jti,
      subject,
      provider_session_id: logout.providerSessionId,
      expires_at: rfc3339(logout.expiresAt * 1000),
      remote_addr: remoteAddress,
    };
    const record = async () =>
      (await core.report("provider-logouts", body, { requestId, accepts: [409] })).ok;
    if (!(await reportSignOut(record, { key: `token ${jti}`, requestId, expiresAt })))
      throw refuse("logout_token_replayed");
    log.info({ request_id: requestId }, "signed out by the identity provider");
    return c.body(null, 200);
  };

/** Describes the fault of a token without quoting it. */
const faultOf = (cause: unknown): string => {
  if (cause instanceof errors.JWTClaimValidationFailed || cause instanceof errors.JWTExpired)
    return `The logout token's claim ${cause.claim} is not valid`;
  if (v.isValiError(cause))
    return `The logout token's claim ${v.getDotPath(cause.issues[0])} is not valid`;
  if (cause instanceof errors.JOSEError)
    return "The logout token is not signed by the identity provider";
  return `The logout token names ${cause instanceof Error ? cause.message : "nobody"}`;
};
