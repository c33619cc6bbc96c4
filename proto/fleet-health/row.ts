import * as v from "valibot";
import { mapValues } from "#kit/map-values.ts";
import { reportedNumbers } from "../management/reported-numbers.ts";
import { Id, IsoTimestamp, NumberOrNull, TextOrNull, TimestampOrNull } from "../values.ts";
import { HoldView, HostVolumeView } from "../volume.ts";
import {
  certificateStatuses,
  driftKinds,
  enrolledStatuses,
  fleetConditions,
  fleetStates,
  forwardings,
} from "./vocabulary.ts";

const { cpu_ms: _, ...process } = reportedNumbers.process;

/** The numbers of the process that a row has as they are reported: CPU time is in seconds. */
export const processOfRow = process;

const CertificateSummary = v.strictObject({
  id: Id,
  status: v.picklist(certificateStatuses),
  not_after: IsoTimestamp,
  renew_after: IsoTimestamp,
});

/** A condition that applies: since when as far as core knows, and the evidence in words. */
export const FleetConditionView = v.strictObject({
  state: v.picklist(fleetConditions),
  since: IsoTimestamp,
  evidence: v.string(),
});

/** One collector of the report (docs/fleet-health.md). */
export const FleetHealthRow = v.strictObject({
  identity_id: Id,
  identity: v.string(),
  device_id: v.string(),
  hostname: TextOrNull,
  platform: v.string(),
  version: v.string(),
  /** The labels that the host reports and those of its enrollment policy, which take precedence. */
  labels: v.record(v.string(), v.string()),
  state: v.picklist(fleetStates),
  /** Every condition that applies, in order of precedence: `state` is the first, or `healthy` without one. */
  conditions: v.array(FleetConditionView),
  enrolled_at: IsoTimestamp,
  last_heartbeat_at: TimestampOrNull,
  last_envelope_at: TimestampOrNull,
  /** How the host forwards; null for a revoked host, and for one that is silent with an empty queue. */
  forwarding: v.nullable(v.picklist(forwardings)),
  /** The collector's connection to core, as its last heartbeat reports it; null before the first. */
  forwarder: v.nullable(
    v.strictObject({
      connected: v.boolean(),
      last_ack_at: TimestampOrNull,
      last_error: TextOrNull,
    }),
  ),
  /** The certificate last used, or the newest if none has been used. */
  certificate: CertificateSummary,
  /** Its unused successor. */
  successor: v.nullable(CertificateSummary),
  config: v.strictObject({
    running_config_hash: TextOrNull,
    desired_config_hash: TextOrNull,
    last_known_good_config_hash: TextOrNull,
    drift: v.picklist(driftKinds),
  }),
  queue: v.strictObject(mapValues(reportedNumbers.queue, () => NumberOrNull)),
  /** The numbers of the collector's process, and how often core has seen it restart; null if not reported. */
  process: v.strictObject({
    ...mapValues(processOfRow, () => NumberOrNull),
    cpu_seconds: NumberOrNull,
    restarts: NumberOrNull,
  }),
  renewal: v.strictObject({ status: TextOrNull, last_error: TextOrNull }),
  last_auth_failure: v.nullable(v.strictObject({ at: IsoTimestamp, reason: v.string() })),
  /** The machine of the core that received the last heartbeat, and the /24 or /64 that it came from, as core saw it; null if not known. */
  core: TextOrNull,
  subnet: TextOrNull,
  /** Its hours that began in the last 24 h and are short, late or silent, or for which core was out; null if none is settled. */
  incomplete_hours: NumberOrNull,
  /** Bytes that core stored for it; absent until they are counted. */
  volume: v.optional(HostVolumeView),
  /** Core stores nothing more of it until a time, because it has sent its budget; absent for other hosts. */
  hold: v.optional(HoldView),
  /** Its status in the inventory of expected hosts; absent without an inventory, or when it has none. */
  inventory: v.optional(
    v.strictObject({ status: v.picklist(enrolledStatuses), owner: TextOrNull }),
  ),
  /** Acknowledged records that a restored database lost: at most `records_max`, in `ranges` audit events `ingest.gap`. */
  ingest_gap: v.nullable(
    v.strictObject({ ranges: v.number(), records_max: v.number(), last_at: IsoTimestamp }),
  ),
});

/** One collector of the report. */
export type FleetHealthRow = v.InferOutput<typeof FleetHealthRow>;
