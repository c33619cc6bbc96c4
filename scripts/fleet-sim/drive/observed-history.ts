import type { FleetHealthRow } from "../../../proto/fleet-health/row.ts";
import type { FleetHealth } from "../health/read-health.ts";
import type { HostHistory } from "../model/model-host.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import type { Plan } from "../scenario/plan.ts";
import { historyOf, type Step, withoutOverwritten } from "../scenario/steps.ts";
import type { Part } from "./player.ts";

/**
 * The histories as they happened: the steps that core took, at the times that it took them. One host at a time is in memory. Core tells
 * when it answered, and keeps when it wrote a heartbeat or issued a certificate; near a threshold the moment between them counts, so
 * the newest heartbeat, and an enrollment that no renewal followed, are told at the times that the report gives them, if that can be.
 */
export const observedHistories = function* (
  plan: Plan,
  { parts, live, toleranceMs }: { parts: readonly Part[]; live: FleetHealth; toleranceMs: number },
): Generator<HostHistory> {
  const rows = new Map(live.rows.map((row) => [row.identity, row]));
  for (const { driven, times } of parts) {
    const { host } = driven;
    const steps: Step[] = [];
    let index = 0;
    for (const step of historyOf(plan, stepsOf(plan, host))) {
      const at = times?.[index++];
      if (at !== undefined && !Number.isNaN(at)) steps.push({ ...step, at });
    }
    const row = rows.get(host.identity);
    if (row !== undefined) sharpen(steps, row, plan, toleranceMs);
    if (steps[0]?.kind === "enroll") yield { host, steps: withoutOverwritten(steps) };
  }
};

const sharpen = (steps: readonly Step[], row: FleetHealthRow, plan: Plan, toleranceMs: number): void => {
  const [first] = steps;
  if (first?.kind === "enroll" && !steps.some(({ kind }) => kind === "renew" || kind === "age")) {
    // Certificates are dated by whole seconds.
    const issued = Date.parse(row.certificate.not_after) - plan.ttlSeconds[first.ttl] * 1000 + (first.at % 1000);
    if (first.at - issued <= toleranceMs && issued <= first.at) first.at = issued;
  }
  const newest = steps.findLast((step) => step.kind === "heartbeat" && step.expected === "accepted");
  const written = Date.parse(row.last_heartbeat_at ?? "");
  if (newest && Math.abs(written - newest.at) <= toleranceMs) newest.at = written;
};
