import { describe, expect, it } from "vitest";
import { collectorConfig, configAssignment } from "#drizzle/schema/config.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db, people } = test;
const { enroll } = await createTestToken(test);

const id = (last: number) => `01920000-0000-7000-8000-0000000001${String(last).padStart(2, "0")}`;
const yaml = "# café\nforwarder: {endpoint: 'core:8443'}\r\n";
const at = new Date(clock.now());
const facts = {
  name: null,
  yaml,
  sizeBytes: yaml.length,
  createdAt: at,
  createdBy: people.admin.userId,
};

describe("POST /v1/collector/config/desired", () => {
  it("returns the published text verbatim, and omits it when the collector has it; the heartbeat announces it", async () => {
    const host = await enroll("configured");
    let sent = 0;
    const fetch = (over: object = {}) =>
      manage(test, host, "config_desired", {
        sent_at: clock.iso(++sent),
        ...over,
      });
    expect((await fetch()).body).toEqual({ assignment: null });

    await db.insert(collectorConfig).values({ ...facts, id: id(1), configHash: "b".repeat(64) });
    const { identityId } = host;
    const assigned = { assignedAt: at, assignedBy: people.admin.userId };
    await db.insert(configAssignment).values([
      { ...assigned, id: id(2), identityId, configId: id(1), endedAt: at },
      { ...assigned, id: id(3), identityId, configId: id(1) },
    ]);
    const known = { config_id: id(1), config_hash: "b".repeat(64) };
    const assignment = { ...known, assigned_at: at.toISOString() };
    expect((await fetch()).body).toEqual({ assignment: { ...assignment, unchanged: false, yaml } });
    expect((await fetch({ current_config_id: id(1) })).body).toEqual({
      assignment: { ...assignment, unchanged: true },
    });
    const beat = await manage(test, host, "heartbeat", heartbeatBody(clock.now()));
    expect(beat.body).toMatchObject({ desired_config: known });
  });

  it("H1: accepts exactly one of many concurrent copies, on any connection", async () => {
    const host = await enroll("copied");
    const body = { sent_at: clock.iso() };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => manage(test, host, "config_desired", body)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
    for (const answer of answers)
      if (answer.status === 409) expect(answer.body.last_sent_at).toBe(body.sent_at);
  });

  it("H6: returns only the caller's own assignment", async () => {
    const other = await enroll("another");
    const body = {
      sent_at: clock.iso(),
      current_config_id: id(1),
      identity: "configured",
    };
    expect((await manage(test, other, "config_desired", body)).body).toEqual({ assignment: null });
  });
});
