import type { Entropy } from "#kit/entropy.ts";
import type { WebConfig } from "../config.ts";
import { createCookie, randomToken, type WebCookie } from "../cookies.ts";
import type { Provider } from "./provider.ts";

/** Signs people out at the identity provider as well (OpenID Connect RP-Initiated Logout 1.0). */
export interface ProviderSignOut {
  /** Returns the `Set-Cookie` header that keeps an id_token for the sign-out, in place of the one before. */
  keep(idToken: string): string;
  /** Returns where to send the browser, and its `Set-Cookie` headers. Null if the provider has no such endpoint, or does not answer. */
  begin(cookieHeader: string | undefined): Promise<{ url: URL; cookies: string[] } | null>;
}

/** Browsers drop a cookie over 4 KiB: a longer id_token is not kept, and the provider asks the person who they are. */
const idTokenLengthMax = 3800;
const stateTtlSeconds = 600;

/** The path that the provider redirects to; registered there under the origin of `WEBAUTH_URL`. */
const returnPath = "/login";

/** Creates it. The id_token is in the browser alone, which sends it with the sign-out and with no other request. */
export const createProviderSignOut = (
  config: WebConfig,
  { provider, entropy }: { provider: Provider; entropy: Entropy },
): ProviderSignOut => {
  const { secure, origin, sessionTtlSeconds: ttlSeconds, identityProvider } = config;
  // No `__Host-`, which would send it with every request. Another host of the domain can set it: the provider verifies the hint.
  const name = secure ? "__Secure-svc_id_token" : "svc_id_token";
  const hint = createCookie({ name, path: "/api/auth/logout", secure, ttlSeconds });
  const returned = returnCookie(config);
  return {
    keep: (idToken) => (idToken.length > idTokenLengthMax ? hint.clear() : hint.set(idToken)),
    begin: async (cookieHeader) => {
      const endpoint = await provider.metadata().then(
        ({ endSessionEndpoint }) => endSessionEndpoint,
        () => null,
      );
      if (endpoint === null) return null;
      const url = new URL(endpoint);
      const idToken = hint.read(cookieHeader);
      const state = randomToken(entropy);
      if (idToken === null) url.searchParams.set("client_id", identityProvider.clientId);
      else url.searchParams.set("id_token_hint", idToken);
      url.searchParams.set("post_logout_redirect_uri", `${origin}${returnPath}`);
      url.searchParams.set("state", state);
      return { url, cookies: [hint.clear(), returned.set(state)] };
    },
  };
};

const returnCookie = ({ secure }: Pick<WebConfig, "secure">): WebCookie => {
  const name = secure ? "__Secure-svc_sign_out" : "svc_sign_out";
  return createCookie({ name, path: returnPath, secure, ttlSeconds: stateTtlSeconds });
};

/** Whether the provider redirected this browser here after the sign-out that it began. */
export const isProviderReturn = (
  config: Pick<WebConfig, "secure">,
  { state, cookieHeader }: { state: string | null; cookieHeader: string | undefined },
): boolean => state !== null && returnCookie(config).read(cookieHeader) === state;
