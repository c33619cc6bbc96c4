import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import type { WebConfig } from "../config.ts";
import { createProvider } from "./provider.ts";

const issuer = "https://id.example";
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
  /** Creates the provider of a web; `answered` delays the documents, whose paths `requested` lists. */
  const providerOf = (subjectClaim: "sub" | "oid" = "sub", answered = Promise.resolve()) => {
    const identityProvider = { issuer, clientId: "svc-web", subjectClaim };
    const requested: string[] = [];
    const provider = createProvider({
      config: { identityProvider } as WebConfig,
      clock,
      log: createTestLog(),
      fetch: async (url) => {
        requested.push(new URL(url).pathname);
        await answered;
        return new Response(url.endsWith("/jwks") ? keys : metadata);
      },
    });
    const find = async (claims: Record<string, unknown>) =>
      provider.authenticatedBy(await idTokenWith(claims), { nonce: "n" });
    return { find, requested };
  };
  return { providerOf, clock };
};
const ada = { subject: "ada", authenticationAgeSeconds: null, providerSessionId: null };

it("returns the claim of IDP_SUBJECT_CLAIM, and rejects a token without it", async () => {
  const { find } = (await createIssuer()).providerOf("oid");
  expect(await find({ oid: "an-object-id" })).toEqual({ ...ada, subject: "an-object-id" });
  await expect(find({})).rejects.toThrow("no oid");
});

it.each([
  ["before it issued the token", -120, 120],
  ["at once", 0, 0],
  ["after it issued the token, which cannot be", 120, 0],
])(
  "says how long ago the provider authenticated the person, by the provider's clock: %s",
  async (_, at, age) => {
    const { providerOf, clock } = await createIssuer();
    const auth_time = Math.floor(clock.now() / 1000) + at;
    await clock.advance(50_000);
    const found = await providerOf().find({ auth_time });
    expect(found).toEqual({ ...ada, authenticationAgeSeconds: age });
  },
);

it("accepts an id_token that is issued or valid up to 60 s ahead of web's clock, and none that is further ahead", async () => {
  const { providerOf, clock } = await createIssuer();
  const { find } = providerOf();
  const now = Math.floor(clock.now() / 1000);
  for (const claim of ["iat", "nbf"]) {
    const withClaim = (ahead: number) => find({ exp: now + 900, [claim]: now + ahead });
    expect(await withClaim(60)).toMatchObject({ subject: "ada" });
    await expect(withClaim(61)).rejects.toThrow(`"${claim}"`);
  }
});

it("requests the provider's metadata and keys once for concurrent sign-ins", async () => {
  const answered = Promise.withResolvers<void>();
  const { find, requested } = (await createIssuer()).providerOf("sub", answered.promise);
  const found = Promise.all(Array.from({ length: 10 }, () => find({})));
  await expect.poll(() => requested.length).toBeGreaterThan(0);
  answered.resolve();
  expect(await found).toEqual(Array(10).fill(ada));
  expect(requested).toEqual(["/.well-known/openid-configuration", "/jwks"]);
});
