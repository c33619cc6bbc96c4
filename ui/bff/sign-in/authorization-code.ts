import { CodeChallengeMethod, OAuth2Client, OAuth2RequestError } from "arctic";
import { withTimeout } from "#kit/clock.ts";
import type { Web } from "../web.ts";
import type { Attempt } from "./attempt.ts";

/** The authorization code flow with PKCE (RFC 6749, RFC 7636). The only file that imports arctic. */
export type AuthorizationCode = ReturnType<typeof createAuthorizationCode>;

/** Reports that the provider rejected the code: used, expired, of another client, or with the wrong PKCE verifier. */
export class CodeRejected extends Error {
  override readonly name = "CodeRejected";
}

const exchangeTimeoutMs = 5000;

/** RFC 6749, 2.3.1: id and secret are form-encoded before they are joined for Basic. arctic leaves that to its caller. */
const formEncoded = (value: string) => new URLSearchParams([["", value]]).toString().slice(1);

/** Creates the flow of one client, which authenticates with `client_secret_basic`. */
export const createAuthorizationCode = ({ config, clock }: Pick<Web, "config" | "clock">) => {
  const { clientId, clientSecret } = config.identityProvider;
  const redirectUri = `${config.origin}${callbackPath}`;
  const browser = new OAuth2Client(clientId, null, redirectUri);
  const confidential = () =>
    new OAuth2Client(formEncoded(clientId), formEncoded(clientSecret.reveal()), redirectUri);
  return {
    /**
     * Returns the address to redirect the browser to, with the hash of `codeVerifier`. `prompts` are OpenID Connect's. With `maxAgeSeconds`,
     * the provider authenticates a person again if the last time was longer ago, and reports the time.
     */
    url: (
      endpoint: string,
      { state, nonce, codeVerifier }: Attempt,
      {
        prompts,
        maxAgeSeconds,
      }: {
        prompts: readonly ("login" | "select_account")[];
        maxAgeSeconds?: number | undefined;
      },
    ): URL => {
      const scopes = ["openid", "email", "profile"];
      const { S256 } = CodeChallengeMethod;
      const url = browser.createAuthorizationURLWithPKCE(
        endpoint,
        state,
        S256,
        codeVerifier,
        scopes,
      );
      url.searchParams.set("nonce", nonce);
      if (prompts.length > 0) url.searchParams.set("prompt", prompts.join(" "));
      if (maxAgeSeconds !== undefined) url.searchParams.set("max_age", String(maxAgeSeconds));
      return url;
    },
    /**
     * Exchanges a code for an id_token. Throws `CodeRejected` when the provider rejects the code, and another error when it does not
     * answer in five seconds or answers with anything else.
     */
    // arctic's requests cannot be aborted: the process's dispatcher ends abandoned ones (limit-outgoing-requests.ts).
    exchange: async (
      endpoint: string,
      { code, codeVerifier }: { code: string; codeVerifier: string },
    ): Promise<string> => {
      try {
        const request = confidential().validateAuthorizationCode(endpoint, code, codeVerifier);
        return (await withTimeout(exchangeTimeoutMs, clock, request)).idToken();
      } catch (cause) {
        if (cause instanceof OAuth2RequestError && cause.code === "invalid_grant")
          throw new CodeRejected("the provider rejected the code");
        throw new Error("the token endpoint did not return an id_token", { cause });
      }
    },
  };
};

/** The path that the provider redirects to; registered there under the origin of `WEBAUTH_URL`. */
export const callbackPath = "/api/auth/callback/idp";
