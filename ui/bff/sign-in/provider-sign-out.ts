import type { Entropy } from "#kit/entropy.ts";
import type { WebConfig } from "../config.ts";
import { createCookie, randomToken, type WebCookie } from "../cookies.ts";
import type { Provider } from "./provider.ts";

/** Browsers drop a cookie over 4 KiB: web does not keep a longer id_token, so the provider asks who signs out. */
const idTokenLengthMax = 3800;
const stateTtlSeconds = 600;

/** The path that the provider redirects to; registered there under the origin of `WEBAUTH_URL`. */
const returnPath = "/login";

/**
 * Creates the sign-out at the identity provider as well (OpenID Connect RP-Initiated Logout 1.0). Only the browser stores the id_token, and
 * sends it only with the sign-out.
 */
export const createProviderSignOut = (
  config: WebConfig,
  { provider, entropy }: { provider: Provider; entropy: Entropy },
) => {
  const { origin, sessionTtlSeconds: ttlSeconds, identityProvider } = config;
  // Not for `/`: it would be sent with every request. Another host can set it, but the provider verifies the hint.
  const hint = createCookie(config, { name: "svc_id_token", path: "/api/auth/logout", ttlSeconds });
  const returned = returnCookie(config);
  return {
    /** Returns the `Set-Cookie` header that keeps an id_token for the sign-out, in place of the one before. */
    keep: (idToken: string): string =>
      idToken.length > idTokenLengthMax ? hint.clear() : hint.set(idToken),
    /** Returns where to send the browser, and its `Set-Cookie` headers. Null if the provider has no such endpoint, or does not answer. */
    begin: async (cookieHeader: string | undefined) => {
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

const returnCookie = (config: Pick<WebConfig, "secure">): WebCookie =>
  createCookie(config, { name: "svc_sign_out", path: returnPath, ttlSeconds: stateTtlSeconds });

/** Reports whether the provider redirected this browser here after the sign-out that it began. */
export const isProviderReturn = (
  config: Pick<WebConfig, "secure">,
  { state, cookieHeader }: { state: string | null; cookieHeader: string | undefined },
): boolean => state !== null && returnCookie(config).read(cookieHeader) === state;
