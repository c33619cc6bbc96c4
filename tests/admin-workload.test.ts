import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, expect, it } from "vitest";
import { createAdminUser } from "./admin.ts";
import { createTestToken, enrollTestCollector } from "./collector.ts";
import { startTestWeb } from "./web.ts";

const { publicKey, privateKey } = await generateKeyPair("RS256");
const jwk = await exportJWK(publicKey);
const platform = createServer((_, response) => response.end(JSON.stringify({ keys: [{ ...jwk, kid: "one" }] })));
await new Promise<void>((done) => platform.listen(0, "127.0.0.1", done));
const keys = `http://127.0.0.1:${(platform.address() as AddressInfo).port}/keys`;
const issuer = "https://token.actions.githubusercontent.com";
const subject = "repo:acme/fleet-config:ref:refs/heads/main";

const web = await startTestWeb({
  core: {
    env: { SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml" },
    files: {
      "/issuers.yaml": `issuers: [{ issuer: "${issuer}", audience: fleet, jwks_uri: "${keys}", subjects: [{ pattern: "${subject}", scopes: [read, audit, admin] }] }]`,
    },
  },
});
const job = createAdminUser({ env: { SVC_ADMIN_URL: web.origin } });
afterAll(async () => {
  job.close();
  platform.close();
  await web.close();
});

const platformToken = (sub: string) =>
  new SignJWT({ sub })
    .setProtectedHeader({ alg: "RS256", kid: "one" })
    .setIssuer(issuer)
    .setAudience("fleet")
    .setIssuedAt(Math.floor(web.core.clock.now() / 1000))
    .setExpirationTime(Math.floor(web.core.clock.now() / 1000) + 300)
    .sign(privateKey);

it("a job of a repository publishes a config and assigns it, without a stored secret", async () => {
  const { token } = await createTestToken(web.core, { labels: { env: "prod" } });
  const host = await enrollTestCollector(web.core, { token, deviceId: "web-1" });
  const oidc = join(job.home, "oidc");
  writeFileSync(oidc, await platformToken(subject));
  expect(await job.run("login", "--workload", oidc)).toMatchObject({
    exitCode: 0,
    err: expect.stringContaining(subject),
  });
  const yaml = join(job.home, "collector.yaml");
  writeFileSync(
    yaml,
    "forwarder: {endpoint: 'core:8443', mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}\nbuffer: {dir: data}\n",
  );
  const published = await job.run("configs", "publish", yaml, "--name", "a-commit", "-o", "json");
  const { id } = JSON.parse(published.out);
  const assigned = await job.run("configs", "assign", id, "label.env:prod", "--yes", "-o", "json");
  expect(JSON.parse(assigned.out)).toEqual([{ identity: host.identity, outcome: "assigned" }]);
  const events = await job.run("audit", "list", "--action", "config.publish", "-o", "json");
  expect(JSON.parse(events.out)[0]).toMatchObject({ actor: { type: "workload", display: subject } });
  expect((await job.run("logout")).err).toContain("the token expires by itself");
});

it("a job of another repository is refused with exit code 3", async () => {
  const oidc = join(job.home, "oidc");
  writeFileSync(oidc, await platformToken("repo:evil/fleet-config:ref:refs/heads/main"));
  expect(await job.run("login", "--workload", oidc)).toMatchObject({
    exitCode: 3,
    err: expect.stringContaining("The subject token is not accepted"),
  });
  expect((await job.run("login", "--workload", join(job.home, "none"))).exitCode).toBe(2);
});
