import { decodeJwt } from "jose";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import type { TokenPod } from "#tests/support/access/kubernetes-issuer.ts";
import { createTestToken } from "#tests/support/collector.ts";
import {
  collectorRule,
  createNodeDeployment,
  nodePrefix,
} from "#tests/support/deployment/node-deployment.ts";

const deployment = await createNodeDeployment();
afterAll(() => deployment.close());
const {
  test,
  cluster,
  nameOf,
  addressOf,
  draftOf,
  createPolicy,
  freeze,
  forgetPolicies,
  tokenOf,
  enroll,
  eventsFrom,
} = deployment;
const { auditor, admin } = test;
const policiesPath = "/v1/collector/enrollment-policies";

let policyId: string;
beforeEach(async () => {
  await forgetPolicies();
  const rules = [{ ...collectorRule, labels: { team: "edge", env: "prod" } }];
  policyId = await createPolicy({ rules }, { labels: { env: "any", region: "eu" } });
});

const ruleWith = (fields: object) => ({ rules: [{ pattern: "a", ...fields }] });
const sixteen = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`l${at}`, "x"]));
const usual = { address: "10.1.2.3", platform: "linux/amd64" };

describe("the rules of a policy", () => {
  it("decide in their order, by subject and claims, on device and labels", async () => {
    await forgetPolicies();
    const pattern = "system:serviceaccount:fleet-collector:*";
    const node = nameOf("node");
    await createPolicy({
      rules: [
        { pattern, claims: { node, tier: "gold" }, device_id: "gold-{node}" },
        {
          pattern,
          claims: { namespace: "fleet-collector" },
          device_id: "{namespace}.{node}",
          labels: { rule: "two" },
        },
        { pattern },
      ],
    });
    const gold = await tokenOf({ node, payload: { tier: "gold" } });
    expect((await enroll(gold, `gold-${node}`)).status).toBe(201);
    expect((await enroll(await tokenOf({ node }), `fleet-collector.${node}`)).status).toBe(201);
  });

  it("of the oldest active policy that matches decide", async () => {
    const second = await createPolicy({
      rules: [{ pattern: "system:serviceaccount:fleet-collector:second" }],
    });
    const policyOf = async (pod: TokenPod) => {
      const node = nameOf("node");
      const from = addressOf();
      await enroll(await tokenOf({ ...pod, node }), node, { from });
      return (await eventsFrom(from))[0]?.details.policy_id;
    };
    expect(await policyOf({ serviceAccount: "second" })).toBe(second);
    expect(await policyOf({})).toBe(policyId);
    const next = await createPolicy();
    await freeze(policyId);
    expect(await policyOf({})).toBe(next);
  });

  it("may name the issuers that the list of policies has", async () => {
    expect((await auditor.read(policiesPath)).workload_issuers).toContain(cluster.url);
  });

  it.each([
    [
      { issuer: "https://unknown.example.com" },
      "issuer",
      "must be an issuer of SVC_WORKLOAD_ISSUERS_FILE",
    ],
    [{ rules: [] }, "rules", "must have at least one entry"],
    [ruleWith({ pattern: "a*" }), "rules.0.pattern", "may hold * in place of a whole segment"],
    [ruleWith({ device_id: "{node}-{pool}" }), "rules.0.device_id", "may name only {namespace}"],
    [ruleWith({ device_id: "{pod}" }), "rules.0.device_id", "must name {node} or {node_uid}"],
    [{ max_token_ttl_seconds: 599 }, "max_token_ttl_seconds", "must be at least 600"],
    [{ max_token_ttl_seconds: 86_401 }, "max_token_ttl_seconds", "must be at most 86400"],
    [
      ruleWith({ labels: sixteen }),
      "rules.0.labels",
      "must have at most 16 entries with the policy's",
    ],
  ])("are rejected in a policy as %j", async (workload, path, message) => {
    const draft = draftOf(workload, { labels: { one: "more" } });
    const { status, body } = await admin.post(policiesPath, draft);
    const error = { path: `workload.${path}`, message: expect.stringContaining(message) };
    expect([status, body.errors]).toEqual([422, [error]]);
  });

  it("show in the policy, with their defaults", async () => {
    const id = await createPolicy();
    expect((await auditor.read(`${policiesPath}/${id}`)).workload).toEqual({
      issuer: cluster.url,
      max_token_ttl_seconds: 3600,
      rules: [{ ...collectorRule, claims: {}, device_id: "{node}", labels: {} }],
    });
  });
});

describe("the simulation of a service account token", () => {
  const simulate = async (body: object, id = policyId) =>
    (await auditor.post(`${policiesPath}/${id}/simulation`, { ...usual, ...body })).body;
  const claimsOf = async (pod: TokenPod) => decodeJwt(await tokenOf(pod));

  it("names the rule that matches, the identity and the labels", { tags: "workerd" }, async () => {
    const node = nameOf("node");
    const simulated = await simulate({ token_claims: await claimsOf({ node }) });
    expect(simulated).toMatchObject({
      allowed: true,
      identity: nodePrefix + node,
      labels: { env: "prod", region: "eu", team: "edge" },
    });
    expect(simulated.checks).toContainEqual({
      rule: "workload_rule",
      outcome: "passed",
      detail: `rule 1 of the policy matches ${collectorRule.pattern}`,
    });
  });

  it("names the rule that refuses", async () => {
    const identity = `${nodePrefix}node-1`;
    const refusals: [pod: TokenPod, rule: string, identity: string | null][] = [
      [{ serviceAccount: "default" }, "workload_rule", null],
      [{ audience: "vault" }, "workload_audience", identity],
      [{ ttlSeconds: 7200 }, "workload_token_ttl", identity],
      [{ payload: { iss: "https://x" } }, "workload_issuer", identity],
      [{ payload: { "kubernetes.io": {} } }, "workload_bound", null],
    ];
    for (const [pod, rule, of] of refusals)
      expect(await simulate({ token_claims: await claimsOf(pod) })).toMatchObject({
        rule,
        code: "token_invalid",
        identity: of,
      });
    const other = { token_claims: await claimsOf({}), device_id: "other" };
    expect(await simulate(other)).toMatchObject({
      rule: "token_device",
      code: "device_not_allowed",
      identity: `${nodePrefix}other`,
    });
    const { policyId: bareId } = await createTestToken(test);
    const bare = await simulate({ token_claims: await claimsOf({}) }, bareId);
    expect(bare).toMatchObject({
      allowed: false,
      rule: "workload_issuer",
      detail: "the policy admits bootstrap tokens alone",
    });
  });

  it("requires a device or the claims of a token", async () => {
    expect(await simulate({})).toMatchObject({
      status: 422,
      errors: [{ path: "device_id", message: "is required" }],
    });
  });
});
