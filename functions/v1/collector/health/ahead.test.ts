import { expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { upsertCoreReport } from "#functions/store/system/system.ts";
import { hourMs, minuteMs } from "#kit/clock.ts";
import type { FleetAhead } from "#proto/fleet-health/ahead.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, clock, db } = test;
const certificateHours = 96;
const { enroll } = await createTestToken(test, {
  certificate_ttl_seconds: certificateHours * 3600,
});
const names = ["silent", "well", "filling", "slow"];
const hosts = await Promise.all(names.map((deviceId) => enroll(deviceId, "ed25519")));
const gib = 2 ** 30;
/** An hour's records take a tenth of the queue, or a hundredth. */
const queues = new Map([
  ["filling", { bytes: gib, oldest_record_age_seconds: 3600 }],
  ["slow", { bytes: Math.floor(gib / 10), oldest_record_age_seconds: 3600 }],
]);
const body = heartbeatBody(0) as Record<"queue", object>;
const beat = (from: number) =>
  Promise.all(
    hosts.slice(from).map((host, at) => {
      const empty = { max_bytes: 10 * gib, bytes: 0, oldest_record_age_seconds: null };
      const queue = { ...body.queue, ...empty, ...queues.get(names[from + at] ?? "") };
      return sendHeartbeat(test, host, { queue });
    }),
  );
await beat(0);
await clock.advance(hourMs);
await beat(1);
const ahead = (hours?: number) =>
  auditor.read<FleetAhead>(`/v1/collector/health/ahead${hours ? `?hours=${hours}` : ""}`);
const rowsOf = async (query: string) =>
  (await test.health(query)).items.map(({ device_id }) => device_id);

it("has the hosts that do not renew in time, each count the rows of its query", {
  tags: "workerd",
}, async () => {
  expect((await ahead()).certificates).toMatchObject({ count: 0, first: [] });
  const { certificates, until } = await ahead(100);
  expect(certificates).toMatchObject({ count: 1, first: [{ device_id: "silent" }] });
  expect(await rowsOf(certificates.query)).toEqual(["silent"]);
  expect(Date.parse(until)).toBe(clock.now() + 100 * hourMs);
  expect(Date.parse(certificates.first[0]?.expires_at ?? "")).toBeLessThan(Date.parse(until));
});

it("has the queues that fill as they have since their oldest record", async () => {
  const { queues: found } = await ahead();
  expect(found.count).toBe(1);
  expect(await rowsOf(found.query)).toEqual(["filling"]);
  // A tenth in an hour: nine hours for the rest.
  expect(found.fullest).toMatchObject([
    { device_id: "filling", bytes: gib, max_bytes: 10 * gib, grew_bytes: gib, grew_seconds: 3600 },
  ]);
  expect(Date.parse(found.fullest[0]?.full_at ?? "")).toBe(clock.now() + 9 * hourMs);
  expect((await ahead(8)).queues).toMatchObject({ count: 0, fullest: [] });
  expect((await ahead(100)).queues.count).toBe(2);
});

it("does not say again that a queue fills which has stopped growing", async () => {
  const keepHistory = createHistoryKeeper(test.core);
  const fillTo = async (bytes: number) => {
    await clock.advance(5 * minuteMs);
    queues.set("filling", { bytes, oldest_record_age_seconds: 3600 });
    await beat(1);
    await keepHistory();
    return (await ahead(12)).queues;
  };
  const tenth = Math.floor(gib / 10);
  await fillTo(10 * gib - 10 * tenth);
  // A tenth in five minutes: nine times as long for the rest.
  const { count, fullest, query } = await fillTo(10 * gib - 9 * tenth);
  expect(count).toBe(1);
  const grew = { grew_bytes: tenth, grew_seconds: 300 };
  expect(fullest).toMatchObject([
    { device_id: "filling", ...grew, full_at: clock.iso(45 * minuteMs) },
  ]);
  expect(await rowsOf(query)).toEqual(["filling"]);
  for (const _ of [1, 2]) await fillTo(10 * gib - 9 * tenth);
  expect(await fillTo(10 * gib - 9 * tenth)).toMatchObject({ count: 0, fullest: [] });
  expect((await fillTo(10 * gib - 8 * tenth)).count).toBe(1);
});

it("has the tokens that end, and the certificates of running cores", async () => {
  for (const _ of [1, 2]) await createTestToken(test);
  const { tokens } = await ahead(336);
  const ends = tokens.items.map(({ expires_at }) => expires_at);
  expect(ends).toHaveLength(tokens.count);
  expect(ends).toEqual(ends.toSorted());
  const report = (hours: number, certificates: Record<string, string>) =>
    upsertCoreReport(db, {
      id: crypto.randomUUID(),
      machine: "core-1",
      version: "1",
      startedAt: new Date(clock.now() + hours * hourMs),
      reportedAt: new Date(clock.now()),
      stoppedAt: null,
      streams: 0,
      clockAheadMs: 0,
      checks: [],
      certificates,
      credentials: null,
    });
  const expires_at = clock.iso(10 * hourMs);
  await report(-2, { ingest_server: expires_at, enrollment_ca: clock.iso(1000 * hourMs) });
  expect((await ahead()).system_certificates).toEqual({
    count: 1,
    items: [{ machine: "core-1", name: "ingest_server", expires_at }],
  });
  // Another process on the machine took its place, with a new certificate.
  await report(-1, {});
  expect((await ahead()).system_certificates.count).toBe(0);
});

it("does not look farther than two weeks", async () => {
  expect(await ahead(337)).toMatchObject({ code: "validation_failed" });
});
