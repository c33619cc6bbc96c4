import { CodeChallengeMethod, OAuth2Client, OAuth2Tokens } from "arctic";
import * as v from "valibot";
import type { WebConfig } from "../config.ts";
import { type AskProvider, jsonOf } from "./ask-provider.ts";

/** The authorization code flow with PKCE (RFC 6749, RFC 7636). The only file that imports arctic. */
export interface AuthorizationCode {
  /**
   * Where the browser is sent; `codeVerifier` itself stays behind, its hash goes along. With `selectAccount` the provider asks which
   * account to be, where it would otherwise take the only one it knows.
   */
  url(
    authorizationEndpoint: string,
    attempt: { state: string; nonce: string; codeVerifier: string },
    options: { selectAccount: boolean },
  ): URL;
  /**
   * Exchanges a code for an id_token. Throws `CodeRefused` when the provider will not have the code, anything else when it cannot
   * be reached or answers nonsense.
   */
  exchange(
    tokenEndpoint: string,
    grant: { code: string; codeVerifier: string },
    options: { signal: AbortSignal },
  ): Promise<string>;
}

/** The provider answered that the code is not good: used, expired, of another client, or the PKCE verifier is wrong. */
export class CodeRefused extends Error {
  override readonly name = "CodeRefused";
}

/** RFC 6749, 2.3.1 wants both form-encoded before they are joined for Basic, which arctic leaves to its caller. */
const formEncoded = (value: string): string => new URLSearchParams([["", value]]).toString().slice(1);

/** RFC 6749, 5.2. */
const CodeRefusal = v.object({ error: v.literal("invalid_grant") });

/** Makes the flow of one client, which authenticates with `client_secret_basic`. */
export const createAuthorizationCode = (
  config: Pick<WebConfig, "identityProvider" | "origin">,
  ask: AskProvider,
): AuthorizationCode => {
  const { clientId, clientSecret } = config.identityProvider;
  const redirectUri = `${config.origin}${callbackPath}`;
  const browser = new OAuth2Client(clientId, null, redirectUri);
  const credentials = btoa(`${formEncoded(clientId)}:${formEncoded(clientSecret.reveal())}`);
  return {
    url: (endpoint, { state, nonce, codeVerifier }, { selectAccount }) => {
      const scopes = ["openid", "email", "profile"];
      const url = browser.createAuthorizationURLWithPKCE(
        endpoint,
        state,
        CodeChallengeMethod.S256,
        codeVerifier,
        scopes,
      );
      url.searchParams.set("nonce", nonce);
      if (selectAccount) url.searchParams.set("prompt", "select_account");
      return url;
    },
    // By hand: arctic's own request has no time limit and cannot be aborted.
    exchange: async (endpoint, { code, codeVerifier }, { signal }) => {
      const answer = await ask(endpoint, {
        method: "POST",
        headers: {
          Accept: "application/json",
          Authorization: `Basic ${credentials}`,
          "Content-Type": "application/x-www-form-urlencoded",
        },
        body: new URLSearchParams({
          grant_type: "authorization_code",
          code,
          redirect_uri: redirectUri,
          code_verifier: codeVerifier,
        }).toString(),
        signal,
      });
      const body = jsonOf(answer);
      if (answer.status === 200) return new OAuth2Tokens(v.parse(v.looseObject({}), body)).idToken();
      if (v.is(CodeRefusal, body)) throw new CodeRefused("the provider refused the code");
      throw new Error(`token endpoint: status ${answer.status}`);
    },
  };
};

/** Where the provider sends the browser back to; registered with it under the origin of `WEBAUTH_URL`. */
export const callbackPath = "/api/auth/callback/idp";
