/** The series of a moment: a metric with its labels, and its values minute by minute in promtool's notation. */
export type Series = Readonly<Record<string, string>>;

/** When an alert fires, and when it must not: in a small fault, a short one, or none. */
export interface AlertScenario {
  fires: Series;
  /** Minutes after which it fires. */
  after: number;
  quiet: Series;
}

/** Whether Prometheus reaches a core. */
export const up = 'up{job="svc-core",instance="a"}';
/** A metric of that core. */
export const one = (name: string, labels: Readonly<Record<string, string | number>> = {}) => {
  const pairs = Object.entries({ job: "svc-core", instance: "a", ...labels });
  return `${name}{${pairs.map(([label, value]) => `${label}="${value}"`).join()}}`;
};
const hosts = (state: string) => one("core_hosts", { state });
const expiry = (certificate: string) =>
  one("core_certificate_expiry_timestamp_seconds", { certificate });
const route = "/v1/whoami";
const requests = (status: number) =>
  one("core_http_request_duration_seconds_count", { route, status });
const requestBucket = (le: string) =>
  one("core_http_request_duration_seconds_bucket", { route, status: 200, le });
const commitBucket = (le: string) => one("core_ingest_commit_seconds_bucket", { le });
const check = (endpoint: string, name: string) =>
  one("core_check_ready", { endpoint, check: name });
const heartbeats = (outcome: string) => one("core_heartbeat_total", { outcome });

/** The same value for five hours. */
const still = (value: number) => `${value}x300`;
/** A counter that grows by this much a minute. */
const growing = (perMinute: number) => `0+${perMinute}x300`;
const day = 86_400;

/** A metric that fires at one value, and not at another. */
const limit = (
  metric: string,
  { after, fires, quiet }: Record<"after" | "fires" | "quiet", number>,
): AlertScenario => ({
  fires: { [metric]: still(fires) },
  after,
  quiet: { [metric]: still(quiet) },
});
/** The counters of a histogram that grow by these many a minute, by upper bound. */
const buckets = (bucket: (le: string) => string, perMinute: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(perMinute).map(([le, count]) => [bucket(le), growing(count)]));

