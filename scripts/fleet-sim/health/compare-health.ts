import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import type { FleetHealth } from "./read-health.ts";

/** A field of a row that is not as predicted; the field `row` if only one report has the row. */
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
  /** Rows that differ. */
  differing: number;
  /** The first of the differences. */
  differences: Difference[];
  ok: boolean;
}

const differencesMax = 50;

/** `toleranceMs` is for timestamps; `isLifetimeKnown`: whether the prediction knows the lifetime of certificates. */
export interface CompareOptions {
  toleranceMs: number;
  isLifetimeKnown: boolean;
}

/** Compares two reports of one fleet, row by row and by state, except for ids and the words of evidence. */
export const compareHealth = (
  predicted: FleetHealth,
  live: FleetHealth,
  options: CompareOptions,
): Comparison => {
  const predictedRows = new Map(predicted.rows.map((row) => [row.identity, row]));
  const liveRows = new Map(live.rows.map((row) => [row.identity, row]));
  const identities = [...new Set([...predictedRows.keys(), ...liveRows.keys()])];
  const differences = identities.flatMap((identity) =>
    rowDifferences(identity, predictedRows.get(identity), liveRows.get(identity), options),
  );
  const counts = fleetStates.map(
    (state) =>
      [
        state,
        { predicted: predicted.byState[state] ?? 0, live: live.byState[state] ?? 0 },
      ] as const,
  );
  return {
    compared: predicted.rows.length,
    by_state: Object.fromEntries(counts) as Comparison["by_state"],
    differing: new Set(differences.map(({ identity }) => identity)).size,
    differences: differences.slice(0, differencesMax),
    ok:
      differences.length === 0 &&
      counts.every(([, count]) => count.predicted === count.live) &&
      JSON.stringify(predicted.thresholds) === JSON.stringify(live.thresholds),
  };
};

const rowDifferences = (
  identity: string,
  predicted: FleetHealthRow | undefined,
  live: FleetHealthRow | undefined,
  { toleranceMs, isLifetimeKnown }: CompareOptions,
): Difference[] => {
  if (predicted === undefined || live === undefined)
    return [
      { identity, field: "row", predicted: predicted?.state ?? null, live: live?.state ?? null },
    ];
  const isSameTime = (one: unknown, other: unknown) =>
    Math.abs(Date.parse(String(one)) - Date.parse(String(other))) <= toleranceMs;
  const fields = comparedFields(predicted, isLifetimeKnown);
  const others = comparedFields(live, isLifetimeKnown);
  return Object.entries(fields)
    .map(([field, value]) => ({ identity, field, predicted: value, live: others[field] }))
    .filter(({ field, predicted: one, live: other }) => {
      if (JSON.stringify(one) === JSON.stringify(other)) return false;
      return !(timestampFields.test(field) && isSameTime(one, other));
    });
};

const timestampFields = /_(at|after)$/;

const comparedFields = (
  row: FleetHealthRow,
  isLifetimeKnown: boolean,
): Record<string, unknown> => ({
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
  forwarding: row.forwarding,
  forwarder_connected: row.forwarder?.connected ?? null,
  forwarder_last_error: row.forwarder?.last_error ?? null,
  forwarder_last_ack_at: row.forwarder?.last_ack_at ?? null,
  last_auth_failure: row.last_auth_failure?.reason ?? null,
  enrolled_at: row.enrolled_at,
  last_heartbeat_at: row.last_heartbeat_at,
  last_envelope_at: row.last_envelope_at,
  ...(isLifetimeKnown && {
    certificate_not_after: row.certificate.not_after,
    certificate_renew_after: row.certificate.renew_after,
    successor_not_after: row.successor?.not_after ?? null,
  }),
});
