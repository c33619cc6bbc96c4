import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import type { FleetCondition } from "#proto/fleet-health/vocabulary.ts";
import { type ReportedNumber, reportedNumbers } from "#proto/management/reported-numbers.ts";
import {
  formatAgo,
  formatBytes,
  formatCount,
  formatDuration,
  formatShare,
  plainName,
  plainText,
  type TimeZone,
} from "#ui/app/format/format.ts";
import { configHashes, holdText } from "../table/row-view.ts";

const conditionAdvice: Readonly<Record<Exclude<FleetCondition, "renewal_failed">, string>> = {
  revoked: "Revocation is final. To bring the host back, enroll it under a new device id.",
  enrolling:
    "Wait for its first heartbeat. If none comes, check that `svc-collector run` was started on the host.",
  stale:
    "Check that the host is up, the collector runs and core is reachable from there: `svc-collector status`, `svc-collector diag`.",
  cert_expiring: "Renewal is overdue. The renewal status below shows why.",
  config_invalid:
    "The collector keeps its previous config. Run `svc-collector validate-config` on the host.",
  unsupported_version: "Upgrade the collector on the host.",
  queue_at_risk:
    "Records wait, are dropped, rejected or lost. Check that ingest accepts them (`svc-collector dead-letters` on the host), and that the queue is large enough. The timeline shows losses of a database restore.",
  component_unhealthy:
    "The agent runs, and a part of it does not. Check that part in its config, and the agent's log on the host.",
};

/** The advice that differs for an agent that speaks OpAMP. */
const opampAdvice: Partial<typeof conditionAdvice> = {
  enrolling: "Wait for its first message. If none comes, check the agent's log on the host.",
  stale:
    "Check that the host is up, the agent or its supervisor runs, and core is reachable from there.",
  cert_expiring: "Check the renewal timer on the host: `systemctl status svc-opamp-renew.timer`.",
  config_invalid:
    "Core sends the agent the last config that it ran well. Publish a corrected config, and assign it.",
  unsupported_version: "Upgrade the agent on the host.",
};

/** Returns which promises of core do not hold for a host's agent; empty when all do. */
export const promises = ({ agent }: Pick<FleetHealthRow, "agent">): string =>
  agent === "otelcol"
    ? "Managed through OpAMP. Completeness: not proven for this agent, which reports neither a queue nor its renewals."
    : "";

/** The parts of a host's detail that decide how it can enroll again. */
type AdvisedHost = Pick<FleetHealthDetail, "policy"> & {
  item: Pick<FleetHealthRow, "agent" | "certificate" | "forwarding">;
};

/** Returns the advice to an operator for a condition, commands between backticks. An enrollment is advised only where core accepts it. */
export const adviceOn = (condition: FleetCondition, { policy, item }: AdvisedHost): string => {
  if (condition === "stale" && item.forwarding === "forwarding")
    return "The host still forwards. Check that it reaches core's API, and its clock: `svc-collector status` says why a heartbeat fails.";
  if (condition !== "renewal_failed")
    return (item.agent === "otelcol" && opampAdvice[condition]) || conditionAdvice[condition];
  const failed = "An expired or rejected certificate does not renew by itself";
  if (item.certificate.status !== "active" || policy.reenrollment === "replace")
    return `${failed}: enroll the host again with a new bootstrap token.`;
  return `${failed}. The policy ${plainName(policy.name)} rejects another enrollment (\`409 identity_exists\`) while the certificate is active: ask an administrator to revoke the certificate, then enroll the host again with a new bootstrap token.`;
};

/** Returns what a host reports of a valid config: what its sources do not read, and why it does not apply another config. */
export const configNotes = ({ config_errors, item }: FleetHealthDetail): readonly string[] =>
  item.conditions.some(({ state }) => state === "config_invalid") ? [] : config_errors;

/** Reports whether the last signal of a host was recent at a past time: history does not record its age then. */
export const wasRecent = (at: string, { at: pastAt }: Pick<FleetHealthDetail, "at">): boolean =>
  pastAt !== undefined && Date.parse(pastAt) - Date.parse(at) < 1000;

/** Returns the hashes of a config in full, equal ones once, under the names of all that have them. */
export const hashLines = (
  config: FleetHealthRow["config"],
): { label: string; hash: string | null }[] =>
  [...Map.groupBy(configHashes(config), ([, hash]) => hash)].map(([hash, lines]) => ({
    label: lines.map(([label]) => label).join(", "),
    hash,
  }));

