import { afterAll, describe, expect, it } from "vitest";
import { heartbeatBody } from "../../../scripts/lab/heartbeat-body.ts";
import { createTestToken, enrollTestCollector, manage, type TestCollector } from "../../../tests/collector.ts";
import { createTestCore } from "../../../tests/core.ts";

const test = await createTestCore();
afterAll(() => test.close());
const { api, clock } = test;
const beat = async (host: TestCollector, labels?: unknown) => {
  await clock.advance(10_000);
  return manage(test, host, "heartbeat", heartbeatBody(clock.now(), labels === undefined ? {} : { labels }));
};
const labelsOf = async ({ identityId }: TestCollector) =>
  (await api<{ item: { labels: object } }>("GET", `/v1/collector/health/${identityId}`, { as: "auditor" })).body.item
    .labels;

describe("labels of a host", () => {
  it("are those of its newest heartbeat; those of its enrollment policy win", async () => {
    const { token } = await createTestToken(test, { labels: { env: "prod", region: "eu" } });
    const host = await enrollTestCollector(test, { token, deviceId: "labelled" });
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu" });
    expect((await beat(host, { env: "staging", team: "web" })).status).toBe(200);
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu", team: "web" });
    await beat(host, { rack: "r1" });
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu", rack: "r1" });
  });

  it("are none of its own after a heartbeat without labels, as an older collector sends it", async () => {
    const { token } = await createTestToken(test);
    const host = await enrollTestCollector(test, { token, deviceId: "plain" });
    expect(await labelsOf(host)).toEqual({});
    for (const [labels, stored] of [
      [{ env: "prod" }, { env: "prod" }],
      [undefined, {}],
      [{ env: "prod" }, { env: "prod" }],
      [{}, {}],
    ]) {
      expect((await beat(host, labels)).status).toBe(200);
      expect(await labelsOf(host)).toEqual(stored);
    }
  });

  it("follow the policy under which the host enrolls again", async () => {
    const first = await createTestToken(test, { labels: { env: "prod" } });
    const host = await enrollTestCollector(test, { token: first.token, deviceId: "moved" });
    await beat(host, { env: "dev", team: "web" });
    const second = await createTestToken(test, { labels: { env: "staging", team: "db" }, reenrollment: "replace" });
    await enrollTestCollector(test, { token: second.token, deviceId: "moved" });
    expect(await labelsOf(host)).toEqual({ env: "staging", team: "db" });
  });

  it("H5: rejects labels out of bounds, and stores nothing of the heartbeat", async () => {
    const { token } = await createTestToken(test);
    const host = await enrollTestCollector(test, { token, deviceId: "bounded" });
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, "v"]));
    for (const labels of [many, { "a/b": "c" }, { env: "" }, { env: "\u001b[31m" }, ["prod"], "prod", { env: 1 }]) {
      const { status, body } = await beat(host, labels);
      expect({ status, code: body.code }).toEqual({ status: 422, code: "validation_failed" });
      expect(JSON.stringify(body)).not.toContain("[31m");
    }
    const { item } = (await api<{ item: object }>("GET", `/v1/collector/health/${host.identityId}`, { as: "auditor" }))
      .body;
    expect(item).toMatchObject({ last_heartbeat_at: null, labels: {} });
  });
});
