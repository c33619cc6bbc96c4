import { errors, type JWTVerifyGetKey } from "jose";
import * as v from "valibot";
import { createIssuerRequest, type IssuerRequest } from "#kit/foreign-json.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { createIssuerKeys, leewaySeconds, verifyIssuerToken } from "#kit/verify-issuer-token.ts";
import type { Web } from "../web.ts";

/** The part of a provider's metadata that web uses (OpenID Connect Discovery 1.0). */
interface ProviderMetadata {
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  jwksUri: string;
  /** Whether every authorization response must carry `iss` (RFC 9207). */
  namesIssuerInResponse: boolean;
  /** The prompts that it supports; `select_account` alone if it lists none. */
  prompts: readonly string[];
  /** Where a person signs out there (OpenID Connect RP-Initiated Logout 1.0); null if nowhere. */
  endSessionEndpoint: string | null;
}

/** Whom an id_token is about. */
export interface Authenticated {
  subject: string;
  /** The seconds since the provider authenticated the person, by its own clock; null without `auth_time`. */
  authenticationAgeSeconds: number | null;
  /** The session at the provider (`sid`); null if it names none. */
  providerSessionId: string | null;
}

/** The claims of a logout token. It ends all sessions of the person, or those of one session at the provider. */
interface LoggedOut {
  jti: string;
  subject: string | null;
  providerSessionId: string | null;
  /** When web begins to reject the token, in seconds since the Unix epoch. */
  expiresAt: number;
}

/** The identity provider of `IDP_ISSUER`. */
export type Provider = ReturnType<typeof createProvider>;

/** Reports that the provider is unavailable or answers something unexpected: no token is at fault. */
export class ProviderUnavailable extends Error {
  override readonly name = "ProviderUnavailable";
}

const metadataTtlMs = 3_600_000;
const retryMs = 60_000;
/** Anybody can send a logout token: at most one in this time makes web read the keys again. */
const logoutKeysCooldownMs = 30_000;

const Metadata = v.object({
  issuer: v.string(),
  authorization_endpoint: v.pipe(v.string(), v.url()),
  token_endpoint: v.pipe(v.string(), v.url()),
  jwks_uri: v.pipe(v.string(), v.url()),
  authorization_response_iss_parameter_supported: v.optional(v.boolean(), false),
  prompt_values_supported: v.optional(v.array(v.string()), ["select_account"]),
  end_session_endpoint: v.optional(v.pipe(v.string(), v.url())),
});

const Subject = v.pipe(v.string(), v.minLength(1), v.maxLength(255));
const IdToken = v.object({
  sub: Subject,
  /** Entra ID's id of the person: its `sub` differs for each application. */
  oid: v.optional(Subject),
  nonce: v.string(),
  iat: v.number(),
  auth_time: v.optional(v.number()),
  aud: v.union([v.string(), v.array(v.string())]),
  azp: v.optional(v.string()),
  // Ignore a malformed `sid`: such a session ends only with all of the person's.
  sid: v.fallback(v.optional(Subject), undefined),
});

const LogoutToken = v.object({
  jti: Subject,
  sub: v.optional(Subject),
  oid: v.optional(Subject),
  sid: v.optional(Subject),
  exp: v.number(),
  events: v.object({ "http://schemas.openid.net/event/backchannel-logout": v.looseObject({}) }),
  // Without this, an id_token of this client could end sessions.
  nonce: v.optional(v.never()),
});

