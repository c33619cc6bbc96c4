import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from "jose";
import * as v from "valibot";
import { singleFlight } from "../../../kit/single-flight.ts";
import type { Web } from "../web.ts";
import { type AskProvider, jsonOf } from "./ask-provider.ts";

/** What web needs of a provider's metadata (OpenID Connect Discovery 1.0). */
export interface ProviderMetadata {
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  jwksUri: string;
  /** Whether every authorization response must carry `iss` (RFC 9207). */
  namesIssuerInResponse: boolean;
  /** Whether it can be asked for a choice of account: unless it lists what it can be asked for, without this. */
  takesSelectAccount: boolean;
}

/** The identity provider of `IDP_ISSUER`. */
export interface Provider {
  /** Kept for an hour, and for as long as the provider cannot be reached. Throws `ProviderUnavailable` when it never was. */
  metadata(): Promise<ProviderMetadata>;
  /**
   * The subject of an id_token: signed by a key of the provider's JWKS, issued by it to this client for this nonce, and not
   * expired. Throws `ProviderUnavailable` when its keys cannot be had, and something else for a token that is not good.
   */
  subjectOf(idToken: string, expected: { nonce: string }): Promise<string>;
}

/** The provider cannot be reached, or answers nonsense: nobody's token is to blame. */
export class ProviderUnavailable extends Error {
  override readonly name = "ProviderUnavailable";
}

const metadataTtlMs = 3_600_000;
const retryMs = 60_000;
const clockToleranceSeconds = 60;

/** Asymmetric ones alone: never `none`, and never HS256, whose key would be one that others may know. */
const signatureAlgorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

const Metadata = v.object({
  issuer: v.string(),
  authorization_endpoint: v.pipe(v.string(), v.url()),
  token_endpoint: v.pipe(v.string(), v.url()),
  jwks_uri: v.pipe(v.string(), v.url()),
  authorization_response_iss_parameter_supported: v.optional(v.boolean(), false),
  prompt_values_supported: v.optional(v.array(v.string()), ["select_account"]),
});

const IdToken = v.object({
  sub: v.pipe(v.string(), v.minLength(1), v.maxLength(255)),
  nonce: v.string(),
  aud: v.union([v.string(), v.array(v.string())]),
  azp: v.optional(v.string()),
});

/** Makes the provider; nothing is fetched before it is needed. */
export const createProvider = (
  { config, clock, log }: Pick<Web, "config" | "clock" | "log">,
  ask: AskProvider,
): Provider => {
  const { issuer, clientId } = config.identityProvider;
  let known: { metadata: ProviderMetadata; keys: JWTVerifyGetKey; readAt: number } | undefined;

  const read = singleFlight(async (): Promise<void> => {
    const metadata = await readMetadata(issuer, ask);
    const same = known?.metadata.jwksUri === metadata.jwksUri ? known : undefined;
    const keys =
      same?.keys ??
      telling(
        createRemoteJWKSet(new URL(metadata.jwksUri), {
          // Only an id_token that the provider itself handed over makes us ask for its keys again: nobody can make us hammer it.
          cooldownDuration: 0,
          [customFetch]: async (url, { headers }) => {
            const { status, text } = await ask(url, { headers });
            return new Response(text, { status });
          },
        }),
      );
    known = { metadata, keys, readAt: clock.monotonic() };
  });

  const current = async () => {
    if (known === undefined || clock.monotonic() - known.readAt > metadataTtlMs) {
      try {
        await read();
      } catch (err) {
        if (known === undefined) throw new ProviderUnavailable("no metadata", { cause: err });
        known = { ...known, readAt: clock.monotonic() - metadataTtlMs + retryMs };
        log.warn({ err }, "the identity provider's metadata cannot be read again; the last one is used");
      }
    }
    if (known === undefined) throw new ProviderUnavailable("no metadata");
    return known;
  };

  return {
    metadata: async () => (await current()).metadata,
    subjectOf: async (idToken, { nonce }) => {
      const { keys } = await current();
      const { payload } = await jwtVerify(idToken, keys, {
        algorithms: signatureAlgorithms,
        issuer,
        audience: clientId,
        clockTolerance: clockToleranceSeconds,
        currentDate: new Date(clock.now()),
        requiredClaims: ["exp", "iat"],
      });
      const claims = v.parse(IdToken, payload);
      if (claims.nonce !== nonce) throw new Error("id_token: another nonce");
      // OpenID Connect Core 1.0, 3.1.3.7: a token for several parties says which of them asked for it.
      if (Array.isArray(claims.aud) && claims.aud.length > 1 && claims.azp === undefined)
        throw new Error("id_token: several audiences and no azp");
      if (claims.azp !== undefined && claims.azp !== clientId) throw new Error("id_token: azp is another client");
      return claims.sub;
    },
  };
};

/** Tells keys that cannot be had from keys that a token does not name. */
const telling =
  (keys: JWTVerifyGetKey): JWTVerifyGetKey =>
  async (header, token) => {
    try {
      return await keys(header, token);
    } catch (cause) {
      const isOfToken = cause instanceof errors.JWKSNoMatchingKey || cause instanceof errors.JWKSMultipleMatchingKeys;
      throw isOfToken ? cause : new ProviderUnavailable("no keys", { cause });
    }
  };

const readMetadata = async (issuer: string, ask: AskProvider): Promise<ProviderMetadata> => {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const answer = await ask(url, { headers: { Accept: "application/json" } });
  if (answer.status !== 200) throw new Error(`discovery: status ${answer.status}`);
  const metadata = v.parse(Metadata, jsonOf(answer));
  if (metadata.issuer !== issuer) throw new Error("discovery: the provider names another issuer than IDP_ISSUER");
  const endpoints = [metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri];
  // Only a loopback issuer is configured without https.
  if (issuer.startsWith("https:") && endpoints.some((endpoint) => !endpoint.startsWith("https:")))
    throw new Error("discovery: an endpoint is not https");
  return {
    issuer,
    authorizationEndpoint: metadata.authorization_endpoint,
    tokenEndpoint: metadata.token_endpoint,
    jwksUri: metadata.jwks_uri,
    namesIssuerInResponse: metadata.authorization_response_iss_parameter_supported,
    takesSelectAccount: metadata.prompt_values_supported.includes("select_account"),
  };
};
