import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { afterAll, expect, it } from "vitest";
import { advanceRollouts } from "#functions/jobs/core-jobs.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { coreAudience, startKubernetesIssuer } from "../support/access/kubernetes-issuer.ts";
import { startTokenIssuer } from "../support/access/token-issuer.ts";
import { createTestToken, manage } from "../support/collector.ts";
import { useTestWeb } from "../support/web.ts";
import { createAdminUser, failsWith } from "./support/admin.ts";

const platform = await startTokenIssuer({ alg: "RS256" });
const cluster = await startKubernetesIssuer();
const issuer = "https://token.actions.githubusercontent.com";
const subject = "repo:acme/fleet-config:ref:refs/heads/main";

const web = await useTestWeb({
  core: {
    env: { SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml" },
    files: {
      "/issuers.yaml": `issuers: [{ issuer: "${issuer}", audience: fleet, jwks_uri: "${platform.url}/keys", subjects: [{ pattern: "${subject}", claims: { repository_id: 7 }, scopes: [read, audit, admin] }] }, { issuer: "${cluster.url}", audience: "${coreAudience}" }]`,
    },
  },
});
const job = createAdminUser({ env: { SVC_ADMIN_URL: web.origin } });
afterAll(() => {
  platform.close();
  cluster.close();
});

const platformToken = (sub: string) => {
  const iat = Math.floor(web.core.clock.now() / 1000);
  const claims = { iss: issuer, aud: "fleet", sub, iat, exp: iat + 300 };
  return platform.sign({ ...claims, repository_id: "7" });
};

it("a job of a repository publishes a config and rolls it out, without a stored secret", async () => {
  const { enroll } = await createTestToken(web.core, { labels: { env: "prod" } });
  const host = await enroll("web-1");
  const oidc = join(job.home, "oidc");
  writeFileSync(oidc, await platformToken(subject));
  expect(await job.run`login --workload ${oidc}`).toEqual(failsWith(0, subject));
  const yaml = join(job.home, "collector.yaml");
  writeFileSync(
    yaml,
    "forwarder: {endpoint: 'core:8443', mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}\nbuffer: {dir: data}\n",
  );
  const { id, config_hash } = await job.json`configs publish ${yaml} --name a-commit`;
  const waves = [
    "--wave",
    "5%:10m",
    "--wave",
    "25%:10m",
    "--wave",
    "100%:10m",
    "--on-breach",
    "roll-back",
  ];
  const rollOut = () =>
    job.run("rollouts", "create", id, "label.env:prod", ...waves, "--yes", "-o", "json");
  expect(await rollOut()).toMatchObject({ exitCode: 0 });
  expect(await rollOut()).toEqual(failsWith(1, "rollout_overlap"));
  await advanceRollouts(web.core.core);
  await web.core.clock.advance(60_000);
  const config = {
    valid: true,
    errors: [],
    running_config_hash: config_hash,
    apply_desired_config: true,
  };
  const beat = await manage(
    web.core,
    host,
    "heartbeat",
    heartbeatBody(web.core.clock.now(), { config }),
  );
  expect(beat.body).toMatchObject({ desired_config: { config_id: id } });
  await advanceRollouts(web.core.core);
  const [rollout] = await job.json`rollouts list`;
  expect(rollout).toMatchObject({
    state: "soaking",
    applied: 1,
    on_breach: "roll_back",
    created_by_name: subject,
  });
  const [event] = await job.json`audit list --action config.publish`;
  expect(event).toMatchObject({
    actor: { type: "workload", display: subject },
  });
  expect((await job.run("logout")).err).toContain("the token expires by itself");
});

it("a job plans and applies the files of a directory", async () => {
  const dir = join(job.home, "fleet");
  mkdirSync(dir);
  writeFileSync(
    join(dir, "fleet.yaml"),
    "set: a-job\nwatches: [{ name: stale, filter: 'state:stale' }]\n",
  );
  await job.must`login --workload ${join(job.home, "oidc")}`;
  expect(await job.run`plan ${dir} --prune`).toMatchObject({ exitCode: 2 });
  await job.must`apply ${dir} --prune --yes`;
  await job.must("plan", dir);
  const [event] = await job.json`audit list --action applied_set.put`;
  expect(event).toMatchObject({
    actor: { type: "workload", display: subject },
  });
});

it("a job of another repository is refused with exit code 3", async () => {
  const oidc = join(job.home, "oidc");
  writeFileSync(oidc, await platformToken("repo:evil/fleet-config:ref:refs/heads/main"));
  expect(await job.run`login --workload ${oidc}`).toEqual(
    failsWith(3, "The subject token is not accepted"),
  );
  expect((await job.run`login --workload ${join(job.home, "none")}`).exitCode).toBe(2);
});

it("an admin makes a policy for the nodes of a cluster, and sees which of them it would enroll", async () => {
  const file = (name: string, text: string) => {
    writeFileSync(join(job.home, name), text);
    return join(job.home, name);
  };
  const SVC_ADMIN_TOKEN_FILE = file("admin-token", await web.core.bridgeToken("admin"));
  const admin = createAdminUser({ env: { SVC_ADMIN_URL: web.origin, SVC_ADMIN_TOKEN_FILE } });
  const rules = `rules: [{ pattern: "system:serviceaccount:fleet-collector:collector", labels: { cluster: one } }]`;
  const workload = file("nodes.yaml", `issuer: ${cluster.url}\n${rules}\n`);
  const create = [
    "policies",
    "create",
    "nodes",
    "--prefix",
    "spiffe://example.test/node/",
    "--workload",
  ];
  await admin.must(...create, workload);
  expect(await admin.run(...create, file("tab.yaml", "\t{"))).toMatchObject({ exitCode: 2 });
  const unknown = file("unknown.yaml", `issuer: https://unknown.example.com\n${rules}\n`);
  expect((await admin.run(...create, unknown)).err).toContain("workload.issuer");

  const simulate = (path: string, ...more: string[]) =>
    admin.run(
      "simulate",
      "enroll",
      "--policy",
      "nodes",
      "--address",
      "10.1.2.3",
      "--platform",
      "linux/amd64",
      "--service-account-token-file",
      path,
      ...more,
    );
  const token = await cluster.signPod({ node: "node-7" }, web.core.clock.now());
  expect(await simulate(file("token", `${token}\n`))).toMatchObject({
    exitCode: 0,
    out: expect.stringContaining(
      "rule 1 of the policy matches system:serviceaccount:fleet-collector:collector",
    ),
    err: "spiffe://example.test/node/node-7 may enroll, with the labels cluster=one.\n",
  });
  const claims = { ...decodeJwt(token), sub: "system:serviceaccount:default:default" };
  expect(await simulate(file("claims.json", JSON.stringify(claims)))).toEqual(
    failsWith(1, "would be refused with token_invalid by the rule workload_rule"),
  );
  expect((await simulate(file("nonsense", "nonsense"))).exitCode).toBe(2);
  const device = ["--device-id", "node-8"];
  expect((await simulate(join(job.home, "token"), ...device)).err).toContain(
    "device_not_allowed by the rule token_device",
  );
  const nobody = [
    "simulate",
    "enroll",
    "--policy",
    "nodes",
    "--address",
    "10.1.2.3",
    "--platform",
    "linux/amd64",
  ];
  expect((await admin.run(...nobody)).exitCode).toBe(2);

  const csr_pem = await createTestCsr({
    key: await createTestKey(),
    uri: "spiffe://example.test/node/node-7",
  });
  const body = {
    csr_pem,
    device_id: "node-7",
    platform: "linux/amd64",
    collector_version: "1.0.0",
  };
  const enrolled = await web.core.api("POST", "/v1/collector/enroll", {
    as: { bearer: token },
    body,
  });
  expect(enrolled.status).toBe(201);
  expect((await simulate(join(job.home, "token"))).err).toContain(
    "token_invalid by the rule token_uses",
  );
});
