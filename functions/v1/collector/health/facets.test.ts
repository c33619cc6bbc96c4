import { describe, expect, it } from "vitest";
import { addHostLosses } from "#functions/store/export/dead-letters.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { dayMs } from "#kit/clock.ts";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { type FleetTrends, trendSteps } from "#proto/fleet-health/trends.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const old = await (await createTestToken(test)).enroll("old");
await test.clock.advance(10 * dayMs);
const recent = await (await createTestToken(test)).enroll("recent");
const { collector } = heartbeatBody(0) as { collector: object };
await sendHeartbeat(test, recent, { collector: { ...collector, version: "0.9.0" } });
await test.clock.advance(60_000);

const readOld = () =>
  test.auditor.read<FleetHealthDetail>(`/v1/collector/health/${old.identityId}`);

it("the facets of the health report count versions, platforms, drift, heartbeat ages and expiry, with every bucket present", {
  tags: "workerd",
}, async () => {
  const { total, versions, platforms, drift, heartbeat_age, certificate_expiry } =
    await test.auditor.read<FleetFacets>("/v1/collector/health/facets");
  expect(total).toBe(2);
  expect(versions).toContainEqual({ version: "0.9.0", count: 1, supported: false });
  expect(versions.reduce((sum, { count }) => sum + count, 0)).toBe(2);
  expect(platforms).toEqual([{ platform: "linux/amd64", count: 2 }]);
  expect(drift.map((each) => each.drift)).toEqual([
    "in_sync",
    "drifted",
    "on_last_known_good",
    "no_desired",
    "unknown",
  ]);
  expect(heartbeat_age.never).toBe(1);
  expect(heartbeat_age.buckets.filter(({ count }) => count > 0)).toEqual([
    { from_seconds: 30, to_seconds: 60, count: 1 },
  ]);
  expect(heartbeat_age.buckets.at(-1)).toEqual({
    from_seconds: 604_800,
    to_seconds: null,
    count: 0,
  });
  // 21 days, of which ten and a minute have passed for the old one, and a minute for the recent one.
  expect(certificate_expiry.days.filter(({ count }) => count > 0).map((each) => each.day)).toEqual([
    10, 20,
  ]);
  expect(certificate_expiry).toMatchObject({ expired: 0, later: 0 });
  expect(certificate_expiry.days).toHaveLength(30);
});

it("the figures of 24 hours have a value for each quarter of an hour, null before the first sample", {
  tags: "workerd",
}, async () => {
  const trends = await test.auditor.read<FleetTrends>("/v1/collector/health/trends");
  expect(trends.needs_attention).toEqual(new Array(trendSteps.count).fill(null));
  expect(Date.parse(trends.until)).toBeGreaterThan(test.clock.now());
});

describe("one collector of the report", () => {
  it("has its row and its history, newest first, certificates included", {
    tags: "workerd",
  }, async () => {
    await test.admin.post(`/v1/collector/certificates/${old.certificateId}/revoke`, {
      reason_code: "lost",
    });
    const actor = { type: "operator", display: test.people.admin.email };
    expect(await readOld()).toMatchObject({
      item: {
        identity_id: old.identityId,
        state: "revoked",
        certificate: { status: "revoked" },
      },
      history: [
        { action: "certificate.revoke", reason_code: "lost", actor },
        { action: "collector.enroll", reason_code: null },
      ],
    });
  });

  it("has what it lost in an export, and nothing of other hosts", async () => {
    expect(await readOld()).not.toHaveProperty("export_losses");
    const letters = [old.identity, old.identity, "another"].map((hostId) => ({
      envelope: { hostId } as StoredEnvelope,
      reason: "HTTP 400",
    }));
    for (const some of [letters, letters.slice(1)]) await addHostLosses(test.db, "default", some);
    expect((await readOld()).export_losses).toEqual([
      { export: "default", envelopes: 3, reason: "HTTP 400", last_at: expect.any(String) },
    ]);
  });
});
