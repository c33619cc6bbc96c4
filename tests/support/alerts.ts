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
const hosts = (state: string) => `core_hosts{job="svc-core",instance="a",state="${state}"}`;
const expiry = (certificate: string) =>
  `core_certificate_expiry_timestamp_seconds{job="svc-core",instance="a",certificate="${certificate}"}`;
const requests = (status: number) =>
  `core_http_request_duration_seconds_count{job="svc-core",instance="a",route="/v1/whoami",status="${status}"}`;
const requestBucket = (le: string) =>
  `core_http_request_duration_seconds_bucket{job="svc-core",instance="a",route="/v1/whoami",status="200",le="${le}"}`;
const commitBucket = (le: string) =>
  `core_ingest_commit_seconds_bucket{job="svc-core",instance="a",le="${le}"}`;
const check = (endpoint: string, name: string) =>
  `core_check_ready{job="svc-core",instance="a",endpoint="${endpoint}",check="${name}"}`;
const heartbeats = (outcome: string) =>
  `core_heartbeat_total{job="svc-core",instance="a",outcome="${outcome}"}`;
/** A metric of that core; `labels` begin with a comma. */
export const one = (name: string, labels = "") => `${name}{job="svc-core",instance="a"${labels}}`;

/** The same value for five hours. */
const still = (value: number) => `${value}x300`;
/** A counter that grows by this much a minute. */
const growing = (perMinute: number) => `0+${perMinute}x300`;
const day = 86_400;

/** A scenario for every alert of docs/deploy/monitoring/alerts.yaml. Time starts at the epoch. */
export const alertScenarios = {
  SvcHoursShort: {
    fires: { [one("core_completeness_states", ',state="short"')]: still(1) },
    after: 2,
    quiet: { [one("core_completeness_states", ',state="short"')]: still(0) },
  },
  SvcInventoryDiffers: {
    fires: { [one("core_inventory_hosts", ',status="gone"')]: still(3) },
    after: 241,
    quiet: {
      [one("core_inventory_hosts", ',status="expected"')]: still(900),
      [one("core_inventory_hosts", ',status="missing"')]: "7x100 0x200",
    },
  },
  SvcHostsHeld: {
    fires: { [one("core_held_hosts", ',budget="test"')]: still(2) },
    after: 16,
    quiet: {
      [one("core_held_hosts", ',budget="test"')]: "2x10 0x300",
      [one("core_held_hosts", ',budget="all"')]: still(0),
    },
  },
  SvcRetentionPaused: {
    fires: { [one("core_retention_paused")]: still(1) },
    after: 6,
    quiet: { [one("core_retention_paused")]: still(0) },
  },
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
  SvcLicenseNotValid: {
    fires: { [check("licensing", "license")]: still(0) },
    after: 61,
    quiet: { [check("licensing", "license")]: still(1) },
  },
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
      [requestBucket("2.5")]: growing(30),
      [requestBucket("5")]: growing(60),
      [requestBucket("+Inf")]: growing(60),
    },
    after: 21,
    quiet: {
      [requests(200)]: growing(60),
      [requestBucket("2.5")]: growing(60),
      [requestBucket("5")]: growing(60),
      [requestBucket("+Inf")]: growing(60),
    },
  },
  SvcEventLoopBlocked: {
    fires: { [one("nodejs_eventloop_lag_p99_seconds")]: still(0.6) },
    after: 11,
    quiet: { [one("nodejs_eventloop_lag_p99_seconds")]: still(0.4) },
  },
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
    fires: {
      [commitBucket("1")]: growing(10),
      [commitBucket("2.5")]: growing(20),
      [commitBucket("+Inf")]: growing(20),
    },
    after: 16,
    quiet: {
      [commitBucket("1")]: growing(20),
      [commitBucket("2.5")]: growing(20),
      [commitBucket("+Inf")]: growing(20),
    },
  },
  SvcIngestFull: {
    fires: { [one("core_ingest_in_flight_bytes")]: still(60_000_000) },
    after: 6,
    quiet: { [one("core_ingest_in_flight_bytes")]: still(40_000_000) },
  },
  SvcTelemetryLost: {
    fires: { [one("core_ingest_gaps_total")]: "0 0 0 1x300" },
    after: 5,
    quiet: { [one("core_ingest_gaps_total")]: still(7) },
  },
  SvcEnvelopesRejected: {
    fires: { [one("core_ingest_rejected_total", ',code="payload_too_large"')]: growing(1) },
    after: 20,
    quiet: { [one("core_ingest_rejected_total", ',code="payload_too_large"')]: still(12) },
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
    fires: { [one("core_enroll_total", ',outcome="token_invalid"')]: growing(10) },
    after: 16,
    quiet: {
      [one("core_enroll_total", ',outcome="issued"')]: growing(1000),
      [one("core_enroll_total", ',outcome="retried"')]: growing(100),
      [one("core_enroll_total", ',outcome="token_invalid"')]: growing(2),
    },
  },
  SvcExportBehind: {
    fires: { [one("core_export_lag_seconds", ',export="loki"')]: still(901) },
    after: 6,
    quiet: { [one("core_export_lag_seconds", ',export="loki"')]: still(899) },
  },
  SvcExportPassedOver: {
    fires: { [one("core_export_unaccounted_envelopes", ',export="loki"')]: still(1) },
    after: 6,
    quiet: { [one("core_export_unaccounted_envelopes", ',export="loki"')]: still(0) },
  },
  SvcExportRejected: {
    fires: { [one("core_export_dead_letters", ',export="loki"')]: still(1) },
    after: 16,
    quiet: { [one("core_export_dead_letters", ',export="loki"')]: still(0) },
  },
  SvcRolloutPaused: {
    fires: { [one("core_rollouts", ',state="paused"')]: still(1) },
    after: 6,
    quiet: {
      [one("core_rollouts", ',state="running"')]: still(3),
      [one("core_rollouts", ',state="paused"')]: still(0),
    },
  },
  SvcWatchMessagesWait: {
    fires: { [one("core_watch_message_age_seconds", ',receiver="on-call"')]: still(601) },
    after: 6,
    quiet: { [one("core_watch_message_age_seconds", ',receiver="on-call"')]: still(599) },
  },
  SvcWatchesNotEvaluated: {
    fires: { [one("core_watch_evaluation_age_seconds")]: still(121) },
    after: 6,
    quiet: { [one("core_watch_evaluation_age_seconds")]: still(30) },
  },
  SvcCertificateExpires: {
    fires: { [expiry("enrollment_ca")]: still(29 * day) },
    after: 16,
    quiet: {
      [expiry("enrollment_ca")]: still(31 * day),
      [expiry("ingest_server")]: still(8 * day),
    },
  },
  SvcCertificateExpiresToday: {
    fires: { [expiry("ingest_server")]: still(day) },
    after: 1,
    quiet: { [expiry("ingest_server")]: still(2 * day) },
  },
  SvcDirectoryOld: {
    fires: { [one("directory_snapshot_timestamp_seconds")]: still(1) },
    after: 257,
    quiet: { [one("directory_snapshot_timestamp_seconds")]: still(0) },
  },
  SvcDirectoryHeld: {
    fires: { [one("directory_absences_held")]: still(3) },
    after: 31,
    quiet: { [one("directory_absences_held")]: still(0) },
  },
};
