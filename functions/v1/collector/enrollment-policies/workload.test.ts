import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createTestToken } from "#tests/support/collector.ts";
import type { TokenPod } from "#tests/support/kubernetes-issuer.ts";
import { collectorRule, createNodeDeployment, nodePrefix } from "#tests/support/node-deployment.ts";

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
    const { body } = await auditor.get(policiesPath);
    expect(body.workload_issuers).toContain(cluster.url);
  });

  it.each([
    [
      { issuer: "https://unknown.example.com" },
      "workload.issuer",
      "must be an issuer of SVC_WORKLOAD_ISSUERS_FILE",
    ],
    [{ rules: [] }, "workload.rules", "must have at least one entry"],
    [
      { rules: [{ pattern: "a*" }] },
      "workload.rules.0.pattern",
      "may hold * in place of a whole segment",
    ],
    [
      { rules: [{ pattern: "a", device_id: "{node}-{pool}" }] },
      "workload.rules.0.device_id",
      "may name only {namespace}",
    ],
    [
      { rules: [{ pattern: "a", device_id: "{pod}" }] },
      "workload.rules.0.device_id",
      "must name {node} or {node_uid}",
    ],
    [{ max_token_ttl_seconds: 599 }, "workload.max_token_ttl_seconds", "must be at least 600"],
    [{ max_token_ttl_seconds: 86_401 }, "workload.max_token_ttl_seconds", "must be at most 86400"],
    [
      {
        rules: [
          {
            pattern: "a",
            labels: Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`l${at}`, "x"])),
          },
        ],
      },
      "workload.rules.0.labels",
      "must have at most 16 entries with the policy's",
    ],
  ])("are rejected in a policy as %j", async (workload, path, message) => {
    const { status, body } = await admin.post(
      policiesPath,
      draftOf(workload, { labels: { one: "more" } }),
    );
    expect({ status, errors: body.errors }).toEqual({
      status: 422,
      errors: [{ path, message: expect.stringContaining(message) }],
    });
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
    (
      await auditor.post(`${policiesPath}/${id}/simulation`, {
        address: "10.1.2.3",
        platform: "linux/amd64",
        ...body,
      })
    ).body;
  const claimsOf = async (pod: TokenPod) =>
    JSON.parse(
      new TextDecoder().decode(
        Uint8Array.fromBase64((await tokenOf(pod)).split(".")[1] ?? "", { alphabet: "base64url" }),
      ),
    );

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
    const refused = async (pod: TokenPod, more: object = {}) => {
      const { rule, code, identity } = await simulate({
        token_claims: await claimsOf(pod),
        ...more,
      });
      return [rule, code, identity];
    };
    expect(await refused({ serviceAccount: "default" })).toEqual([
      "workload_rule",
      "token_invalid",
      null,
    ]);
    expect(await refused({ audience: "vault" })).toEqual([
      "workload_audience",
      "token_invalid",
      `${nodePrefix}node-1`,
    ]);
    expect(await refused({ ttlSeconds: 7200 })).toEqual([
      "workload_token_ttl",
      "token_invalid",
      `${nodePrefix}node-1`,
    ]);
    expect(await refused({ payload: { iss: "https://x" } })).toEqual([
      "workload_issuer",
      "token_invalid",
      `${nodePrefix}node-1`,
    ]);
    expect(await refused({ payload: { "kubernetes.io": {} } })).toEqual([
      "workload_bound",
      "token_invalid",
      null,
    ]);
    expect(await refused({}, { device_id: "other" })).toEqual([
      "token_device",
      "device_not_allowed",
      `${nodePrefix}other`,
    ]);
    const bare = await simulate(
      { token_claims: await claimsOf({}) },
      (await createTestToken(test)).policyId,
    );
    expect(bare).toMatchObject({
      allowed: false,
      rule: "workload_issuer",
      detail: "the policy admits bootstrap tokens alone",
    });
  });

  it("requires a device or the claims of a token", async () => {
    const answer = await auditor.post(`${policiesPath}/${policyId}/simulation`, {
      address: "10.1.2.3",
      platform: "linux/amd64",
    });
    expect(answer).toMatchObject({
      status: 422,
      body: { errors: [{ path: "device_id", message: "is required" }] },
    });
  });
});
