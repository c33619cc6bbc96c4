import type { FleetHealthRow } from "../../../proto/fleet-health/row.ts";
import { type FleetState, fleetStates } from "../../../proto/fleet-health/vocabulary.ts";
import type { FleetHealth } from "./read-health.ts";

/** What of a row is not what was predicted. */
export interface Difference {
  identity: string;
  field: string;
  predicted: unknown;
  live: unknown;
}

/** How a live report agrees with the predicted one. */
export interface Comparison {
  compared: number;
  by_state: Record<FleetState, { predicted: number; live: number }>;
  /** Rows that differ, or that only one side has. */
  differing: number;
  /** The first of the differences. */
  differences: Difference[];
  ok: boolean;
}

const differencesMax = 50;

/**
 * Compares two reports of one fleet, row by row and by state. Ids and words of evidence are each side's own; times may differ by
 * `toleranceMs`. `isLifetimeKnown`: whether the prediction knows for how long certificates are issued.
 */
export const compareHealth = (
  predicted: FleetHealth,
  live: FleetHealth,
  { toleranceMs, isLifetimeKnown }: { toleranceMs: number; isLifetimeKnown: boolean },
): Comparison => {
  const liveRows = new Map(live.rows.map((row) => [row.identity, row]));
  const differences: Difference[] = [];
  const differing = new Set<string>();
  const found = (difference: Difference) => {
    differing.add(difference.identity);
    if (differences.length < differencesMax) differences.push(difference);
  };
  for (const row of predicted.rows) {
    const other = liveRows.get(row.identity);
    if (other === undefined) found({ identity: row.identity, field: "row", predicted: row.state, live: null });
    else for (const difference of rowDifferences(row, other, { toleranceMs, isLifetimeKnown })) found(difference);
    liveRows.delete(row.identity);
  }
  for (const row of liveRows.values())
    found({ identity: row.identity, field: "row", predicted: null, live: row.state });
  const counts = fleetStates.map((state) => {
    const [ours, theirs] = [predicted.byState[state] ?? 0, live.byState[state] ?? 0];
    return [state, { predicted: ours, live: theirs }] as const;
  });
  return {
    compared: predicted.rows.length,
    by_state: Object.fromEntries(counts) as Comparison["by_state"],
    differing: differing.size,
    differences,
    ok:
      differing.size === 0 &&
      counts.every(([, count]) => count.predicted === count.live) &&
      JSON.stringify(predicted.thresholds) === JSON.stringify(live.thresholds),
  };
};

const rowDifferences = (
  predicted: FleetHealthRow,
  live: FleetHealthRow,
  { toleranceMs, isLifetimeKnown }: { toleranceMs: number; isLifetimeKnown: boolean },
): Difference[] => {
  const { identity } = predicted;
  const [said, seen] = [facts(predicted), facts(live)];
  const [times, seenTimes] = [moments(predicted, isLifetimeKnown), moments(live, isLifetimeKnown)];
  return [
    ...Object.entries(said)
      .filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(seen[field]))
      .map(([field, value]) => ({ identity, field, predicted: value, live: seen[field] })),
    ...Object.entries(times)
      .filter(([field, value]) => !isNear(value, seenTimes[field] ?? null, toleranceMs))
      .map(([field, value]) => ({ identity, field, predicted: value, live: seenTimes[field] ?? null })),
  ];
};

/** What must be the same. */
const facts = (row: FleetHealthRow): Record<string, unknown> => ({
  state: row.state,
  conditions: row.conditions.map(({ state }) => state),
  device_id: row.device_id,
  hostname: row.hostname,
  platform: row.platform,
  version: row.version,
  certificate_status: row.certificate.status,
  successor_status: row.successor?.status ?? null,
  config: row.config,
  queue: row.queue,
  renewal: row.renewal,
  last_auth_failure: row.last_auth_failure?.reason ?? null,
});

/** What must be about the same. */
const moments = (row: FleetHealthRow, isLifetimeKnown: boolean): Record<string, string | null> => ({
  enrolled_at: row.enrolled_at,
  last_heartbeat_at: row.last_heartbeat_at,
  last_envelope_at: row.last_envelope_at,
  ...(isLifetimeKnown
    ? {
        certificate_not_after: row.certificate.not_after,
        certificate_renew_after: row.certificate.renew_after,
        successor_not_after: row.successor?.not_after ?? null,
      }
    : {}),
});

const isNear = (one: string | null, other: string | null, toleranceMs: number): boolean =>
  one === null || other === null ? one === other : Math.abs(Date.parse(one) - Date.parse(other)) <= toleranceMs;
