import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, expect, it } from "vitest";
import { operatorOf } from "#functions/domain/operator/authenticate.ts";
import { startTokenIssuer } from "#tests/support/access/token-issuer.ts";
import { useTestCore } from "#tests/support/core.ts";

const platform = await startTokenIssuer();
afterAll(() => platform.close());
const { url: issuer } = platform;

const test = await useTestCore({
  env: { SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml" },
  files: {
    "/issuers.yaml": `
issuers:
  - issuer: ${issuer}
    audience: https://fleet.example.com
    subjects:
      - { pattern: "repo:acme/fleet:ref:refs/heads/main", scopes: [read, audit, admin] }
      - { pattern: "repo:acme/*:pull_request", scopes: [read] }
`,
  },
});
const { api, clock, lastEvent } = test;
const audience = "https://fleet.example.com";
const seconds = () => Math.floor(clock.now() / 1000);
const usual = () => ({
  iss: issuer,
  aud: audience,
  sub: main,
  iat: seconds(),
  exp: seconds() + 300,
});
const main = "repo:acme/fleet:ref:refs/heads/main";

const tokenOf = (claims: object = {}, key = platform.key()) =>
  platform.sign({ ...usual(), ...claims }, key);
const exchange = (subject_token: string, from = "192.0.2.1") => {
  const grant = {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token,
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
  };
  const content = new URLSearchParams(grant).toString();
  return api<Record<string, string>>("POST", "/v1/operator/token-exchange", {
    raw: { type: "application/x-www-form-urlencoded", content },
    from,
  });
};
const whoami = ({ access_token: bearer = "" }: Record<string, string>) =>
  api("GET", "/v1/whoami", { as: { bearer } });

it("gives a workload a token of 15 minutes with the scopes of its pattern, and the same id each time", async () => {
  const { body } = await exchange(await tokenOf());
  expect(body).toMatchObject({ expires_in: 900, scope: "read audit admin" });
  const who = await whoami(body);
  expect(who.body).toMatchObject({ email: main, scopes: ["read", "audit", "admin"] });
  const policy = { name: "by a job", allowed_identity_prefixes: ["spiffe://example.test/host/"] };
  await clock.advance(1);
  const made = await api("POST", "/v1/collector/enrollment-policies", {
    as: { bearer: body.access_token ?? "" },
    body: policy,
  });
  expect(made.status).toBe(201);
  expect(await lastEvent()).toMatchObject({
    action: "enrollment_policy.create",
    actor: { type: "workload", display: main, id: who.body.user_id },
  });
  const again = await exchange(await tokenOf());
  expect((await whoami(again.body)).body.user_id).toBe(who.body.user_id);
  await clock.advance(961_000);
  expect((await whoami(body)).status).toBe(401);
});

it("A3: lets a response go on as long as the token of a workload, and one for web as long as its session", async () => {
  const { body } = await exchange(await tokenOf());
  const session = { web_session: "a".repeat(43), web_session_exp: seconds() + 1800 };
  const tokens = [body.access_token ?? "", await test.bridgeToken("reader", session)];
  const finds = await Promise.all(tokens.map((token) => operatorOf(test.core, token)));
  const foundAfter = async (ms: number) => {
    await clock.advance(ms);
    return (await Promise.allSettled(finds.map((find) => find()))).map(
      ({ status }) => status === "fulfilled",
    );
  };
  expect([await foundAfter(958_000), await foundAfter(2_000)]).toEqual([
    [true, true],
    [false, true],
  ]);
  expect([await foundAfter(898_000), await foundAfter(2_000)]).toEqual([
    [false, true],
    [false, false],
  ]);
});

it("matches one segment by *, and no more", async () => {
  const scopeOf = async (sub: string) => (await exchange(await tokenOf({ sub }))).body.scope;
  expect(await scopeOf("repo:acme/fleet:pull_request")).toBe("read");
  for (const name of ["a/b", "", "x:y"])
    expect(await scopeOf(`repo:acme/${name}:pull_request`)).toBeUndefined();
});

it.each<[string, () => Promise<string>, string]>([
  ["of another issuer", () => tokenOf({ iss: "https://evil.test" }), "issuer_unknown"],
  [
    "for another audience",
    () => tokenOf({ aud: "https://another.example.com" }),
    "audience_mismatch",
  ],
  [
    "of another subject",
    () => tokenOf({ sub: "repo:evil/fleet:ref:refs/heads/main" }),
    "subject_not_allowed",
  ],
  ["that has expired", () => tokenOf({ exp: seconds() - 61 }), "token_expired"],
  ["that is issued 61 s ahead", () => tokenOf({ iat: seconds() + 61 }), "token_not_yet_valid"],
  ["that is valid 61 s ahead", () => tokenOf({ nbf: seconds() + 61 }), "token_not_yet_valid"],
  ["without a subject", () => tokenOf({ sub: undefined }), "token_malformed"],
  ["without an end", () => tokenOf({ exp: undefined }), "token_malformed"],
  [
    "signed by another key",
    async () => tokenOf({}, { ...platform.key(), ...(await generateKeyPair("ES256")) }),
    "signature_invalid",
  ],
  ["of an unknown key", () => tokenOf({}, { ...platform.key(), kid: "two" }), "signature_invalid"],
  ["that is none", async () => "nonsense", "token_malformed"],
])("rejects and audits a token %s", async (_, make, reason) => {
  // Of several refusals in a minute the first has an event.
  await clock.advance(60_000);
  expect((await exchange(await make())).body.code).toBe("invalid_grant");
  expect(await lastEvent()).toMatchObject({ action: "workload.refuse", reason_code: reason });
});

it("rejects a token that the public key signed as a shared secret, and one without a signature", async () => {
  const shared = await new SignJWT(usual())
    .setProtectedHeader({ alg: "HS256", kid: platform.key().kid })
    .sign(new TextEncoder().encode(JSON.stringify(await exportJWK(platform.key().publicKey))));
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  for (const token of [shared, `${encode({ alg: "none" })}.${encode(usual())}.`])
    expect((await exchange(token)).body.code).toBe("invalid_grant");
});

it("keeps workloads out of what belongs to people", async () => {
  const { body } = await exchange(await tokenOf());
  const as = { bearer: body.access_token ?? "" };
  expect((await api("POST", "/v1/chat/sessions", { as, body: {} })).body.code).toBe("forbidden");
  const path = "/v1/operator/devices/BCDFBCDF/decision";
  const device = { approved: true, remote_addr: "::1" };
  expect((await api("POST", path, { as, body: device })).status).toBe(403);
});

it("E7: limits the refusals of one address, such as web's, no other's and no valid token", async () => {
  const codeFrom = async (address: string) => (await exchange("nonsense", address)).body.code;
  for (let count = 0; count < 30; count++) await codeFrom("198.51.100.9");
  expect(await codeFrom("198.51.100.9")).toBe("throttled");
  expect(await codeFrom("198.51.100.10")).toBe("invalid_grant");
  expect((await exchange(await tokenOf(), "198.51.100.9")).status).toBe(200);
});

it("answers 502 while the issuer's keys cannot be read, and recovers", async () => {
  platform.isDown = true;
  const fresh = await useTestCore({
    env: { SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml" },
    files: {
      "/issuers.yaml": `issuers: [{ issuer: "${issuer}", audience: a, subjects: [{ pattern: x, scopes: [read] }] }]`,
    },
  });
  const ask = async () => {
    const iat = Math.floor(fresh.clock.now() / 1000);
    const body = {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token_type: "urn:ietf:params:oauth:token-type:id_token",
      subject_token: await tokenOf({ aud: "a", sub: "x", iat }),
    };
    return fresh.api("POST", "/v1/operator/token-exchange", { body });
  };
  expect((await ask()).body.code).toBe("issuer_unavailable");
  platform.isDown = false;
  expect((await ask()).status).toBe(200);
});
