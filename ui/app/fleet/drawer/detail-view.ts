import type { FleetHistoryEvent } from "../../../../proto/fleet-health/detail.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import type { FleetCondition } from "../../../../proto/fleet-health/vocabulary.ts";
import { formatBytes, formatCount, formatShare } from "../../format/amount.ts";
import { formatAgo, formatMoment, formatSpan, formatUntil, type Moment } from "../../format/time.ts";

/** What an operator does about a condition, in a sentence. */
export const conditionAdvice: Readonly<Record<FleetCondition, string>> = {
  revoked: "Revocation is final. To bring the host back, enroll it under a new device id.",
  enrolling: "Wait for its first heartbeat. If none comes, see whether svc-collector run was started on the host.",
  renewal_failed: "An expired or refused certificate does not renew by itself: enroll the host again.",
  stale:
    "See whether the host is up, the collector runs and core is reachable from there: svc-collector status, svc-collector diag.",
  cert_expiring: "The collector should have renewed by now. Its renewal status below says what stops it.",
  config_invalid: "The collector keeps its previous config. Run svc-collector validate-config on the host.",
  unsupported_version: "Upgrade the collector on the host.",
  queue_at_risk:
    "Records wait or are dropped. See whether ingest accepts them, and whether the queue's cap fits the input.",
};

/** A moment in words: relative to the report's time, and absolute. */
export interface MomentView {
  relative: string;
  absolute: string;
  iso: string;
}

/** A moment that has passed; undefined without one. */
export const pastView = (at: string | null, asOf: number): MomentView | undefined =>
  at === null ? undefined : momentView(formatAgo(at, asOf), at);

/** A moment that is due. */
export const dueView = (at: string, asOf: number): MomentView => momentView(formatUntil(at, asOf), at);

const momentView = (relative: string, at: Moment): MomentView => ({
  relative,
  absolute: formatMoment(at),
  iso: String(at),
});

/** A config hash in full; `same` names the hash before it that it equals. */
export interface HashLine {
  label: string;
  hash: string | null;
  same: string | undefined;
}

/** The three hashes of a config: what is desired, what runs, what last worked. */
export const hashLines = (config: FleetHealthRow["config"]): HashLine[] => {
  const lines = [
    { label: "desired", hash: config.desired_config_hash },
    { label: "running", hash: config.running_config_hash },
    { label: "last known good", hash: config.last_known_good_config_hash },
  ];
  return lines.map(({ label, hash }, index) => ({
    label,
    hash,
    same: hash === null ? undefined : lines.slice(0, index).find((before) => before.hash === hash)?.label,
  }));
};

/** A fact about the queue: its name and value. */
export type Fact = readonly [name: string, value: string];

/** What the last heartbeat said of the queue; empty without one. */
export const queueFacts = ({ queue }: Pick<FleetHealthRow, "queue">): Fact[] => {
  const {
    records,
    bytes,
    max_bytes: bytesMax,
    oldest_record_age_seconds: oldest,
    dropped_records_total: dropped,
  } = queue;
  const size =
    bytes === null
      ? undefined
      : bytesMax === null
        ? formatBytes(bytes)
        : `${formatBytes(bytes)} of ${formatBytes(bytesMax)}, ${formatShare(bytes, bytesMax)}`;
  return [
    ...fact("Size", size),
    ...fact("Records", records === null ? undefined : formatCount(records)),
    ...fact("Oldest record", oldest === null ? undefined : formatSpan(oldest)),
    ...fact("Dropped in all", dropped === null ? undefined : formatCount(dropped)),
  ];
};

const fact = (name: string, value: string | undefined): Fact[] => (value === undefined ? [] : [[name, value]]);

/** What happened, in words; what was refused or failed says so. */
export const eventTitle = ({ action, outcome }: Pick<FleetHistoryEvent, "action" | "outcome">): string => {
  const [done, failed] = eventTitles[action] ?? [action, `${action}: failed`];
  return outcome === "success" ? done : failed;
};

const eventTitles: Readonly<Record<string, readonly [success: string, failure: string]>> = {
  "collector.enroll": ["Enrolled", "Enrollment refused"],
  "certificate.renew": ["Certificate renewed", "Renewal failed"],
  "certificate.revoke": ["Certificate revoked", "Certificate revocation failed"],
  "certificate.reuse_refused": ["Replaced certificate came back", "Replaced certificate came back and was refused"],
  "identity.revoke": ["Identity revoked", "Identity revocation failed"],
  "identity.clone_suspected": ["Two processes use one certificate", "Two processes use one certificate"],
  "config.assign": ["Config assigned", "Config assignment failed"],
  "config.clear": ["Config assignment cleared", "Clearing the config assignment failed"],
  "config.rollback": ["Config rolled back", "Config rollback failed"],
};

/** The details of an event as names and values, in the order in which they came. What is nested is shown as JSON. */
export const eventFacts = ({ reason_code, details }: Pick<FleetHistoryEvent, "reason_code" | "details">): Fact[] => [
  ...fact("reason", reason_code ?? undefined),
  ...Object.entries(details)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(
      ([name, value]): Fact => [
        name.replaceAll("_", " "),
        typeof value === "object" ? JSON.stringify(value) : String(value),
      ],
    ),
];
