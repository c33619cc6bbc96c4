import { describe, expect, it } from "vitest";
import type { FleetHealth } from "../health/read-health.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import { createHosts } from "../scenario/hosts.ts";
import { createPlan } from "../scenario/plan.ts";
import { historyOf, type Step } from "../scenario/steps.ts";
import type { DrivenHost } from "./driven-host.ts";
import { observedHistories } from "./observed-history.ts";

describe("a history as it happened", async () => {
  const startsAt = Date.UTC(2026, 0, 1);
  const plan = await createPlan({
    ...{ scenario: "fleet-100", hosts: 40, seed: 4, identityPrefix: "spiffe://fleet.test/", startsAt },
    ...{ durationSeconds: 300, heartbeatIntervalSeconds: 60, versionMin: null },
    ...{ hasOperator: true, canAge: false, isOld: false },
  });
  const host = createHosts(plan).find(({ role }) => role === "steady");
  if (host === undefined) throw new Error("no host is steady");
  const story = [...historyOf(plan, stepsOf(plan, host))];
  const driven = { host } as unknown as DrivenHost;
  const rfc3339 = (at: number) => new Date(at).toISOString();

  const tell = (times: number[], row: { not_after: number; heard: number }): readonly Step[] => {
    const live = {
      rows: [
        {
          identity: host.identity,
          last_heartbeat_at: rfc3339(row.heard),
          certificate: { not_after: rfc3339(row.not_after) },
        },
      ],
    } as unknown as FleetHealth;
    const [told] = observedHistories(plan, { parts: [{ driven, steps: [].values(), times }], live, toleranceMs: 5000 });
    return told?.steps ?? [];
  };
  const lifetime = plan.ttlSeconds.usual * 1000;
  /** Each step a quarter of a second late, by core's answers. */
  const answered = story.map(({ at }) => at + 250);
  const newestOf = (steps: readonly Step[]) => steps.findLast(({ kind }) => kind === "heartbeat")?.at ?? 0;
  const newest = answered[story.findLastIndex(({ kind }) => kind === "heartbeat")] ?? 0;

  it("has the newest heartbeat when core wrote it, and the certificate from when core issued it", () => {
    const issued = Math.floor((answered[0] ?? 0) / 1000) * 1000 - 2000;
    const steps = tell(answered, { not_after: issued + lifetime, heard: newest + 40 });
    expect(Math.floor((steps[0]?.at ?? 0) / 1000) * 1000).toBe(issued);
    expect(newestOf(steps)).toBe(newest + 40);
  });

  it("keeps the times of core's answers where the report tells of something else", () => {
    const steps = tell(answered, { not_after: (answered[0] ?? 0) + lifetime - 60_000, heard: newest - 30_000 });
    expect([steps[0]?.at, newestOf(steps)]).toEqual([answered[0], newest]);
  });

  it("leaves out what failed, and all of a host that did not enroll", () => {
    const failed = answered.map((at, index) => (story[index]?.kind === "heartbeat" ? Number.NaN : at));
    expect(tell(failed, { not_after: 0, heard: 0 }).map(({ kind }) => kind)).not.toContain("heartbeat");
    expect(tell([], { not_after: 0, heard: 0 })).toEqual([]);
  });
});
