import { expect, it } from "vitest";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { useTestCore } from "#tests/support/core.ts";
import { backdate } from "./backdate.ts";

const test = await useTestCore();
const day = 86_400_000;

it("dates back a host's enrollment, certificates, last heartbeat and last envelope, in every table that the report reads", async () => {
  await test.seedFleet(40);
  const read = async () => {
    const path = "/v1/collector/health?limit=100";
    const { items } = await test.auditor.read<FleetHealthReport>(path);
    return new Map(items.map((row) => [row.identity, row]));
  };
  const before = await read();
  const healthy = [...before.values()].filter(({ state }) => state === "healthy");
  const [silent, expiring, untouched] = healthy;
  if (!silent || !expiring || !untouched)
    throw new Error("the seeded fleet has too few healthy hosts");
  const { sql } = test.database.connect();
  const usual = { enrolledDays: 30, certificateDays: 0, keepsSuccessor: false, silentSeconds: 0 };
  await backdate(sql, [
    { ...usual, identity: silent.identity, silentSeconds: 3600 },
    {
      ...usual,
      identity: expiring.identity,
      certificateDays: (Date.parse(expiring.certificate.not_after) - test.clock.now()) / day - 2,
    },
  ]);

  const after = await read();
  expect(after.get(silent.identity)).toMatchObject({
    state: "stale",
    enrolled_at: new Date(Date.parse(silent.enrolled_at) - 30 * day).toISOString(),
    last_heartbeat_at: new Date(
      Date.parse(silent.last_heartbeat_at ?? "") - 3_600_000,
    ).toISOString(),
    certificate: silent.certificate,
  });
  expect(after.get(expiring.identity)).toMatchObject({
    state: "cert_expiring",
    last_heartbeat_at: expiring.last_heartbeat_at,
    certificate: { not_after: new Date(test.clock.now() + 2 * day).toISOString() },
  });
  expect(after.get(untouched.identity)).toEqual(untouched);
});
