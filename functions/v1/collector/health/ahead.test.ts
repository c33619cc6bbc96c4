import { expect, it } from "vitest";
import { upsertCoreReport } from "#functions/store/system/core-reports.ts";
import { hourMs } from "#kit/clock.ts";
import type { FleetAhead } from "#proto/fleet-health/ahead.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { auditor, clock, db } = test;
const certificateHours = 96;
const { enroll } = await createTestToken(test, {
  certificate_ttl_seconds: certificateHours * 3600,
});
const hosts = await Promise.all(
  ["silent", "well", "filling", "slow"].map((deviceId) => enroll(deviceId, "ed25519")),
);
const gib = 2 ** 30;
/** An hour's records take a tenth of the queue, or a hundredth. */
const queues = new Map([
  ["filling", { bytes: gib, oldest_record_age_seconds: 3600 }],
  ["slow", { bytes: Math.floor(gib / 10), oldest_record_age_seconds: 3600 }],
]);
const body = heartbeatBody(0) as Record<"queue", object>;
const names = ["silent", "well", "filling", "slow"];
const beat = (from: number) =>
  Promise.all(
    hosts.slice(from).map((host, at) => {
      const queue = {
        ...body.queue,
        max_bytes: 10 * gib,
        bytes: 0,
        oldest_record_age_seconds: null,
      };
      const report = { queue: { ...queue, ...queues.get(names[from + at] ?? "") } };
      return manage(test, host, "heartbeat", heartbeatBody(clock.now(), report));
    }),
  );
await beat(0);
await clock.advance(hourMs);
await beat(1);
const ahead = (hours?: number) =>
  auditor.read<FleetAhead>(`/v1/collector/health/ahead${hours ? `?hours=${hours}` : ""}`);
const rowsOf = async (query: string) =>
  (await auditor.read<FleetHealthReport>(`/v1/collector/health?${query}`)).items.map(
    ({ device_id }) => device_id,
  );

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
    { device_id: "filling", bytes: gib, max_bytes: 10 * gib, oldest_record_age_seconds: 3600 },
  ]);
  expect(Date.parse(found.fullest[0]?.full_at ?? "")).toBe(clock.now() + 9 * hourMs);
  expect((await ahead(8)).queues).toMatchObject({ count: 0, fullest: [] });
  expect((await ahead(100)).queues.count).toBe(2);
});

it("has the tokens that end, and the certificates of running cores", async () => {
  await createTestToken(test);
  const second = await createTestToken(test);
  expect(second).toBeDefined();
  const { tokens } = await ahead(336);
  expect(tokens.items).toHaveLength(tokens.count);
  expect(tokens.items.map(({ expires_at }) => expires_at)).toEqual(
    tokens.items.map(({ expires_at }) => expires_at).toSorted(),
  );
  const report = {
    machine: "core-1",
    version: "1",
    reportedAt: new Date(clock.now()),
    stoppedAt: null,
    streams: 0,
    clockAheadMs: 0,
    checks: [],
  };
  const at = (hours: number) => new Date(clock.now() + hours * hourMs);
  const certificates = {
    ingest_server: at(10).toISOString(),
    enrollment_ca: at(1000).toISOString(),
  };
  await upsertCoreReport(db, {
    ...report,
    id: crypto.randomUUID(),
    startedAt: at(-2),
    certificates,
  });
  expect((await ahead()).system_certificates).toEqual({
    count: 1,
    items: [{ machine: "core-1", name: "ingest_server", expires_at: certificates.ingest_server }],
  });
  // Another process on the machine took its place, with a new certificate.
  await upsertCoreReport(db, {
    ...report,
    id: crypto.randomUUID(),
    startedAt: at(-1),
    certificates: {},
  });
  expect((await ahead()).system_certificates.count).toBe(0);
});

it("does not look farther than two weeks", async () => {
  const answer = await auditor.get("/v1/collector/health/ahead?hours=337");
  expect(answer).toMatchObject({ body: { code: "validation_failed" } });
});
