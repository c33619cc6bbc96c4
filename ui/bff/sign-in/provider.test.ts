import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import type { WebConfig } from "../config.ts";
import { createProvider } from "./provider.ts";

const issuer = "https://id.example";
const configOf = (subjectClaim: "sub" | "oid") =>
  ({ identityProvider: { issuer, clientId: "svc-web", subjectClaim } }) as WebConfig;

/** The documents of an identity provider, and id_tokens of it. */
const createIssuer = async () => {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const keys = JSON.stringify({
    keys: [{ ...(await exportJWK(publicKey)), kid: "k", alg: "ES256" }],
  });
  const metadata = JSON.stringify({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
  });
  const clock = createTestClock();
  const iat = Math.floor(clock.now() / 1000);
  const idTokenWith = (claims: Record<string, unknown>) =>
    new SignJWT({ nonce: "n", iat, exp: iat + 60, ...claims })
      .setProtectedHeader({ alg: "ES256", kid: "k" })
      .setIssuer(issuer)
      .setAudience("svc-web")
      .setSubject("ada")
      .sign(privateKey);
  return { keys, metadata, idTokenWith, clock };
};

it("returns the claim of IDP_SUBJECT_CLAIM, and rejects a token without it", async () => {
  const { keys, metadata, idTokenWith, clock } = await createIssuer();
  const fetch = async (url: string) => new Response(url.endsWith("/jwks") ? keys : metadata);
  const provider = createProvider({ config: configOf("oid"), clock, log: createTestLog(), fetch });
  const authenticated = await provider.authenticatedBy(await idTokenWith({ oid: "an-object-id" }), {
    nonce: "n",
  });
  expect(authenticated).toEqual({
    subject: "an-object-id",
    authenticationAgeSeconds: null,
    providerSessionId: null,
  });
  await expect(provider.authenticatedBy(await idTokenWith({}), { nonce: "n" })).rejects.toThrow(
    "no oid",
  );
});

it.each([
  ["before it issued the token", -120, 120],
  ["at once", 0, 0],
  ["after it issued the token, which cannot be", 120, 0],
])(
  "says how long ago the provider authenticated the person, by the provider's clock: %s",
  async (_, at, age) => {
    const { keys, metadata, idTokenWith, clock } = await createIssuer();
    const fetch = async (url: string) => new Response(url.endsWith("/jwks") ? keys : metadata);
    const provider = createProvider({
      config: configOf("sub"),
      clock,
      log: createTestLog(),
      fetch,
    });
    const auth_time = Math.floor(clock.now() / 1000) + at;
    const idToken = await idTokenWith({ auth_time });
    await clock.advance(50_000);
    expect(await provider.authenticatedBy(idToken, { nonce: "n" })).toEqual({
      subject: "ada",
      authenticationAgeSeconds: age,
      providerSessionId: null,
    });
  },
);

it("accepts an id_token that is issued or valid up to 60 s ahead of web's clock, and none that is further ahead", async () => {
  const { keys, metadata, idTokenWith, clock } = await createIssuer();
  const fetch = async (url: string) => new Response(url.endsWith("/jwks") ? keys : metadata);
  const provider = createProvider({ config: configOf("sub"), clock, log: createTestLog(), fetch });
  const now = Math.floor(clock.now() / 1000);
  for (const claim of ["iat", "nbf"]) {
    const withClaim = async (ahead: number) =>
      provider.authenticatedBy(await idTokenWith({ exp: now + 900, [claim]: now + ahead }), {
        nonce: "n",
      });
    expect(await withClaim(60)).toMatchObject({ subject: "ada" });
    await expect(withClaim(61)).rejects.toThrow(`"${claim}"`);
  }
});

it("requests the provider's metadata and keys once for concurrent sign-ins", async () => {
  const { keys, metadata, idTokenWith, clock } = await createIssuer();
  const idToken = await idTokenWith({});

  const requested: string[] = [];
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const fetch = async (url: string) => {
    requested.push(new URL(url).pathname);
    await answered;
    return new Response(url.endsWith("/jwks") ? keys : metadata);
  };
  const provider = createProvider({ config: configOf("sub"), clock, log: createTestLog(), fetch });
  const subjects = Promise.all(
    Array.from({ length: 10 }, () => provider.authenticatedBy(idToken, { nonce: "n" })),
  );
  answer();
  expect(await subjects).toEqual(
    Array(10).fill({ subject: "ada", authenticationAgeSeconds: null, providerSessionId: null }),
  );
  expect(requested).toEqual(["/.well-known/openid-configuration", "/jwks"]);
});
