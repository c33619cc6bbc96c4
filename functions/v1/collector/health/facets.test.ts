import { describe, expect, it } from "vitest";
import { addHostLosses } from "#functions/store/export/dead-letters.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/report.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, enrollTestCollector, manage } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const enroll = async (deviceId: string) => {
  const { token } = await createTestToken(test);
  return enrollTestCollector(test, { token, deviceId });
};
const day = 86_400_000;

const old = await enroll("old");
await test.clock.advance(10 * day);
const recent = await enroll("recent");
await manage(test, recent, "heartbeat", {
  ...heartbeatBody(test.clock.now()),
  collector: { ...(heartbeatBody(test.clock.now()).collector as object), version: "0.9.0" },
});
await test.clock.advance(60_000);

const facets = (query = "") =>
  test.auditor.read<FleetFacets>(`/v1/collector/health/facets${query}`);

it("the facets of the health report count versions, platforms, drift, heartbeat ages and expiry, with every bucket present", {
  tags: "workerd",
}, async () => {
  const { total, versions, platforms, drift, heartbeat_age, certificate_expiry } = await facets();
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

describe("one collector of the report", () => {
  it("has its row and its history, newest first, certificates included", {
    tags: "workerd",
  }, async () => {
    await test.admin.post(`/v1/collector/certificates/${old.certificateId}/revoke`, {
      reason_code: "lost",
    });
    const { body } = await test.auditor.get<FleetHealthDetail>(
      `/v1/collector/health/${old.identityId}`,
    );
    expect(body.item).toMatchObject({
      identity_id: old.identityId,
      state: "revoked",
      certificate: { status: "revoked" },
    });
    expect(body.history.map(({ action, reason_code }) => [action, reason_code])).toEqual([
      ["certificate.revoke", "lost"],
      ["collector.enroll", null],
    ]);
    expect(body.history[0]?.actor).toEqual({ type: "operator", display: test.people.admin.email });
  });

  it("has what it lost in an export, and nothing of other hosts", async () => {
    const get = () =>
      test.auditor.read<FleetHealthDetail>(`/v1/collector/health/${old.identityId}`);
    expect(await get()).not.toHaveProperty("export_losses");
    const letters = [old.identity, old.identity, "another"].map((hostId) => ({
      envelope: { hostId } as StoredEnvelope,
      reason: "HTTP 400",
    }));
    for (const some of [letters, letters.slice(1)]) await addHostLosses(test.db, "default", some);
    expect((await get()).export_losses).toEqual([
      { export: "default", envelopes: 3, reason: "HTTP 400", last_at: expect.any(String) },
    ]);
  });

  it("is 404 for an unknown id, and 422 for text that is not an id", async () => {
    const get = (id: string) => test.auditor.get(`/v1/collector/health/${id}`);
    expect((await get("01920000-0000-7000-8000-0000000000ff")).status).toBe(404);
    expect((await get("one")).status).toBe(422);
  });
});
