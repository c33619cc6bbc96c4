import { conditionsOf } from "#functions/domain/fleet/conditions.ts";
import { viewOf } from "#functions/http/route.ts";
import type { FleetRow } from "#functions/store/fleet/report.ts";
import type { CountingRules, FleetRules, FleetThresholds } from "#functions/store/fleet/rows.ts";
import { timestampOf } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { FleetThresholdsView } from "#proto/fleet-health/report.ts";
import { type FleetHealthRow, processOfRow } from "#proto/fleet-health/row.ts";
import { certificateStatus } from "#proto/fleet-health/vocabulary.ts";
import { reportedNumbers } from "#proto/management/reported-numbers.ts";

const timestampOrNull = (text: string | null) => (text === null ? null : timestampOf(text));
const numberOrNull = (text: string | null) => (text === null ? null : Number(text));

/** Returns the view of a row by the rules that selected it. */
export const healthRowView = (row: FleetRow, rules: CountingRules): FleetHealthRow => ({
  identity_id: row.id,
  identity: row.identity,
  device_id: row.device_id,
  hostname: row.hostname,
  platform: row.platform,
  version: row.version,
  labels: row.labels,
  state: row.state,
  conditions: conditionsOf(row, rules),
  enrolled_at: timestampOf(row.enrolled_at),
  last_heartbeat_at: timestampOrNull(row.last_heartbeat_at),
  last_envelope_at: timestampOrNull(row.last_envelope_at),
  forwarding: row.forwarding,
  forwarder: forwarderOf(row),
  certificate: certificateOf(row, rules.now),
  successor: successorOf(row),
  config: {
    running_config_hash: row.running_config_hash,
    desired_config_hash: row.desired_config_hash,
    last_known_good_config_hash: row.last_known_good_config_hash,
    drift: row.drift,
  },
  queue: mapValues(reportedNumbers.queue, ({ column }) => numberOrNull(row[column])),
  process: {
    ...mapValues(processOfRow, ({ column }) => numberOrNull(row[column])),
    cpu_seconds: row.cpu_ms === null ? null : Number(row.cpu_ms) / 1000,
    restarts: row.starts,
  },
  renewal: { status: row.renewal_status, last_error: row.renewal_last_error },
  last_auth_failure: authFailureOf(row),
  ingest_gap: gapOf(row),
  core: row.core,
  subnet: row.subnet,
  incomplete_hours: row.incomplete_hours,
  ...absentUnlessKnown(row),
});

const forwarderOf = (row: FleetRow): FleetHealthRow["forwarder"] =>
  row.forwarder_connected === null
    ? null
    : {
        connected: row.forwarder_connected,
        last_ack_at: timestampOrNull(row.forwarder_last_ack_at),
        last_error: row.forwarder_last_error,
      };

const certificateOf = (row: FleetRow, now: Date): FleetHealthRow["certificate"] => {
  const notAfter = timestampOf(row.certificate_not_after);
  return {
    id: row.certificate_id,
    status: certificateStatus(
      { status: row.certificate_status, notAfter: new Date(notAfter) },
      now.getTime(),
    ),
    not_after: notAfter,
    renew_after: timestampOf(row.certificate_renew_after),
  };
};

const successorOf = (row: FleetRow): FleetHealthRow["successor"] =>
  row.successor_id !== null &&
  row.successor_not_after !== null &&
  row.successor_renew_after !== null
    ? {
        id: row.successor_id,
        status: "active",
        not_after: timestampOf(row.successor_not_after),
        renew_after: timestampOf(row.successor_renew_after),
      }
    : null;

const authFailureOf = (row: FleetRow): FleetHealthRow["last_auth_failure"] =>
  row.last_auth_failure_at !== null && row.last_auth_failure_reason !== null
    ? { at: timestampOf(row.last_auth_failure_at), reason: row.last_auth_failure_reason }
    : null;

const gapOf = (row: FleetRow): FleetHealthRow["ingest_gap"] =>
  row.gap_last_at !== null
    ? {
        ranges: Number(row.gap_ranges),
        records_max: Number(row.gap_records_max),
        last_at: timestampOf(row.gap_last_at),
      }
    : null;

/** Returns the members that a row has only if the host's volume, the budget that holds it or its inventory entry are known. */
const absentUnlessKnown = (
  row: FleetRow,
): Pick<FleetHealthRow, "volume" | "hold" | "inventory"> => ({
  ...(row.day_bytes === null
    ? {}
    : { volume: { day_bytes: Number(row.day_bytes), usual_bytes: numberOrNull(row.usual_bytes) } }),
  ...(row.hold && {
    hold: { ...row.hold, since: timestampOf(row.hold.since), until: timestampOf(row.hold.until) },
  }),
  ...(row.inventory_status
    ? { inventory: { status: row.inventory_status, owner: row.inventory_owner } }
    : {}),
});

/** Returns the mark of a view of the past. */
export const pastMarkOf = ({ past, now }: FleetRules): { at?: string } =>
  past ? { at: now.toISOString() } : {};

const thresholdsOf = viewOf(FleetThresholdsView);

/** Returns the view of thresholds. */
export const thresholdsView = (thresholds: FleetThresholds): FleetThresholdsView =>
  thresholdsOf({ ...thresholds, minVersion: thresholds.versionMin });