/** A name and its value. */
type Fact = readonly [name: string, value: string];

/** Returns the queue's figures from the last heartbeat; none without one. */
export const queueFacts = ({ queue }: Pick<FleetHealthRow, "queue">): Fact[] => {
  const { bytes, max_bytes: bytesMax } = queue;
  const size = (used: number) =>
    bytesMax === null
      ? formatBytes(used)
      : `${formatBytes(used)} of ${formatBytes(bytesMax)}, ${formatShare(used, bytesMax)}`;
  return [
    ...fact("Size", bytes, size),
    ...numberFacts(reportedNumbers.queue, queue),
    ...fact(
      "Lost from rotated files or the journal",
      queue.file_gaps_total || null,
      (gaps) =>
        `${formatCount(gaps)} ${gaps === 1 ? "time" : "times"}, ${formatBytes(queue.file_gap_bytes_total ?? 0)} known`,
    ),
  ];
};

/** Returns the figures of the collector's process, and its core, by its last heartbeat; omits those that it does not report. */
export const processFacts = ({
  process,
  core,
  subnet,
}: Pick<FleetHealthRow, "process" | "core" | "subnet">): Fact[] => [
  ...numberFacts(reportedNumbers.process, process),
  ...fact("CPU time since its start", process.cpu_seconds, (seconds) =>
    formatDuration(Math.round(seconds)),
  ),
  ...fact("Restarts", process.rss_bytes === null ? null : process.restarts, formatCount),
  ...fact("Core", core, (name) => `${plainText(name)}${subnet === null ? "" : `, from ${subnet}`}`),
];

/** Returns the numbers that have a label. */
const numberFacts = (
  group: Record<string, ReportedNumber>,
  values: Record<string, number | null>,
): Fact[] =>
  Object.entries(group).flatMap(([name, { label, unit }]) =>
    label === undefined ? [] : fact(label, values[name] ?? null, formats[unit] ?? formatCount),
  );

/** How numbers are written by their unit; in any other, as counts. */
const formats: Readonly<Record<string, typeof formatBytes>> = {
  bytes: formatBytes,
  seconds: formatDuration,
};

const fact = <Value>(
  name: string,
  value: Value | null,
  format: (value: Value) => string,
): Fact[] => (value === null ? [] : [[name, format(value)]]);

/**
 * Describes a problem with the forwarding of a host, on which its state does not depend: that it stopped or never began, or that its budget
 * holds it, the records in the queue, and the collector's own error. Undefined while it forwards, and for a host that sends nothing.
 */
export const forwardingNote = (
  {
    forwarding,
    last_envelope_at,
    queue,
    forwarder,
    hold,
  }: Pick<FleetHealthRow, "forwarding" | "last_envelope_at" | "queue" | "forwarder" | "hold">,
  now: number,
  zone: TimeZone = "utc",
): string | undefined => {
  const waiting =
    queue.bytes === null || queue.bytes === 0
      ? "the queue is empty"
      : `${formatBytes(queue.bytes)} queued`;
  if (hold !== undefined)
    return `No fault: it is ${holdText(hold, { now, zone })}, then sends its queue; ${waiting}.`;
  if (isForwardingWell({ forwarding })) return undefined;
  const what =
    forwarding === "never" || last_envelope_at === null
      ? "Never forwarded"
      : `Stopped forwarding: last envelope ${formatAgo(last_envelope_at, now)}`;
  return `${what}; ${waiting}; ${forwarderText(forwarder)}.`;
};

/** Reports whether a host forwards, or has nothing to forward. */
export const isForwardingWell = ({ forwarding }: Pick<FleetHealthRow, "forwarding">): boolean =>
  forwarding !== "stopped" && forwarding !== "never";

/** Describes the collector's own report of its connection to core. Being held by a budget is not an error. */
export const forwarderText = (forwarder: FleetHealthRow["forwarder"]): string => {
  if (forwarder === null) return "not reported";
  if (forwarder.last_error?.startsWith("budget_exceeded:")) return "held by its budget";
  const error =
    forwarder.last_error === null ? "" : `, last error: ${plainText(forwarder.last_error)}`;
  return `${forwarder.connected ? "connected to core" : "not connected to core"}${error}`;
};
