import { sql } from "drizzle-orm";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { flushEnrollmentRefusals } from "#functions/domain/enrollment/flush-refusals.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { coreAudience } from "#tests/support/access/kubernetes-issuer.ts";
import { createTestToken } from "#tests/support/collector.ts";
import {
  collectorRule,
  createNodeDeployment,
  nodePrefix,
} from "#tests/support/deployment/node-deployment.ts";
import { tablesWith } from "#tests/support/stored-text.ts";

const deployment = await createNodeDeployment();
afterAll(() => deployment.close());
const {
  test,
  cluster,
  other,
  nameOf,
  addressOf,
  createPolicy,
  freeze,
  forgetPolicies,
  tokenOf,
  enroll,
  eventsFrom,
} = deployment;
const { auditor, admin, clock } = test;
const policiesPath = "/v1/collector/enrollment-policies";

/** Expects the answer that any unusable token gets, and the reason in the audit event. */
const expectRefused = async (token: string, reason: string, deviceId = "node-1") => {
  const from = addressOf();
  const { body } = await enroll(token, deviceId, { from });
  expect(body.code, reason).toBe("token_invalid");
  expect(await eventsFrom(from)).toMatchObject([{ outcome: "failure", reason }]);
  return { ...body, request_id: "" };
};

/** A node of its own, with a token. */
const named = async () => {
  const node = nameOf("node");
  return { node, token: await tokenOf({ node }) };
};

let policyId: string;
beforeEach(async () => {
  // Policies of earlier tests decide nothing.
  await forgetPolicies();
  const labels = { team: "edge", env: "prod" };
  policyId = await createPolicy(
    { rules: [{ ...collectorRule, labels }] },
    { labels: { env: "any", region: "eu" } },
  );
});

