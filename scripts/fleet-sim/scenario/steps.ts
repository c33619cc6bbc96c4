import type { HeartbeatReport } from "#proto/management/heartbeat.ts";
import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";

/** Core's response to a heartbeat: accepted, or the problem code. */
export type Outcome =
  | "accepted"
  | "clock_skew"
  | "proof_invalid"
  | "identity_revoked"
  | "certificate_revoked";

/** The status that a host reports. Times are milliseconds since the epoch. */
export interface HostStatus {
  connected: boolean;
  lastError: string | null;
  queue: { records: number; bytes: number; oldestSeconds: number | null; dropped: number };
  config: {
    valid: boolean;
    errors: string[];
    running: string | null;
    desired: string | null;
    lastKnownGood: string | null;
  };
  renewal: {
    status: HeartbeatReport["renewal"]["status"];
    lastAttemptAt: number | null;
    nextAttemptAt: number | null;
    lastError: string | null;
  };
  /** The error of an exporter, and since when; of agents that speak OpAMP alone. */
  component?: { lastError: string; since: number };
}

type Action =
  | { kind: "enroll"; ttl: "usual" | "short" }
  /** Requests a successor of this certificate. Certificates are numbered in the order of their issue. */
  | { kind: "renew"; certificate: number }
  | {
      kind: "heartbeat";
      certificate: number;
      /** Milliseconds that the host's clock is ahead. */
      skew: number;
      signedBy: "own_key" | "other_key";
      expected: Outcome;
      status: HostStatus;
    }
  | { kind: "forward"; certificate: number }
  | { kind: "revoke_identity"; reasonCode: string }
  | { kind: "revoke_certificate"; certificate: number; reasonCode: string }
  /** The config is one for the host's kind of agent. */
  | { kind: "assign"; config: "previous" | "current" }
  /** For the reader only: core sees its consequences. */
  | { kind: "note"; event: string; details?: Readonly<Record<string, string | number>> };

/** Something that happens to a host at a timestamp. */
export type Step = Action & { at: number };

/** A host and the steps of its timeline; the first is its enrollment. */
export interface HostHistory {
  host: Host;
  steps: readonly Step[];
}

const queueBytesMax = 104_857_600;
const atRiskBytes = Math.floor(queueBytesMax * 0.8);
const atRiskSeconds = 86_400;

const isAtRisk = ({ bytes, oldestSeconds }: HostStatus["queue"]): boolean =>
  bytes >= atRiskBytes || (oldestSeconds ?? 0) >= atRiskSeconds;

const timestamp = (at: number | null): string | null =>
  at === null ? null : new Date(at).toISOString();

/** Composes the heartbeat that reports a status, without `sent_at` and proof. */
export const composeReport = (
  host: Host,
  at: number,
  { queue, config, ...status }: HostStatus,
): HeartbeatReport => ({
  boot_id: `boot-${host.index + 1}`,
  collector: {
    version: host.version,
    commit: "simulated",
    hostname: host.hostname,
    platform: host.platform,
    started_at: "2026-01-01T00:00:00.000Z",
  },
  config: {
    valid: config.valid,
    errors: config.errors,
    running_config_hash: config.running,
    ...(config.desired === null ? {} : { desired_config_hash: config.desired }),
    ...(config.lastKnownGood === null ? {} : { last_known_good_config_hash: config.lastKnownGood }),
  },
  queue: {
    records: queue.records,
    bytes: queue.bytes,
    max_bytes: queueBytesMax,
    oldest_record_age_seconds: queue.oldestSeconds,
    dropped_records_total: queue.dropped,
    dead_letters: 0,
    forks_total: 0,
    file_gaps_total: 0,
    file_gap_bytes_total: 0,
    at_risk: isAtRisk(queue),
  },
  forwarder: {
    connected: status.connected,
    last_ack_at: status.connected ? timestamp(at - 1000) : null,
    last_error: status.lastError,
  },
  renewal: {
    status: status.renewal.status,
    last_attempt_at: timestamp(status.renewal.lastAttemptAt),
    next_attempt_at: timestamp(status.renewal.nextAttemptAt),
    last_error: status.renewal.lastError,
  },
  labels: host.labels,
});

/** Returns a queue that is filled to this part of its maximum. */
export const queueAt = (part: number, oldestSeconds: number): HostStatus["queue"] => {
  const bytes = Math.floor(queueBytesMax * Math.min(1, Math.max(0, part)));
  return {
    records: Math.floor(bytes / 900),
    bytes,
    oldestSeconds: bytes === 0 ? null : oldestSeconds,
    dropped: 0,
  };
};

/** Yields the steps up to the history's end; those after it keep a driven fleet alive. */
export const stepsUntilEnd = function* (
  plan: Pick<Plan, "endsAt">,
  steps: Iterable<Step>,
): Generator<Step> {
  for (const step of steps) {
    if (step.at > plan.endsAt) return;
    yield step;
  }
};

/** What a heartbeat reports of which core keeps the time of its last change. */
const reportedSince = ({ connected, config, renewal, queue }: HostStatus): string =>
  JSON.stringify([connected, config, renewal.status, isAtRisk(queue), queue.dropped > 0]);

/**
 * Drops the steps whose effects later ones overwrite, except of an agent that speaks OpAMP: each of its polls takes and reports configs.
 * Core keeps a host's newest heartbeat, some fields of the one before it, since when
 * it reports some of them, and the newest time of forwarding. Of each certificate two heartbeats and one frame are kept, because they
 * mark it as used.
 */
export const withoutOverwritten = ({ host, steps }: HostHistory): HostHistory => {
  if (host.agent === "otelcol") return { host, steps };
  const newer = new Map<string, number>();
  const changes = new Set<Step>();
  let reported = "";
  for (const step of steps) {
    if (step.kind !== "heartbeat" || step.expected !== "accepted") continue;
    const next = reportedSince(step.status);
    if (next !== reported) changes.add(step);
    reported = next;
  }
  const kept = steps
    .toReversed()
    .filter((step) => {
      const most =
        step.kind === "forward"
          ? 1
          : step.kind === "heartbeat" && step.expected === "accepted"
            ? 2
            : 0;
      if (most === 0 || !("certificate" in step)) return true;
      const key = `${step.kind} ${step.certificate}`;
      const count = newer.get(key) ?? 0;
      newer.set(key, count + 1);
      return count < most || changes.has(step);
    })
    .reverse();
  return { host, steps: kept };
};
