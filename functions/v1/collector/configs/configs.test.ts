import { describe, expect, it } from "vitest";
import {
  createTestToken,
  manage,
  sendHeartbeat,
  type TestCollector,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const configsPath = "/v1/collector/configs";

const yaml = (comment = "") => `# web servers ${comment}
forwarder:
  endpoint: ingest.example.com:8443
  mtls:
    cert_file: current/tls.crt
    key_file: current/tls.key
    ca_file: ca.pem
buffer: {dir: data}
`;
const publish = (text: string, query = "") =>
  test.admin.post(configsPath + query, { name: "web", yaml: text });
const check = (text: string) => publish(text, "?dry_run=true");
const listed = async () => (await test.admin.read<{ items: object[] }>(configsPath)).items;
const published = async (comment?: string) => String((await publish(yaml(comment))).body.id);
const desired = ({ identityId }: TestCollector) =>
  `/v1/collector/identities/${identityId}/desired-config`;
const assign = (host: TestCollector, body: object) => test.admin.put(desired(host), body);
const fetched = async (host: TestCollector, current_config_id?: unknown) => {
  await test.clock.advance(11_000);
  const sent = { sent_at: test.clock.iso(), current_config_id };
  const { body } = await manage(test, host, "config_desired", sent);
  return body.assignment;
};

describe("POST /v1/collector/configs", () => {
  it("stores the bytes verbatim, as JSON or as raw YAML, with the hash that the collector computes", async () => {
    const text = yaml("\u00e9\r\n");
    const made = await publish(text);
    expect(made).toMatchObject({
      status: 201,
      body: { name: "web", size_bytes: new TextEncoder().encode(text).length },
    });
    const raw = await test.api("POST", configsPath, {
      as: "admin",
      raw: { type: "application/yaml", content: text },
    });
    expect(raw).toMatchObject({
      status: 201,
      body: { name: null, config_hash: made.body.config_hash },
    });
    const headers = { Accept: "application/yaml" };
    const path = `${configsPath}/${raw.body.id}`;
    const back = await test.api("GET", path, { as: "admin", headers });
    expect(back.body).toBe(text);
    expect(back.headers.get("content-type")).toBe("application/yaml");
    expect(JSON.stringify(await listed())).not.toContain("endpoint");
  });

  it("rejects file patterns that hide which directories they read", async () => {
    const sources = (pattern: string) =>
      `${yaml()}sources: [{type: file, include: [/var/log/a/*.log, ${pattern}]}]\n`;
    // collector/config/desired-rules.test.ts has more of them.
    expect((await check(sources('"/var/log/{.,x}{.,y}/etc/shadow"'))).body).toMatchObject({
      code: "config_invalid",
      errors: [{ path: "sources.0.include.1", line: 9 }],
    });
    expect((await check(sources(`"/var/log/*/{a,b}[0-9].log"`))).status).toBe(200);
  });

  it("rejects labels, which belong to one host", async () => {
    expect(await check(`${yaml()}labels: {env: prod}\n`)).toMatchObject({
      body: { code: "config_invalid", errors: [{ path: "labels", line: 9, column: 1 }] },
    });
  });

  it("rejects local rules, which belong to one host", async () => {
    expect(await check(`${yaml()}local_processors: []\n`)).toMatchObject({
      body: { code: "config_invalid", errors: [{ path: "local_processors", line: 9, column: 1 }] },
    });
  });

  it("stores nothing with dry_run", async () => {
    const before = await listed();
    expect(await check(yaml())).toMatchObject({ status: 200, body: { valid: true } });
    expect((await check("a: [")).status).toBe(422);
    expect(await listed()).toEqual(before);
  });

  it("reports path, line and column of every schema fault, and 413 over 256 KiB", async () => {
    const { body } = await publish(yaml().replace("endpoint:", "endpont:"));
    expect(body.code).toBe("config_invalid");
    expect(body.errors).toContainEqual(expect.objectContaining({ line: 3, column: 3 }));
    expect((await publish(`${yaml()}#${"x".repeat(262_144)}`)).status).toBe(413);
  });

  it("rejects secrets in values and comments by path and line, and quotes none", async () => {
    const secrets = {
      "-----BEGIN EC PRIVATE KEY-----": "a PEM block",
      [`svcbt_${"a".repeat(49)}`]: "a bootstrap token",
      "Authorization: Bearer abcdefghijklmnop1234": "a bearer token",
      "-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ3ZWIifQ": "a JSON web token",
      AKIAIOSFODNN7EXAMPLE: "a cloud access key",
      "https://user:hunter2@proxy.example.com/": "a URL with a password",
      "password: hunter2hunter2": "a secret",
    };
    for (const [secret, kind] of Object.entries(secrets)) {
      const { body } = await publish(`${yaml()}# note: ${secret}\n`);
      const message = `contains ${kind}; refer to a local file instead`;
      expect(body, secret).toMatchObject({
        code: "config_contains_secret",
        errors: [{ path: "", line: 9, column: 1, message }],
      });
      expect(JSON.stringify(body)).not.toContain(secret);
    }
    const value = await publish(yaml().replace("ca.pem", "'-----BEGIN CERTIFICATE-----'"));
    expect(value.body.errors).toContainEqual(
      expect.objectContaining({ path: "forwarder.mtls.ca_file", line: 7 }),
    );
    const files = "token_file: /etc/token, key_file: current/tls.key";
    expect((await publish(yaml(files))).status).toBe(201);
    expect(test.log.text()).not.toContain("hunter2");
  });
});

describe("desired config of an identity", () => {
  it("H6: reaches its collector alone, is omitted when unchanged, announced by the heartbeat, and can be removed", {
    tags: "workerd",
  }, async () => {
    const host = await enroll("assigned");
    const configId = await published("one");
    expect(await fetched(host)).toBeNull();
    const made = await assign(host, { config_id: configId });
    expect(made).toMatchObject({
      status: 200,
      body: { config_id: configId, previous_config_id: null },
    });
    const { config_hash } = (await check(yaml("one"))).body;
    const known = { config_id: configId, config_hash };
    const assigned_at = test.clock.iso();
    expect(await fetched(host)).toEqual({
      ...known,
      assigned_at,
      unchanged: false,
      yaml: yaml("one"),
    });
    expect(await fetched(host, configId)).toEqual({ ...known, assigned_at, unchanged: true });
    const beat = await sendHeartbeat(test, host);
    expect(beat.body).toMatchObject({ desired_config: known });
    expect(await fetched(await enroll("another"), configId)).toBeNull();
    const second = await published("two");
    for (const previous of [configId, second]) {
      const { body } = await assign(host, { config_id: second });
      expect(body.previous_config_id).toBe(previous);
    }
    for (const _ of ["assigned", "cleared"])
      expect((await test.admin.delete(desired(host))).status).toBe(204);
    expect(await fetched(host)).toBeNull();
    const actions = (await test.events(`target=${host.identityId}`)).map(({ action }) => action);
    expect(actions.filter((action) => action.startsWith("config.")).sort()).toEqual([
      "config.assign",
      "config.assign",
      "config.clear",
    ]);
  });

  it("H1: is sent to exactly one of many concurrent copies, on any connection", async () => {
    const host = await enroll("copied");
    const body = { sent_at: test.clock.iso() };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => manage(test, host, "config_desired", body)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
    for (const answer of answers)
      if (answer.status === 409) expect(answer.body.last_sent_at).toBe(body.sent_at);
  });

  it("answers 409 when another config is assigned than expected, and for a revoked identity", async () => {
    const host = await enroll("expected");
    const first = await published();
    const second = await published();
    const replace = (expected_current_config_id: string | null, config_id: string) =>
      assign(host, { config_id, expected_current_config_id });
    const conflict = { code: "conflict", current_config_id: null };
    expect((await replace(second, first)).body).toMatchObject(conflict);
    expect((await replace(null, first)).status).toBe(200);
    expect((await replace(first, second)).status).toBe(200);
    await test.revoke(host.identityId);
    expect((await assign(host, { config_id: first })).body.code).toBe("conflict");
    expect((await assign(host, { config_id: host.identityId })).status).toBe(404);
  });

  it("assigns a config to many identities with a result for each", async () => {
    const one = await enroll("many-1");
    const two = await enroll("many-2");
    const gone = await enroll("many-3");
    const configId = await published();
    await assign(two, { config_id: configId });
    await test.revoke(gone.identityId);
    const nobody = "01920000-0000-7000-8000-0000000000ff";
    const identity_ids = [gone.identityId, two.identityId, nobody, one.identityId];
    const { body } = await test.admin.post<{ results: { outcome: string }[] }>(
      `${configsPath}/${configId}/assignments`,
      { identity_ids },
    );
    expect(body.results.map(({ outcome }) => outcome)).toEqual([
      "revoked",
      "unchanged",
      "not_found",
      "assigned",
    ]);
  });

  it("rolls back to the newest stored config with the last known good hash of the newest heartbeat", {
    tags: "workerd",
  }, async () => {
    const host = await enroll("rolled");
    const rollBack = () =>
      test.admin.post(`${desired(host)}/rollback`, { reason_code: "bad_rollout" });
    const beat = async (hash: string | null) => {
      await test.clock.advance(11_000);
      const config = {
        valid: true,
        errors: [],
        running_config_hash: null,
        ...(hash ? { last_known_good_config_hash: hash } : {}),
      };
      await sendHeartbeat(test, host, { config });
    };
    expect((await rollBack()).body.code).toBe("no_last_known_good");
    await beat("f".repeat(64));
    expect((await rollBack()).body.code).toBe("last_known_good_not_stored");
    const good = await publish(yaml());
    await test.clock.advance(1000);
    const newest = await publish(yaml("same tree, other text"));
    expect(newest.body.config_hash).toBe(good.body.config_hash);
    await beat(String(good.body.config_hash));
    expect((await rollBack()).body).toMatchObject({ config_id: newest.body.id });
  });
});