describe("POST /v1/collector/enroll with a service account token", () => {
  it("enrolls the node that the token names, once, with the labels of policy and rule", async () => {
    const { node, token } = await named();
    const from = addressOf();
    expect(await enroll(token, node, { from })).toMatchObject({
      status: 201,
      body: { identity: nodePrefix + node },
    });
    const workload = {
      issuer: cluster.url,
      subject: collectorRule.pattern,
      claims: {
        namespace: "fleet-collector",
        service_account: "collector",
        pod: "collector-x7",
        pod_uid: "uid of collector-x7",
        node,
        node_uid: `uid of ${node}`,
      },
    };
    expect(await eventsFrom(from)).toMatchObject([
      { outcome: "success", details: { policy_id: policyId, reenrolled: false, workload } },
    ]);
    const [row] = await test.db.execute(
      sql`select s.labels from collector_identity i join label_set s on s.id = i.label_set_id where i.identity = ${nodePrefix + node}`,
    );
    expect(row).toEqual({ labels: { env: "prod", region: "eu", team: "edge" } });
    // Bootstrap tokens alone are listed.
    for (const path of ["/v1/collector/tokens", `${policiesPath}/${policyId}/tokens`])
      expect((await auditor.read(path)).items).toEqual([]);
    const { tokens } = await auditor.read("/v1/collector/enrollment");
    expect(tokens).toMatchObject({ active: 0, exhausted: 0 });
  });

  it("answers a repeat with the same key by the same certificate, and another key as an exhausted token", async () => {
    const { node, token } = await named();
    const key = await createTestKey();
    const first = await enroll(token, node, { key });
    await clock.advance(9 * 60_000);
    const again = await enroll(token, node, { key });
    expect([again.status, again.body.certificate_pem]).toEqual([201, first.body.certificate_pem]);
    await expectRefused(token, "token_exhausted", node);
  });

  it("knows a token by what was signed: another form of its signature is no other token", async () => {
    const { node, token } = await named();
    expect((await enroll(token, node)).status).toBe(201);
    const at = token.lastIndexOf(".") + 1;
    const signature = Uint8Array.fromBase64(token.slice(at), { alphabet: "base64url" });
    // With (r, s), (r, n - s) is a signature too.
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
    const s = order - BigInt(`0x${signature.slice(32).toHex()}`);
    signature.set(Uint8Array.fromHex(s.toString(16).padStart(64, "0")), 32);
    const twin =
      token.slice(0, at) + signature.toBase64({ alphabet: "base64url", omitPadding: true });
    await expectRefused(twin, "token_exhausted", node);
  });

  it("issues one certificate when one token comes with many keys at once", async () => {
    const { node, token } = await named();
    const answers = await Promise.all(Array.from({ length: 12 }, () => enroll(token, node)));
    const codes = answers.map(({ body }) => body.code ?? "issued");
    expect(codes.filter((code) => code === "issued")).toEqual(["issued"]);
    for (const code of codes)
      expect(["issued", "enrollment_in_progress", "token_invalid"]).toContain(code);
    expect(
      await test.db.execute(
        sql`select use_count from bootstrap_token where bound_device_id = ${node}`,
      ),
    ).toEqual([{ use_count: "1" }]);
  });

  const seconds = () => Math.floor(clock.now() / 1000);
  it.each<[string, reason: string, make: () => Promise<string>]>([
    ["of an issuer that no policy trusts", "issuer_unknown", () => tokenOf({}, other)],
    [
      "for core and another audience",
      "audience_mismatch",
      () => tokenOf({ audience: [coreAudience, "vault"] }),
    ],
    ["that lives for over an hour", "token_ttl_too_long", () => tokenOf({ ttlSeconds: 3601 })],
    [
      "of no pod",
      "token_unbound",
      () => tokenOf({ payload: { "kubernetes.io": { namespace: "fleet-collector" } } }),
    ],
    [
      "of a pod without a node's uid",
      "token_unbound",
      () => {
        const of = { name: "node-1", uid: "u" };
        const bound = { namespace: "n", serviceaccount: of, pod: of, node: { name: "node-1" } };
        return tokenOf({ payload: { "kubernetes.io": bound } });
      },
    ],
    [
      "of another service account",
      "subject_not_allowed",
      () => tokenOf({ serviceAccount: "default" }),
    ],
  ])("refuses a token %s: %s", async (_, reason, make) => {
    const body = await expectRefused(await make(), reason);
    expect(body).toEqual(await expectRefused("nonsense", "token_malformed"));
  });

  it("names in the audit event whom a verified token is for, and nobody whose signature is wrong", async () => {
    const workloadOf = async (token: string) => {
      const from = addressOf();
      await enroll(token, "node-1", { from });
      return (await eventsFrom(from))[0]?.details.workload;
    };
    const token = await tokenOf({ serviceAccount: "default" });
    expect(await workloadOf(token)).toMatchObject({
      issuer: cluster.url,
      subject: "system:serviceaccount:fleet-collector:default",
      claims: { service_account: "default", node: "node-1" },
    });
    expect(await workloadOf(`${token.slice(0, -8)}AAAAAAAA`)).toBeUndefined();
  });

  it("accepts clocks that differ by 60 s", async () => {
    for (const payload of [
      { iat: seconds() + 60, nbf: seconds() + 60 },
      { iat: seconds() - 600, exp: seconds() - 59 },
    ]) {
      const node = nameOf("node");
      expect((await enroll(await tokenOf({ node, payload }), node)).status).toBe(201);
    }
  });

  it("refuses another device than the token's node, by the code of bound tokens", async () => {
    const from = addressOf();
    const refused = await enroll(await tokenOf({ node: "node-1" }), "node-2", { from });
    expect(refused).toMatchObject({ body: { code: "device_not_allowed" } });
    expect(await eventsFrom(from)).toMatchObject([
      {
        outcome: "failure",
        details: { policy_id: policyId, workload: { claims: { node: "node-1" } } },
      },
    ]);
  });

  it("refuses what the policy's limits refuse of bootstrap tokens", async () => {
    const codeOf = async (over?: { from: string }) =>
      (await enroll(await tokenOf(), "node-1", over)).body.code;
    await freeze(policyId);
    expect(await codeOf()).toBe("policy_frozen");
    const limits = { allowed_source_cidrs: ["192.0.2.0/24"], allowed_platforms: ["darwin"] };
    await createPolicy({}, limits);
    expect(await codeOf()).toBe("source_not_allowed");
    expect(await codeOf({ from: "192.0.2.7" })).toBe("platform_not_allowed");
  });

  it("enrolls nobody with a token that an admin revoked by the id of its audit event", async () => {
    const { node, token } = await named();
    expect((await enroll(token, "another")).body.code).toBe("device_not_allowed");
    const [row] = await test.db.execute(
      sql`select id from bootstrap_token where bound_device_id = ${node}`,
    );
    await admin.post(`/v1/collector/tokens/${row?.id}/revoke`);
    await expectRefused(token, "token_revoked", node);
  });

  it("E12: keeps the token out of the database and the log", async () => {
    const { node, token } = await named();
    await enroll(token, node);
    await enroll(token, node);
    const [, payload = "", signature = ""] = token.split(".");
    for (const secret of [payload, signature])
      expect(await tablesWith(test.db, secret)).toEqual([]);
    expect(test.log.text()).not.toContain(signature);
  });

  it("forgets expired tokens that enrolled no host, and keeps the others", async () => {
    const used = nameOf("used");
    const unused = nameOf("unused");
    await enroll(await tokenOf({ node: used }), used);
    await enroll(await tokenOf({ node: unused }), "another");
    const bound = async () => {
      const rows = await test.db.execute(
        sql`select bound_device_id as device from bootstrap_token where bound_device_id in (${used}, ${unused}) order by 1`,
      );
      return rows.map(({ device }) => device);
    };
    await flushEnrollmentRefusals(test.core);
    expect(await bound()).toEqual([unused, used]);
    await clock.advance(661_000);
    await flushEnrollmentRefusals(test.core);
    expect(await bound()).toEqual([used]);
  });
});

