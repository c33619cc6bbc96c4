import { describe, expect, it } from "vitest";
import { createTestToken, sendHeartbeat, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, clock } = test;
const beat = async (host: TestCollector, labels?: unknown) => {
  await clock.advance(10_000);
  return sendHeartbeat(test, host, labels === undefined ? {} : { labels });
};
const rowOf = async ({ identityId }: TestCollector) =>
  (await auditor.read<{ item: { labels: object } }>(`/v1/collector/health/${identityId}`)).item;
const labelsOf = async (host: TestCollector) => (await rowOf(host)).labels;

it("I6: rejects a filter that no label can match, by name", async () => {
  for (const query of [
    "label=env",
    "label=env:",
    "label=:prod",
    "label=a/b:c",
    "not_label=env:a:b",
    "label=env:%25",
  ]) {
    const { errors } = await auditor.read(`/v1/collector/health?${query}`);
    expect(JSON.stringify(errors), query).toContain(query.split("=")[0]);
  }
});

describe("labels of a host", () => {
  it("are those of its newest heartbeat; those of its enrollment policy win", async () => {
    const { enroll } = await createTestToken(test, { labels: { env: "prod", region: "eu" } });
    const host = await enroll("labelled");
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu" });
    expect((await beat(host, { env: "staging", team: "web" })).status).toBe(200);
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu", team: "web" });
    await beat(host, { rack: "r1" });
    expect(await labelsOf(host)).toEqual({ env: "prod", region: "eu", rack: "r1" });
  });

  it("are none of its own after a heartbeat without labels, as an older collector sends it", async () => {
    const host = await (await createTestToken(test)).enroll("plain");
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
    const host = await first.enroll("moved");
    await beat(host, { env: "dev", team: "web" });
    const second = await createTestToken(test, {
      labels: { env: "staging", team: "db" },
      reenrollment: "replace",
    });
    await second.enroll("moved");
    expect(await labelsOf(host)).toEqual({ env: "staging", team: "db" });
  });

  it("H5: rejects labels out of bounds, and stores nothing of the heartbeat", async () => {
    const host = await (await createTestToken(test)).enroll("bounded");
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, "v"]));
    for (const labels of [many, { env: "\u001b[31m" }, ["prod"]]) {
      const { body } = await beat(host, labels);
      expect(body.code).toBe("validation_failed");
      expect(JSON.stringify(body)).not.toContain("[31m");
    }
    expect(await rowOf(host)).toMatchObject({ last_heartbeat_at: null, labels: {} });
  });
});
