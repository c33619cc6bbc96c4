import * as v from "valibot";
import { driftKinds, fleetStates } from "../../../../proto/fleet-health.ts";
import { conditionsOf } from "../../../domain/fleet/conditions.ts";
import type { FleetRow } from "../../../store/fleet-report.ts";
import type { FleetThresholds } from "../../../store/fleet-thresholds.ts";
import { Id, Moment } from "../../shapes.ts";
import { CertificateStatus, certificateStatus } from "../certificates/certificate.ts";

const MomentOrNone = v.nullable(Moment);
const TextOrNone = v.nullable(v.string());
const NumberOrNone = v.nullable(v.number());

const CertificateView = v.strictObject({
  id: Id,
  status: CertificateStatus,
  not_after: Moment,
  renew_after: Moment,
});

/** One collector of the report (contract, section 6, "Row"). */
export const HealthRowView = v.strictObject({
  identity_id: Id,
  identity: v.string(),
  device_id: v.string(),
  hostname: TextOrNone,
  platform: v.string(),
  version: v.string(),
  state: v.picklist(fleetStates),
  conditions: v.array(v.strictObject({ state: v.picklist(fleetStates), since: Moment, evidence: v.string() })),
  enrolled_at: Moment,
  last_heartbeat_at: MomentOrNone,
  last_envelope_at: MomentOrNone,
  certificate: CertificateView,
  successor: v.nullable(CertificateView),
  config: v.strictObject({
    running_config_hash: TextOrNone,
    desired_config_hash: TextOrNone,
    last_known_good_config_hash: TextOrNone,
    drift: v.picklist(driftKinds),
  }),
  queue: v.strictObject({
    records: NumberOrNone,
    bytes: NumberOrNone,
    max_bytes: NumberOrNone,
    oldest_record_age_seconds: NumberOrNone,
    dropped_records_total: NumberOrNone,
  }),
  renewal: v.strictObject({ status: TextOrNone, last_error: TextOrNone }),
  last_auth_failure: v.nullable(v.strictObject({ at: Moment, reason: v.string() })),
});

const moment = (text: string): string => new Date(text).toISOString();
const momentOrNull = (text: string | null): string | null => (text === null ? null : moment(text));
const numberOrNull = (text: string | null): number | null => (text === null ? null : Number(text));

/** The view of a row at `now`. */
export const healthRowView = (
  row: FleetRow,
  thresholds: FleetThresholds,
  now: Date,
): v.InferOutput<typeof HealthRowView> => ({
  identity_id: row.id,
  identity: row.identity,
  device_id: row.device_id,
  hostname: row.hostname,
  platform: row.platform,
  version: row.version,
  state: row.state,
  conditions: conditionsOf(row, thresholds, now),
  enrolled_at: moment(row.enrolled_at),
  last_heartbeat_at: momentOrNull(row.last_heartbeat_at),
  last_envelope_at: momentOrNull(row.last_envelope_at),
  certificate: {
    id: row.certificate_id,
    status: certificateStatus(
      { status: row.certificate_status, notAfter: new Date(row.certificate_not_after) },
      now.getTime(),
    ),
    not_after: moment(row.certificate_not_after),
    renew_after: moment(row.certificate_renew_after),
  },
  successor:
    row.successor_id !== null && row.successor_not_after !== null && row.successor_renew_after !== null
      ? {
          id: row.successor_id,
          status: "active",
          not_after: moment(row.successor_not_after),
          renew_after: moment(row.successor_renew_after),
        }
      : null,
  config: {
    running_config_hash: row.running_config_hash,
    desired_config_hash: row.desired_config_hash,
    last_known_good_config_hash: row.last_known_good_config_hash,
    drift: row.drift,
  },
  queue: {
    records: numberOrNull(row.queue_records),
    bytes: numberOrNull(row.queue_bytes),
    max_bytes: numberOrNull(row.queue_bytes_max),
    oldest_record_age_seconds: numberOrNull(row.queue_oldest_record_age_seconds),
    dropped_records_total: numberOrNull(row.dropped_records_total),
  },
  renewal: { status: row.renewal_status, last_error: row.renewal_last_error },
  last_auth_failure:
    row.last_auth_failure_at !== null && row.last_auth_failure_reason !== null
      ? { at: moment(row.last_auth_failure_at), reason: row.last_auth_failure_reason }
      : null,
});
