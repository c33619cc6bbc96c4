import * as v from "valibot";
import { HeartbeatRequest } from "../../proto/management/heartbeat.ts";

const Time = v.nullable(v.string());
const Text = v.nullable(v.string());

/** The output of `svc-collector status --json`. Times are RFC 3339; nothing in it is secret. */
export const CollectorStatus = v.object({
  version: v.string(),
  commit: v.string(),
  pid: v.number(),
  started_at: v.string(),
  now: v.string(),
  identity: v.string(),
  /** From the config. The enrollment policy may set others in core. */
  labels: v.record(v.string(), v.string()),
  config: v.object({
    valid: v.boolean(),
    errors: v.array(v.string()),
    running_config_hash: Text,
    desired_config_hash: Text,
    last_known_good_config_hash: Text,
  }),
  queue: HeartbeatRequest.entries.queue,
  conditions: HeartbeatRequest.entries.conditions,
  /** Corrupt queue files that were quarantined, and their records; and those that damage took back without such a file. */
  quarantine: v.object({
    files: v.number(),
    records: v.number(),
    lost_records: v.optional(v.number(), 0),
  }),
  forwarder: v.object({
    endpoint: v.string(),
    connected: v.boolean(),
    last_ack_at: Time,
    last_error: Text,
  }),
  /** Null without `management.core_url`. */
  heartbeat: v.nullable(v.object({ last_success_at: Time, last_error: Text })),
  certificate: v.object({
    serial_number: v.string(),
    fingerprint_sha256: v.string(),
    not_before: v.string(),
    not_after: v.string(),
  }),
  renewal: v.object({
    status: v.string(),
    last_attempt_at: Time,
    next_attempt_at: Time,
    last_error: Text,
  }),
  sources: v.array(v.object({ name: v.string(), counters: v.record(v.string(), v.number()) })),
});

/** The status of a running collector. */
export type CollectorStatus = v.InferOutput<typeof CollectorStatus>;