/** Creates the provider. Fetches nothing before it is needed. */
export const createProvider = ({
  config,
  clock,
  log,
  fetch,
}: Pick<Web, "config" | "clock" | "log" | "fetch">) => {
  const { issuer, clientId, subjectClaim } = config.identityProvider;
  const request = createIssuerRequest({ fetch, clock });
  let known: { metadata: ProviderMetadata; keys: ProviderKeys; readAt: number } | undefined;

  const read = singleFlight(async () => {
    const metadata = await readMetadata(issuer, request);
    const same = known?.metadata.jwksUri === metadata.jwksUri ? known : undefined;
    const keys =
      same?.keys ?? createProviderKeys(createIssuerKeys(() => request(metadata.jwksUri), clock));
    known = { metadata, keys, readAt: clock.monotonic() };
  });

  const current = async () => {
    if (known === undefined || clock.monotonic() - known.readAt > metadataTtlMs) {
      try {
        await read();
      } catch (err) {
        if (known === undefined) throw new ProviderUnavailable("no metadata", { cause: err });
        known = { ...known, readAt: clock.monotonic() - metadataTtlMs + retryMs };
        log.warn(
          { err },
          "the identity provider's metadata cannot be refreshed; the cached one is used",
        );
      }
    }
    if (known === undefined) throw new ProviderUnavailable("no metadata");
    return known;
  };

  return {
    /** Cached for an hour, and while the provider is unavailable. Throws `ProviderUnavailable` if it was never read. */
    metadata: async () => (await current()).metadata,
    /**
     * Returns the person of an id_token: signed by a key of the provider's JWKS, issued to this client for this nonce, and not expired.
     * Throws `ProviderUnavailable` when its keys cannot be read, and another error for an invalid token.
     */
    authenticatedBy: async (
      idToken: string,
      { nonce }: { nonce: string },
    ): Promise<Authenticated> => {
      const { keys } = await current();
      const expected = { issuer, audience: clientId, now: clock.now() };
      const claims = v.parse(IdToken, await verifyIssuerToken(idToken, keys.ofIdTokens, expected));
      if (claims.nonce !== nonce) throw new Error("id_token: another nonce");
      // OpenID Connect Core 1.0, 3.1.3.7: a token for several audiences names the one that requested it.
      if (Array.isArray(claims.aud) && claims.aud.length > 1 && claims.azp === undefined)
        throw new Error("id_token: several audiences and no azp");
      if (claims.azp !== undefined && claims.azp !== clientId)
        throw new Error("id_token: azp is another client");
      const subject = claims[subjectClaim];
      if (subject === undefined) throw new Error(`id_token: no ${subjectClaim}`);
      // Both times are by the provider's clock, which may differ from web's.
      const age =
        claims.auth_time === undefined
          ? null
          : Math.max(0, Math.ceil(claims.iat - claims.auth_time));
      return { subject, authenticationAgeSeconds: age, providerSessionId: claims.sid ?? null };
    },
    /** Verifies a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6), but not that it is new. Throws as `authenticatedBy` does. */
    loggedOutBy: async (logoutToken: string): Promise<LoggedOut> => {
      const { keys } = await current();
      const expected = { issuer, audience: clientId, now: clock.now() };
      const claims = v.parse(
        LogoutToken,
        await verifyIssuerToken(logoutToken, keys.ofLogoutTokens, expected),
      );
      const { jti, exp, sid, [subjectClaim]: subject } = claims;
      if (subject === undefined && sid === undefined)
        throw new Error(`neither ${subjectClaim} nor sid`);
      return {
        jti,
        subject: subject ?? null,
        providerSessionId: sid ?? null,
        expiresAt: Math.ceil(exp) + leewaySeconds,
      };
    },
  };
};

/** The keys of the provider, with one cache. */
interface ProviderKeys {
  ofIdTokens: JWTVerifyGetKey;
  ofLogoutTokens: JWTVerifyGetKey;
}

/** Reads an unknown key at once only for an id_token from the provider itself, so that no client can cause many reads. */
const createProviderKeys = (keys: ReturnType<typeof createIssuerKeys>): ProviderKeys => ({
  ofIdTokens: distinguishUnavailable(keys(0)),
  ofLogoutTokens: distinguishUnavailable(keys(logoutKeysCooldownMs)),
});

/** Distinguishes keys that cannot be read from a token that names an unknown key. */
const distinguishUnavailable =
  (keys: JWTVerifyGetKey): JWTVerifyGetKey =>
  async (header, token) => {
    try {
      return await keys(header, token);
    } catch (cause) {
      const isTokenFault =
        cause instanceof errors.JWKSNoMatchingKey ||
        cause instanceof errors.JWKSMultipleMatchingKeys;
      throw isTokenFault ? cause : new ProviderUnavailable("no keys", { cause });
    }
  };

const readMetadata = async (issuer: string, request: IssuerRequest): Promise<ProviderMetadata> => {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const metadata = v.parse(Metadata, await request(url));
  if (metadata.issuer !== issuer)
    throw new Error("discovery: the provider names another issuer than IDP_ISSUER");
  const { end_session_endpoint: endSessionEndpoint } = metadata;
  const endpoints = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri];
  if (endSessionEndpoint !== undefined) endpoints.push(endSessionEndpoint);
  // Without https only a loopback issuer passes the configuration.
  if (issuer.startsWith("https:") && endpoints.some((endpoint) => !endpoint.startsWith("https:")))
    throw new Error("discovery: an endpoint is not https");
  return {
    issuer,
    authorizationEndpoint: metadata.authorization_endpoint,
    tokenEndpoint: metadata.token_endpoint,
    jwksUri: metadata.jwks_uri,
    namesIssuerInResponse: metadata.authorization_response_iss_parameter_supported,
    prompts: metadata.prompt_values_supported,
    endSessionEndpoint: endSessionEndpoint ?? null,
  };
};
