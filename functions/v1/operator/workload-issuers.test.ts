import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";
import { publishWorkloadKeys } from "#tests/support/workload-issuer.ts";

const platform = await publishWorkloadKeys();
/** Sends whoever asks for keys to those of the platform. */
const redirecting = createServer((_, response) =>
  response.writeHead(302, { Location: platform.url }).end(),
);
await new Promise<void>((done) => redirecting.listen(0, "127.0.0.1", done));
const { port } = redirecting.address() as AddressInfo;
const issuer = "https://token.actions.githubusercontent.com";
const subject = "repo:acme/fleet:ref:refs/heads/main";
const test = await useTestCore({
  env: {
    SVC_WORKLOAD_ISSUERS: `issuers: [{ issuer: "${issuer}", audience: fleet, jwks_uri: "${platform.url}", subjects: [{ pattern: "${subject}", claims: { repository_owner_id: 1001 }, scopes: [read] }] },
      { issuer: "https://gitlab.example.com", audience: fleet, jwks_uri: "http://127.0.0.1:${port}/", subjects: [{ pattern: "${subject}", scopes: [read] }] }]`,
  },
});
afterAll(async () => {
  platform.close();
  redirecting.close();
});

const exchange = async (claims: object = {}) =>
  test.api<{ access_token: string; code: string }>("POST", "/v1/operator/token-exchange", {
    body: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: await platform.sign(
        { iss: issuer, aud: "fleet", sub: subject, repository_owner_id: "1001", ...claims },
        test.clock.now(),
      ),
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    },
  });

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
