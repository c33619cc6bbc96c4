import type { HeartbeatReport } from "../../../proto/management/heartbeat.ts";
import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";

/** How core answers a heartbeat: the code of the refusal, or that it took it. */
export type Outcome = "accepted" | "clock_skew" | "proof_invalid" | "identity_revoked" | "certificate_revoked";

/** What a host would say of itself at some moment. Times are milliseconds since the epoch. */
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
}

/** Something that happens, and what core is told of it. */
export type Act =
  | { kind: "enroll"; ttl: "usual" | "short" }
  /** Asks for a successor of the certificate that it uses. */
  | { kind: "renew"; certificate: number }
  | {
      kind: "heartbeat";
      /** Which of the host's certificates it uses, by the order of their issue. */
      certificate: number;
      /** Milliseconds that its clock is ahead. */
      skew: number;
      signedBy: "own_key" | "other_key";
      expected: Outcome;
      status: HostStatus;
    }
  | { kind: "forward"; certificate: number }
  | { kind: "revoke_identity"; reasonCode: string }
  | { kind: "revoke_certificate"; certificate: number; reasonCode: string }
  | { kind: "assign" }
  /** Its certificate is made to look old, by the database's owner. */
  | { kind: "age" }
  /** For the reader alone: core sees what follows from it. */
  | { kind: "note"; event: string; details?: Readonly<Record<string, string | number>> };

/** An act of a host in its time. */
export type Step = Act & { at: number };

const queueBytesMax = 104_857_600;
const atRiskBytes = Math.floor(queueBytesMax * 0.8);
const atRiskSeconds = 86_400;

const moment = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

/** The heartbeat that tells of a status, without `sent_at` and proof. */
export const composeReport = (host: Host, at: number, { queue, config, ...status }: HostStatus): HeartbeatReport => ({
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
    at_risk: queue.bytes >= atRiskBytes || (queue.oldestSeconds ?? 0) >= atRiskSeconds,
  },
  forwarder: {
    connected: status.connected,
    last_ack_at: status.connected ? moment(at - 1000) : null,
    last_error: status.lastError,
  },
  renewal: {
    status: status.renewal.status,
    last_attempt_at: moment(status.renewal.lastAttemptAt),
    next_attempt_at: moment(status.renewal.nextAttemptAt),
    last_error: status.renewal.lastError,
  },
});

/** A queue that holds this part of what fits. */
export const queueAt = (part: number, oldestSeconds: number): HostStatus["queue"] => {
  const bytes = Math.floor(queueBytesMax * Math.min(1, Math.max(0, part)));
  return { records: Math.floor(bytes / 900), bytes, oldestSeconds: bytes === 0 ? null : oldestSeconds, dropped: 0 };
};

/** The steps of the history itself; those after its end keep a driven fleet alive. */
export const historyOf = function* (plan: Pick<Plan, "endsAt">, steps: Iterable<Step>): Generator<Step> {
  for (const step of steps) {
    if (step.at > plan.endsAt) return;
    yield step;
  }
};

/**
 * Without the steps whose traces are overwritten by what follows: core keeps the newest heartbeat of a host, and what it takes from
 * the one before; and the newest time of forwarding. Two heartbeats and a frame are left of each certificate, as its use shows too.
 */
export const withoutOverwritten = (steps: readonly Step[]): Step[] => {
  const newer = new Map<string, number>();
  return steps
    .toReversed()
    .filter((step) => {
      const kept = step.kind === "forward" ? 1 : step.kind === "heartbeat" && step.expected === "accepted" ? 2 : 0;
      if (kept === 0 || (step.kind !== "forward" && step.kind !== "heartbeat")) return true;
      const key = `${step.kind} ${step.certificate}`;
      const count = newer.get(key) ?? 0;
      newer.set(key, count + 1);
      return count < kept;
    })
    .reverse();
};
