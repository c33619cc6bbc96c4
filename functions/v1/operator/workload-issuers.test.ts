import { afterAll, expect, it } from "vitest";
import { startLoopbackServer } from "#scripts/lab/loopback-server.ts";
import { startTokenIssuer } from "#tests/support/access/token-issuer.ts";
import { useTestCore } from "#tests/support/core.ts";

const platform = await startTokenIssuer({ alg: "RS256" });
/** Sends whoever asks for keys to those of the platform. */
const redirecting = await startLoopbackServer();
redirecting.server.on("request", (_, response) =>
  response.writeHead(302, { Location: `${platform.url}/keys` }).end(),
);
const issuer = "https://token.actions.githubusercontent.com";
const subject = "repo:acme/fleet:ref:refs/heads/main";
const test = await useTestCore({
  env: {
    SVC_WORKLOAD_ISSUERS: `issuers: [{ issuer: "${issuer}", audience: fleet, jwks_uri: "${platform.url}/keys", subjects: [{ pattern: "${subject}", claims: { repository_owner_id: 1001 }, scopes: [read] }] },
      { issuer: "https://gitlab.example.com", audience: fleet, jwks_uri: "${redirecting.url}/", subjects: [{ pattern: "${subject}", scopes: [read] }] }]`,
  },
});
afterAll(async () => {
  platform.close();
  await redirecting.close();
});

const exchange = async (claims: object = {}) => {
  const iat = Math.floor(test.clock.now() / 1000);
  const usual = { iss: issuer, aud: "fleet", sub: subject, iat, exp: iat + 300 };
  return test.api<{ access_token: string; code: string }>("POST", "/v1/operator/token-exchange", {
    body: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: await platform.sign({ ...usual, repository_owner_id: "1001", ...claims }),
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    },
  });
};

it("exchanges tokens of the issuers that SVC_WORKLOAD_ISSUERS holds as text, in workerd too", {
  tags: "workerd",
}, async () => {
  const { body } = await exchange();
  expect(body).toMatchObject({ scope: "read", expires_in: 900 });
  const who = await test.api("GET", "/v1/whoami", { as: { bearer: body.access_token } });
  expect(who.body).toMatchObject({ email: subject, scopes: ["read"] });
  expect((await exchange({ aud: "another" })).body.code).toBe("invalid_grant");
});

it("rejects the same names under another owner id: the organisation was renamed, and another took its name", async () => {
  for (const repository_owner_id of ["2002", 2002, undefined, ["1001"]])
    expect((await exchange({ repository_owner_id })).body.code).toBe("invalid_grant");
});

it("follows no redirect to an issuer's keys", { tags: "workerd" }, async () => {
  const { body } = await exchange({ iss: "https://gitlab.example.com" });
  expect(body.code).toBe("issuer_unavailable");
});
