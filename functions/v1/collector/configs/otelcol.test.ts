import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { publishTestConfig } from "#tests/support/rollout.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const enrollOtelcol = (deviceId: string) => enroll(deviceId, "ed25519", "otelcol");
const configs = "/v1/collector/configs";

const yaml = (settings = "endpoint: localhost:4317") => `receivers:
  otlp: {protocols: {grpc: {}}}
exporters:
  otlp/core: {${settings}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp/core]}
`;
const publish = (text: string, query = "") =>
  test.admin.post(configs + query, { name: "gateways", kind: "otelcol", yaml: text });
const published = async (text = yaml()) => String((await publish(text)).body.id);

it("publishes a config of an OpenTelemetry Collector, and lists it by its kind", async () => {
  await publishTestConfig(test);
  const { status, body } = await publish(yaml());
  expect([status, body]).toMatchObject([201, { kind: "otelcol", warnings: [] }]);
  const { items } = await test.admin.read<{ items: object[] }>(`${configs}?kind=otelcol`);
  expect(items).toMatchObject([{ id: body.id, kind: "otelcol" }]);
});

it("rejects what is dangling, and warns of what is unused, by line and column", async () => {
  const dangling = yaml().replace("exporters: [otlp/core]", "exporters: [kafka]");
  expect((await publish(dangling)).body).toMatchObject({
    code: "config_invalid",
    errors: [{ path: "service.pipelines.traces.exporters.0", line: 7, column: 45 }],
  });
  const unused = yaml().replace("exporters:", "processors: {batch: }\nexporters:");
  expect((await publish(unused, "?dry_run=true")).body).toMatchObject({
    valid: true,
    warnings: [{ path: "processors.batch", line: 3, column: 14, message: "is not used" }],
  });
});

it("rejects secrets, but neither variables nor files that hold them", async () => {
  const settingsWithSecrets = [
    "auth: {password: hunter2}",
    "auth: {password: 1234}",
    'headers: {authorization: "Basic aHVudGVyMg=="}',
    `headers: {x-api-key: "\${env:KEY:-hunter2}"}`,
    "endpoint: https://user:hunter2@example.com",
  ];
  for (const settings of settingsWithSecrets) {
    const { body } = await publish(yaml(settings));
    expect(body, settings).toMatchObject({
      code: "config_contains_secret",
      errors: expect.arrayContaining([expect.objectContaining({ line: 4 })]),
    });
    expect(JSON.stringify(body)).not.toContain("hunter2");
  }
  const references = [
    `auth: {password: "\${env:PASSWORD}"}`,
    `headers: {authorization: "Bearer \${file:/etc/otelcol/token}"}`,
    `headers: {x-api-key: "\${KEY}"}`,
    `endpoint: "https://user:\${env:PASSWORD}@example.com"`,
    "sending_queue: {queue_size: 5000}",
  ];
  for (const settings of references)
    expect((await publish(yaml(settings), "?dry_run=true")).status, settings).toBe(200);
});

it("assigns and rolls out a config to hosts of its kind alone, and names the others", async () => {
  const ours = await enroll("ours");
  const other = await enrollOtelcol("gateway");
  const desired = (identityId: string) => `/v1/collector/identities/${identityId}/desired-config`;
  const mismatch = (name: string) => ({
    status: 422,
    body: { code: "config_kind_mismatch", detail: expect.stringContaining(name) },
  });
  const config_id = await published();
  const own = await publishTestConfig(test);
  expect(await test.admin.put(desired(ours.identityId), { config_id })).toMatchObject(
    mismatch(ours.identity),
  );
  expect(await test.admin.put(desired(other.identityId), { config_id: own })).toMatchObject(
    mismatch(other.identity),
  );
  const identity_ids = [ours.identityId, other.identityId];
  expect(
    await test.admin.post(`${configs}/${config_id}/assignments`, { identity_ids }),
  ).toMatchObject(mismatch(ours.identity));
  const rollout = (filter: string) =>
    test.admin.post("/v1/collector/rollouts", {
      config_id,
      filter,
      waves: [{ percent: 100, soak_seconds: 0 }],
    });
  expect(await rollout("device:ours,gateway")).toMatchObject(mismatch(ours.identity));
  const preview = await test.admin.get(`${configs}/${config_id}/preview?filter=device:ours`);
  expect(preview.body).toMatchObject({
    unparsable: [{ hosts: 1, errors: [expect.stringContaining("agent of kind svc-collector")] }],
  });
  expect(await test.admin.put(desired(other.identityId), { config_id })).toMatchObject({
    status: 200,
  });
});

it("refuses an agent that has reported its components, and lacks one, by line and column", async () => {
  const host = await enrollOtelcol("small");
  await test.db.execute(sql`insert into opamp_agent (identity_id, instance_uid, sequence_num, state, available_components, updated_at)
    values (${host.identityId}::uuid, '', 0, '', '{receivers.otlp}', now())`);
  const config_id = await published();
  const path = `/v1/collector/identities/${host.identityId}/desired-config`;
  expect((await test.admin.put(path, { config_id })).body).toMatchObject({
    code: "config_key_unknown",
    detail: expect.stringContaining(
      `has no \`exporters.otlp\` (line 4, column 3): ${host.identity}`,
    ),
  });
});
