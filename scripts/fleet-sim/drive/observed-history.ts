import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetHealth } from "../health/read-health.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import type { Plan } from "../scenario/plan.ts";
import {
  type HostHistory,
  type Step,
  stepsUntilEnd,
  withoutOverwritten,
} from "../scenario/steps.ts";
import type { PlayedHost } from "./player.ts";

/**
 * Yields the histories as core observed them: the steps that it accepted, at its times, with one host at a time in memory. Core
 * reports when it responded, and stores when it wrote a heartbeat or issued a certificate; near a threshold the difference counts.
 * So the newest heartbeat, and an enrollment without a renewal, get the times of the live report if these are within the tolerance.
 */
export const observedHistories = function* (
  plan: Plan,
  {
    played,
    live,
    toleranceMs,
  }: { played: readonly PlayedHost[]; live: FleetHealth; toleranceMs: number },
): Generator<HostHistory> {
  const rows = new Map(live.rows.map((row) => [row.identity, row]));
  for (const { driven, times } of played) {
    const { host } = driven;
    const steps: Step[] = [];
    let index = 0;
    for (const step of stepsUntilEnd(plan, stepsOf(plan, host))) {
      const at = times?.[index++];
      if (at !== undefined && !Number.isNaN(at)) steps.push({ ...step, at });
    }
    const row = rows.get(host.identity);
    if (row !== undefined) applyStoredTimes(steps, row, plan, toleranceMs);
    if (steps[0]?.kind === "enroll") yield withoutOverwritten({ host, steps });
  }
};

const applyStoredTimes = (
  steps: readonly Step[],
  row: FleetHealthRow,
  plan: Plan,
  toleranceMs: number,
): void => {
  const [first] = steps;
  if (first?.kind === "enroll" && !steps.some(({ kind }) => kind === "renew")) {
    // Certificates are dated by whole seconds.
    const issued =
      Date.parse(row.certificate.not_after) - plan.ttlSeconds[first.ttl] * 1000 + (first.at % 1000);
    if (first.at - issued <= toleranceMs && issued <= first.at) first.at = issued;
  }
  const newest = steps.findLast(
    (step) => step.kind === "heartbeat" && step.expected === "accepted",
  );
  const written = Date.parse(row.last_heartbeat_at ?? "");
  if (newest && Math.abs(written - newest.at) <= toleranceMs) newest.at = written;
};