describe("the identity of a node", () => {
  const replacing = async () => {
    await forgetPolicies();
    return createPolicy({}, { reenrollment: "replace" });
  };

  it("passes to the next pod of the same node where the policy replaces, and not where it denies", async () => {
    const { node, token } = await named();
    const first = await enroll(token, node);
    const next = async () => enroll(await tokenOf({ node, pod: "collector-z9" }), node);
    expect((await next()).body.code).toBe("identity_exists");
    await replacing();
    const again = await next();
    expect([again.status, again.body.identity_id]).toEqual([201, first.body.identity_id]);
    const rows = await test.db.execute(
      sql`select status from certificate where identity_id = ${first.body.identity_id} order by id`,
    );
    expect(rows).toEqual([{ status: "replaced" }, { status: "active" }]);
  });

  it("is not taken over by another node with its name while its certificate is active", async () => {
    await replacing();
    const { node, token } = await named();
    const first = await enroll(token, node);
    const impostor = () => tokenOf({ node, nodeUid: "another" });
    const from = addressOf();
    const refused = await enroll(await impostor(), node, { from });
    expect(refused.body.code).toBe("identity_exists");
    expect(await eventsFrom(from)).toMatchObject([{ reason: "identity_of_another_node" }]);
    await admin.post(`/v1/collector/certificates/${first.body.certificate_id}/revoke`);
    expect((await enroll(await impostor(), node)).status).toBe(201);
  });

  it("never passes to a node of another cluster", async () => {
    await replacing();
    await createPolicy({ issuer: other.url }, { reenrollment: "replace" });
    const { node, token } = await named();
    const first = await enroll(token, node);
    const foreign = async () => (await enroll(await tokenOf({ node }, other), node)).body.code;
    expect(await foreign()).toBe("identity_exists");
    await admin.post(`/v1/collector/certificates/${first.body.certificate_id}/revoke`);
    expect(await foreign()).toBe("identity_exists");
  });

  it("is not taken over from a host that enrolled with a bootstrap token", async () => {
    await replacing();
    const { node, token } = await named();
    const other = await createTestToken(test, { allowed_identity_prefixes: [nodePrefix] });
    expect((await enroll(other.token, node)).status).toBe(201);
    expect((await enroll(token, node)).body.code).toBe("identity_exists");
  });
});
