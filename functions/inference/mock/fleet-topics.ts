import { type FleetState, fleetStates } from "../../../proto/fleet-health/vocabulary.ts";
import { ago, at, counted, fleetPath, hash, lines, more, numberIn, shown, sized } from "./answer-words.ts";
import type { MockQuestion } from "./question.ts";
import { fewHosts, onPlatform, textLiteral } from "./sql.ts";
import { listed, none, once, type Row, type Topic } from "./topic.ts";

const byState = "select state, count(*) as hosts from collectors group by state order by hosts desc, state";

/** The columns that explain the state of a host. */
const reasons = `device_id, state, conditions, heartbeat_age_seconds, certificate_seconds_left, config_error, version, queue_bytes,
  queue_bytes_max, renewal_last_error`;

const why: Readonly<Record<string, (row: Row) => string>> = {
  revoked: () => "revoked",
  enrolling: () => "enrolling",
  renewal_failed: (row) => `renewal failed (${shown(row.renewal_last_error ?? "certificate expired")})`,
  stale: (row) => `stale (last heartbeat ${ago(row.heartbeat_age_seconds)})`,
  cert_expiring: (row) =>
    `certificate expiring (${numberIn(row.certificate_seconds_left) / 3600 >= 1 ? `${Math.floor(numberIn(row.certificate_seconds_left) / 3600)} h left` : "less than 1 h left"})`,
  config_invalid: (row) => `config invalid (${shown(row.config_error)})`,
  unsupported_version: (row) => `unsupported version (${shown(row.version)})`,
  queue_at_risk: (row) => `queue at risk (${sized(row.queue_bytes)} of ${sized(row.queue_bytes_max)})`,
};

const conditionsOf = (row: Row): string =>
  (Array.isArray(row.conditions) ? row.conditions : [row.state])
    .map((condition) => why[String(condition)]?.(row) ?? shown(condition))
    .join(", ");

/** The states by precedence; revoked hosts last, since nobody needs to act on them. */
const urgency = [...fleetStates.filter((state) => state !== "revoked"), "revoked"];

/** Which hosts need attention, and the state of the whole fleet. */
export const attention: Topic = {
  example: "Which hosts need attention, and why?",
  intent: "I count the hosts by state and list those that are not healthy.",
  matches: ({ text }) =>
    /attention|trouble|problem|unhealthy|wrong|broken|overview|summar|health|how many|enrolled|fleet doing|\bok\b|status|everything/.test(
      text,
    ),
  next: once((question) => [
    byState,
    fewHosts(reasons, {
      where: "state not in ('healthy', 'enrolling')",
      order: `array_position(array[${urgency.map(textLiteral).join(", ")}], state), device_id`,
      limit: listed(question),
    }),
  ]),
  answer: (_, [states = [], hosts = []]) => {
    const total = states.reduce((sum, row) => sum + numberIn(row.hosts), 0);
    const troubled = states.filter(({ state }) => state !== "healthy" && state !== "enrolling");
    const count = troubled.reduce((sum, row) => sum + numberIn(row.hosts), 0);
    if (total === 0) return "No host is enrolled.";
    if (count === 0) return `No host needs attention: ${counted(total, "host")}, none with a condition. See /fleet.`;
    return lines(
      `${counted(count, "host")} of ${total.toLocaleString("en-US")} ${count === 1 ? "needs" : "need"} attention:`,
      troubled.map(({ state, hosts }) => `- ${shown(state)}: ${counted(hosts, "host")}`),
      "The first of them, revoked hosts last:",
      hosts.map((row) => `- ${shown(row.device_id)}: ${conditionsOf(row)}`),
      more(count, hosts.length),
      `All of them: ${fleetPath({ states: troubled.map(({ state }) => state as FleetState) })}`,
    );
  },
};

