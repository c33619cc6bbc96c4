import * as v from "valibot";
import { Id, Moment } from "../values.ts";
import { certificateStatuses, driftKinds, fleetConditions, fleetStates } from "./vocabulary.ts";

const MomentOrNone = v.nullable(Moment);
const TextOrNone = v.nullable(v.string());
const NumberOrNone = v.nullable(v.number());

const CertificateSummary = v.strictObject({
  id: Id,
  status: v.picklist(certificateStatuses),
  not_after: Moment,
  renew_after: Moment,
});

/** Why a row is in a state: since when as far as core knows, and the evidence in words. */
export const FleetConditionView = v.strictObject({
  state: v.picklist(fleetConditions),
  since: Moment,
  evidence: v.string(),
});

/** One collector of the report (contract, section 6, "Row"). */
export const FleetHealthRow = v.strictObject({
  identity_id: Id,
  identity: v.string(),
  device_id: v.string(),
  hostname: TextOrNone,
  platform: v.string(),
  version: v.string(),
  state: v.picklist(fleetStates),
  /** Every condition that holds, in order of precedence: `state` is the first, or `healthy` when there is none. */
  conditions: v.array(FleetConditionView),
  enrolled_at: Moment,
  last_heartbeat_at: MomentOrNone,
  last_envelope_at: MomentOrNone,
  /** The certificate last used; the newest while none has been used. */
  certificate: CertificateSummary,
  /** Its successor that nobody has used yet. */
  successor: v.nullable(CertificateSummary),
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

/** One collector of the report. */
export type FleetHealthRow = v.InferOutput<typeof FleetHealthRow>;
