import { ago, at, counted, fleetPath, hash, lasting, lines, numberIn, shown, sized } from "./answer-words.ts";
import { fewHosts, textLiteral } from "./sql.ts";
import type { AnswerRows, Row, Topic } from "./topic.ts";

const columns = `identity_id, identity, device_id, hostname, platform, version, policy, state, conditions, heartbeat_age_seconds,
  envelope_age_seconds, drift, running_config_hash, desired_config_hash, config_error, certificate_status, certificate_not_after,
  certificate_seconds_left, renewal_status, renewal_last_error, queue_records, queue_bytes, queue_bytes_max, dropped_records_total,
  dead_letters, forwarder_connected, forwarder_last_error, last_auth_failure_at, last_auth_failure_reason`;

/** Everything about the host that a question names. Searches for similar names when no host has exactly this one. */
export const host: Topic = {
  example: "What is wrong with host web-01?",
  intent: "I look the host up.",
  matches: (question) => question.host !== null,
  next: (question, results) => {
    const name = textLiteral(question.host ?? "");
    // A pattern may be short only.
    const similar = textLiteral(`%${(question.host ?? "").slice(0, 90).replace(/[\\%_]/g, "\\$&")}%`);
    const [exact, second] = results;
    if (exact === undefined)
      return [
        fewHosts(columns, {
          where: `${name} in (device_id, identity, hostname)`,
          order: "identity",
          limit: 5,
        }),
      ];
    if (second !== undefined) return [];
    const [found] = exact;
    if (found === undefined)
      return [
        `select device_id, identity, state from collectors where identity ilike ${similar} or hostname ilike ${similar}
          order by device_id limit 10`,
      ];
    return [
      `select occurred_at, actor_type, actor_display, action, outcome, reason_code from audit_events
        where target_id = ${textLiteral(String(found.identity_id))} order by occurred_at desc limit 5`,
    ];
  },
  answer: ({ host: name }, [exact = [], second = []]) => {
    const [found, ...others] = exact;
    if (found === undefined)
      return second.length === 0
        ? `No host has the device id, identity or host name ${shown(name)}, or a similar one.`
        : lines(
            `No host is named ${shown(name)}. Similar names:`,
            second.map((row) => `- ${shown(row.device_id)} (${shown(row.state)})`),
            `Search for it: ${fleetPath({ text: [String(name).slice(0, 256)] })}`,
          );
    return lines(
      details(found),
      eventLines(second),
      others.length === 0
        ? null
        : `${counted(others.length, "other host")} of this name: ${others.map((row) => shown(row.identity)).join(", ")}`,
      `The host on the fleet page: ${fleetPath({ identity: [String(found.identity)] })}`,
    );
  },
};

const details = (row: Row): (string | null)[] => [
  `${shown(row.device_id)} is ${shown(row.state)}${Array.isArray(row.conditions) && row.conditions.length > 1 ? ` (all conditions: ${shown(row.conditions)})` : ""}.`,
  `- identity ${shown(row.identity)}, host name ${shown(row.hostname)}, ${shown(row.platform)}, version ${shown(row.version)}, policy ${shown(row.policy)}`,
  `- last heartbeat ${ago(row.heartbeat_age_seconds)}, last envelope ${ago(row.envelope_age_seconds)}, ${row.forwarder_connected === true ? "connected to ingest" : "not connected to ingest"} at its last heartbeat`,
  row.forwarder_last_error ? `- last error of forwarding: ${shown(row.forwarder_last_error)}` : null,
  `- certificate ${shown(row.certificate_status)}, ${numberIn(row.certificate_seconds_left) > 0 ? `expires in ${lasting(row.certificate_seconds_left)}` : "expired"} (${at(row.certificate_not_after)}), renewal ${shown(row.renewal_status ?? "not reported")}${row.renewal_last_error ? `: ${shown(row.renewal_last_error)}` : ""}`,
  `- config ${shown(row.drift)}: runs ${hash(row.running_config_hash)}, should run ${hash(row.desired_config_hash)}${row.config_error ? `; error: ${shown(row.config_error)}` : ""}`,
  row.queue_records === null
    ? "- queue not reported yet"
    : `- queue ${sized(row.queue_bytes)} of ${sized(row.queue_bytes_max)}, ${counted(row.queue_records, "record")}; dropped ${counted(row.dropped_records_total, "record")}, dead letters ${numberIn(row.dead_letters)}`,
  row.last_auth_failure_at
    ? `- core refused it at ${at(row.last_auth_failure_at)}: ${shown(row.last_auth_failure_reason)}`
    : null,
];

const eventLines = (events: AnswerRows): string[] =>
  events.length === 0
    ? ["The audit log has no event about it."]
    : [
        "The newest events about it in the audit log:",
        ...events.map(
          (row) =>
            `- ${at(row.occurred_at)}: ${shown(row.action)} by ${shown(row.actor_display)}${row.outcome === "failure" ? `, failed (${shown(row.reason_code)})` : ""}`,
        ),
      ];