/** What operators call a host without heartbeats. */
const silent = /\boffline\b|\bdown\b|unreachable|heartbeat|\bdead\b(?! letter)|(?:not|n't|stopped) report/;

/** Returns the state that a question names. `How healthy is the fleet` and `unhealthy` name none. */
const stateOf = ({ text }: MockQuestion): FleetState | undefined =>
  fleetStates.find((state) => new RegExp(`(?<!how )\\b${state.replaceAll("_", "[ _]")}\\b`).test(text)) ??
  (silent.test(text) ? "stale" : undefined);

/** Which hosts are in a state that the question names. */
export const states: Topic = {
  example: "Which hosts are stale?",
  intent: "I list the hosts in this state.",
  matches: (question) => stateOf(question) !== undefined,
  next: once((question) => [
    `select state, count(*) as hosts from collectors where ${onPlatform(question.platform)} group by state
      order by hosts desc, state`,
    fewHosts(reasons, {
      where: `state = ${textLiteral(stateOf(question) ?? "")} and ${onPlatform(question.platform)}`,
      order: "device_id",
      limit: listed(question),
    }),
  ]),
  answer: (question, [states = [], hosts = []]) => {
    const state = stateOf(question) ?? "healthy";
    const count = numberIn(states.find((row) => row.state === state)?.hosts);
    const { platform } = question;
    const where = platform === null ? "" : ` on ${platform}`;
    if (count === 0) return `No host${where} is in the state ${state}.`;
    // Without an architecture, the search of the page finds the system in the name of the platform.
    const place = platform === null ? {} : platform.includes("/") ? { platform: [platform] } : { text: [platform] };
    return lines(
      `${counted(count, "host")}${where} in the state ${state}:`,
      hosts.map((row) => `- ${shown(row.device_id)}${state === "healthy" ? "" : `: ${conditionsOf(row)}`}`),
      more(count, hosts.length),
      `All of them: ${fleetPath({ states: [state], ...place })}`,
    );
  },
};

/** Versions in the fleet, and hosts of one version. */
export const versions: Topic = {
  example: "Which versions run in the fleet, and which are unsupported?",
  intent: "I count the hosts by version.",
  matches: ({ text, version }) => version !== null || /version|upgrade|outdated|unsupported/.test(text),
  next: once(({ version }) => [
    `select version, count(*) as hosts, count(*) filter (where 'unsupported_version' = any(conditions)) as unsupported,
      count(distinct platform) as platforms from collectors
      ${version === null ? "" : `where version = ${textLiteral(version)} `}group by version order by hosts desc, version`,
  ]),
  answer: ({ version }, [rows = []]) => {
    if (rows.length === 0) return version === null ? "No host is enrolled." : `No host runs version ${version}.`;
    const unsupported = rows.reduce((sum, row) => sum + numberIn(row.unsupported), 0);
    return lines(
      `${counted(rows.length, "version")} in the fleet:`,
      rows
        .slice(0, 20)
        .map(
          (row) =>
            `- ${shown(row.version)}: ${counted(row.hosts, "host")} on ${counted(row.platforms, "platform")}${numberIn(row.unsupported) > 0 ? ", unsupported" : ""} (${fleetPath({ version: [String(row.version)] })})`,
        ),
      more(rows.length, 20),
      unsupported === 0
        ? "None of them is unsupported."
        : `${counted(unsupported, "host")} with an unsupported version: ${fleetPath({ states: ["unsupported_version"] })} shows those without a graver condition.`,
    );
  },
};

const queueRisk = "'queue_at_risk' = any(conditions)";

/** Queues at risk, and the fullest ones. */
export const queues: Topic = {
  example: "Which queues are at risk, and which hosts have the fullest ones?",
  intent: "I look for queues at risk, and for the fullest ones.",
  matches: ({ text }) => /queue|backlog/.test(text),
  next: once((question) => [
    `select count(*) filter (where ${queueRisk}) as at_risk, count(*) filter (where dropped_records_total > 0) as dropping,
      coalesce(sum(dropped_records_total), 0) as dropped, coalesce(sum(dead_letters), 0) as dead_letters,
      coalesce(sum(queue_records), 0) as waiting from collectors where state <> 'revoked'`,
    `select device_id, ${queueRisk} as at_risk, queue_records, queue_bytes, queue_bytes_max, queue_oldest_record_age_seconds,
      dropped_records_total, forwarder_last_error,
      round(100.0 * queue_bytes / nullif(queue_bytes_max, 0), 1) as percent from collectors
      where queue_records is not null and state <> 'revoked'
      order by ${queueRisk} desc, percent desc nulls last, device_id limit ${listed(question)}`,
  ]),
  answer: (_, [[totals] = none, hosts = []]) =>
    lines(
      `${counted(totals?.at_risk, "queue")} at risk. In all queues, ${counted(totals?.waiting, "record")} waiting; ` +
        `${counted(totals?.dropping, "host")} dropped ${counted(totals?.dropped, "record")} so far, and core rejected ${counted(totals?.dead_letters, "record")} (dead letters).`,
      hosts.length === 0 ? "No host has reported a queue." : "The fullest queues, those at risk first:",
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)}: ${shown(row.percent ?? 0)} % (${sized(row.queue_bytes)} of ${sized(row.queue_bytes_max)}), ${counted(row.queue_records, "record")}` +
          (row.queue_oldest_record_age_seconds === null ? "" : `, the oldest ${lastingOf(row)}`) +
          (row.at_risk === true ? ", at risk" : "") +
          (row.forwarder_last_error ? `; last error: ${shown(row.forwarder_last_error)}` : ""),
      ),
      `Hosts by the size of their queue: /fleet?sort=queue_bytes&order=desc`,
    ),
};

const lastingOf = (row: Row): string => ago(row.queue_oldest_record_age_seconds).replace(" ago", " old");

/** Hosts whose running config is not the desired one. */
export const drift: Topic = {
  example: "Which hosts drift from their desired config?",
  intent: "I compare running and desired configs.",
  matches: ({ text }) => /drift|config/.test(text),
  next: once((question) => [
    "select drift, count(*) as hosts from collectors where state <> 'revoked' group by drift order by hosts desc, drift",
    fewHosts("device_id, state, drift, running_config_hash, desired_config_hash, config_error", {
      where:
        "state <> 'revoked' and (drift in ('drifted', 'on_last_known_good') or 'config_invalid' = any(conditions))",
      order: "drift, device_id",
      limit: listed(question),
    }),
    `select config_name, config_hash, count(*) as hosts, max(assigned_at) as assigned_at from config_assignments where is_current
      group by config_name, config_hash order by assigned_at desc limit 5`,
  ]),
  answer: (_, [counts = [], hosts = [], assigned = []]) => {
    const of = (kind: string) => numberIn(counts.find(({ drift }) => drift === kind)?.hosts);
    const drifting = of("drifted") + of("on_last_known_good");
    return lines(
      `${counted(drifting, "host")} ${drifting === 1 ? "does" : "do"} not run the desired config. By drift:`,
      counts.map(({ drift, hosts }) => `- ${shown(drift)}: ${counted(hosts, "host")} (/fleet?drift=${shown(drift)})`),
      hosts.length === 0 ? null : "Hosts that drift, or whose config is invalid:",
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}): ${shown(row.drift)}, runs ${hash(row.running_config_hash)}, should run ${hash(row.desired_config_hash)}` +
          (row.config_error ? `; error: ${shown(row.config_error)}` : ""),
      ),
      hosts.length > 0 ? more(drifting, hosts.length) : null,
      assigned.length === 0 ? null : "The newest assignments:",
      assigned.map(
        (row) =>
          `- ${shown(row.config_name ?? "unnamed")} (${hash(row.config_hash)}): ${counted(row.hosts, "host")}, last assigned ${at(row.assigned_at)}`,
      ),
    );
  },
};
