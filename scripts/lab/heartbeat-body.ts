import { dayMs } from "#kit/clock.ts";

/**
 * Returns the body of a heartbeat of a healthy collector at `now`, without its proof; `over` replaces fields. It started at midnight, so that
 * its reports repeat, as those of a working host do.
 */
export const heartbeatBody = (
  now: number,
  over: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> => ({
  sent_at: new Date(now).toISOString(),
  boot_id: "boot-1",
  collector: {
    version: "1.2.3",
    commit: "0123abc",
    hostname: "web-1",
    platform: "linux/amd64",
    started_at: new Date(now - (now % dayMs)).toISOString(),
  },
  config: { valid: true, errors: [], running_config_hash: "a".repeat(64) },
  queue: {
    records: 3,
    bytes: 4096,
    max_bytes: 104_857_600,
    oldest_record_age_seconds: 5,
    dropped_records_total: 0,
    at_risk: false,
  },
  forwarder: { connected: true, last_ack_at: new Date(now - 1000).toISOString(), last_error: null },
  renewal: { status: "ok", last_attempt_at: null, next_attempt_at: null, last_error: null },
  ...over,
});