/** A scenario for every alert of docs/deploy/monitoring/alerts.yaml. Time starts at the epoch. */
export const alertScenarios = {
  SvcHoursShort: limit(one("core_completeness_states", { state: "short" }), {
    fires: 1,
    after: 2,
    quiet: 0,
  }),
  SvcInventoryDiffers: {
    fires: { [one("core_inventory_hosts", { status: "gone" })]: still(3) },
    after: 241,
    quiet: {
      [one("core_inventory_hosts", { status: "expected" })]: still(900),
      [one("core_inventory_hosts", { status: "missing" })]: "7x100 0x200",
    },
  },
  SvcHostsHeld: {
    fires: { [one("core_held_hosts", { budget: "test" })]: still(2) },
    after: 16,
    quiet: {
      [one("core_held_hosts", { budget: "test" })]: "2x10 0x300",
      [one("core_held_hosts", { budget: "all" })]: still(0),
    },
  },
  SvcRetentionPaused: limit(one("core_retention_paused"), { fires: 1, after: 6, quiet: 0 }),
  SvcNoCore: {
    fires: { [up]: still(0) },
    after: 2,
    quiet: { [up]: still(1), 'up{job="svc-core",instance="b"}': still(0) },
  },
  SvcCoreDown: { fires: { [up]: still(0) }, after: 6, quiet: { [up]: "1 0 0 0 1x300" } },
  SvcCheckNotReady: {
    fires: { [check("core", "database")]: still(0) },
    after: 4,
    quiet: { [check("core", "database")]: "0 0 1x300", [check("licensing", "license")]: still(0) },
  },
  SvcLicenseNotValid: limit(check("licensing", "license"), { fires: 0, after: 61, quiet: 1 }),
  SvcRequestsFail: {
    fires: { [requests(200)]: growing(900), [requests(503)]: growing(100) },
    after: 11,
    quiet: {
      [requests(200)]: growing(1000),
      [requests(404)]: growing(500),
      [requests(500)]: growing(1),
    },
  },
  SvcRequestsSlow: {
    fires: {
      [requests(200)]: growing(60),
      ...buckets(requestBucket, { "2.5": 30, "5": 60, "+Inf": 60 }),
    },
    after: 21,
    quiet: {
      [requests(200)]: growing(60),
      ...buckets(requestBucket, { "2.5": 60, "5": 60, "+Inf": 60 }),
    },
  },
  SvcEventLoopBlocked: limit(one("nodejs_eventloop_lag_p99_seconds"), {
    fires: 0.6,
    after: 11,
    quiet: 0.4,
  }),
  SvcFleetUnknown: {
    fires: { [up]: still(1) },
    after: 11,
    quiet: { [up]: still(1), [hosts("healthy")]: still(0) },
  },
  SvcIngestStopped: {
    fires: {
      [one("core_ingest_envelopes_total")]: still(900),
      [one("core_waiting_hosts")]: still(1),
    },
    after: 25,
    quiet: {
      [one("core_ingest_envelopes_total")]: still(900),
      [one("core_waiting_hosts")]: "1x10 0x300",
    },
  },
  SvcIngestSlow: {
    fires: buckets(commitBucket, { "1": 10, "2.5": 20, "+Inf": 20 }),
    after: 16,
    quiet: buckets(commitBucket, { "1": 20, "2.5": 20, "+Inf": 20 }),
  },
  SvcIngestFull: limit(one("core_ingest_in_flight_bytes"), {
    fires: 60_000_000,
    after: 6,
    quiet: 40_000_000,
  }),
  SvcTelemetryLost: {
    fires: { [one("core_ingest_gaps_total")]: "0 0 0 1x300" },
    after: 5,
    quiet: { [one("core_ingest_gaps_total")]: still(7) },
  },
  SvcEnvelopesRejected: {
    fires: { [one("core_ingest_rejected_total", { code: "payload_too_large" })]: growing(1) },
    after: 20,
    quiet: { [one("core_ingest_rejected_total", { code: "payload_too_large" })]: still(12) },
  },
  SvcHostsSilent: {
    fires: {
      [hosts("stale")]: still(6),
      [hosts("healthy")]: still(94),
      [hosts("revoked")]: still(900),
    },
    after: 11,
    quiet: { [hosts("stale")]: still(4), [hosts("healthy")]: still(96) },
  },
  SvcQueuesAtRisk: {
    fires: { [hosts("queue_at_risk")]: still(1) },
    after: 16,
    quiet: { [hosts("queue_at_risk")]: "1x10 0x300" },
  },
  SvcRenewalsFail: {
    fires: { [hosts("renewal_failed")]: still(1) },
    after: 61,
    quiet: { [hosts("renewal_failed")]: "1x30 0x300" },
  },
  SvcHeartbeatsRejected: {
    fires: { [heartbeats("admitted")]: growing(90), [heartbeats("clock_skew")]: growing(10) },
    after: 21,
    quiet: { [heartbeats("admitted")]: growing(99), [heartbeats("clock_skew")]: growing(1) },
  },
  SvcEnrollmentsRejected: {
    fires: { [one("core_enroll_total", { outcome: "token_invalid" })]: growing(10) },
    after: 16,
    quiet: {
      [one("core_enroll_total", { outcome: "issued" })]: growing(1000),
      [one("core_enroll_total", { outcome: "retried" })]: growing(100),
      [one("core_enroll_total", { outcome: "token_invalid" })]: growing(2),
    },
  },
  SvcExportBehind: limit(one("core_export_lag_seconds", { export: "loki" }), {
    fires: 901,
    after: 6,
    quiet: 899,
  }),
  SvcExportPassedOver: limit(one("core_export_unaccounted_envelopes", { export: "loki" }), {
    fires: 1,
    after: 6,
    quiet: 0,
  }),
  SvcExportRejected: limit(one("core_export_dead_letters", { export: "loki" }), {
    fires: 1,
    after: 16,
    quiet: 0,
  }),
  SvcRolloutPaused: {
    fires: { [one("core_rollouts", { state: "paused" })]: still(1) },
    after: 6,
    quiet: {
      [one("core_rollouts", { state: "running" })]: still(3),
      [one("core_rollouts", { state: "paused" })]: still(0),
    },
  },
  SvcWatchMessagesWait: limit(one("core_watch_message_age_seconds", { receiver: "on-call" }), {
    fires: 601,
    after: 6,
    quiet: 599,
  }),
  SvcWatchesNotEvaluated: limit(one("core_watch_evaluation_age_seconds"), {
    fires: 121,
    after: 6,
    quiet: 30,
  }),
  SvcCertificateExpires: {
    fires: { [expiry("enrollment_ca")]: still(29 * day) },
    after: 16,
    quiet: {
      [expiry("enrollment_ca")]: still(31 * day),
      [expiry("ingest_server")]: still(8 * day),
    },
  },
  SvcCertificateExpiresToday: limit(expiry("ingest_server"), {
    fires: day,
    after: 1,
    quiet: 2 * day,
  }),
  SvcDirectoryOld: limit(one("directory_snapshot_timestamp_seconds"), {
    fires: 1,
    after: 257,
    quiet: 0,
  }),
  SvcDirectoryHeld: limit(one("directory_absences_held"), { fires: 3, after: 31, quiet: 0 }),
};
