import { expect, it } from "vitest";
import type { FleetHealth } from "../health/read-health.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import { createHosts } from "../scenario/hosts.ts";
import { createPlan } from "../scenario/plan.ts";
import { type Step, stepsUntilEnd } from "../scenario/steps.ts";
import type { DrivenHost } from "./driven-host.ts";
import { observedHistories } from "./observed-history.ts";

const startsAt = Date.UTC(2026, 0, 1);
const plan = await createPlan({
  scenario: "fleet-100",
  hosts: 40,
  seed: 4,
  identityPrefix: "spiffe://fleet.test/",
  startsAt,
  durationSeconds: 300,
  heartbeatIntervalSeconds: 60,
  versionMin: null,
  hasOperator: true,
  isOld: false,
});
const host = createHosts(plan).find(({ role }) => role === "steady");
if (host === undefined) throw new Error("no host is steady");
const steps = [...stepsUntilEnd(plan, stepsOf(plan, host))];
const driven = { host } as unknown as DrivenHost;
const rfc3339 = (at: number) => new Date(at).toISOString();

const observe = (times: number[], row: { not_after: number; heartbeat: number }) => {
  const live = {
    rows: [
      {
        identity: host.identity,
        last_heartbeat_at: rfc3339(row.heartbeat),
        certificate: { not_after: rfc3339(row.not_after) },
      },
    ],
  } as unknown as FleetHealth;
  const played = [{ driven, steps: [].values(), times }];
  const [observed] = observedHistories(plan, { played, live, toleranceMs: 5000 });
  return observed?.steps ?? [];
};
const lifetime = plan.ttlSeconds.usual * 1000;
/** By core's responses each step was a quarter of a second late. */
const answered = steps.map(({ at }) => at + 250);
const newestOf = (steps: readonly Step[]) =>
  steps.findLast(({ kind }) => kind === "heartbeat")?.at ?? 0;
const newest = answered[steps.findLastIndex(({ kind }) => kind === "heartbeat")] ?? 0;

it("dates the newest heartbeat by when core wrote it, and the enrollment by when core issued the certificate", () => {
  const issued = Math.floor((answered[0] ?? 0) / 1000) * 1000 - 2000;
  const observed = observe(answered, { not_after: issued + lifetime, heartbeat: newest + 40 });
  expect(Math.floor((observed[0]?.at ?? 0) / 1000) * 1000).toBe(issued);
  expect(newestOf(observed)).toBe(newest + 40);
});

it("keeps the times of core's responses if the report is about another heartbeat or certificate", () => {
  const observed = observe(answered, {
    not_after: (answered[0] ?? 0) + lifetime - 60_000,
    heartbeat: newest - 30_000,
  });
  expect([observed[0]?.at, newestOf(observed)]).toEqual([answered[0], newest]);
});

it("omits failed steps, and a host that did not enroll", () => {
  const failed = answered.map((at, index) =>
    steps[index]?.kind === "heartbeat" ? Number.NaN : at,
  );
  expect(observe(failed, { not_after: 0, heartbeat: 0 }).map(({ kind }) => kind)).not.toContain(
    "heartbeat",
  );
  expect(observe([], { not_after: 0, heartbeat: 0 })).toEqual([]);
});
