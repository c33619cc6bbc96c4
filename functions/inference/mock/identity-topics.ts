import { at, counted, fleetPath, hash, lasting, lines, more, numberOf, shown } from "./answer-words.ts";
import type { Question } from "./question.ts";
import { fewHosts, inPeriod } from "./sql.ts";
import { listed, none, once, type Topic } from "./topic.ts";

const day = 86_400;

/** Certificates that expire within a period; a host counts by its certificate or, if that is later, its unused successor. */
export const certificates: Topic = {
  example: "Which certificates expire within 7 days?",
  intent: "I look for certificates that expire soon.",
  matches: ({ text }) => /certificate|\bcerts?\b|expir|renew/.test(text),
  next: once((question) => {
    const seconds = question.periodSeconds ?? 7 * day;
    const condition = `state <> 'revoked' and certificate_seconds_left <= ${seconds}
      and (successor_not_after is null
        or certificate_seconds_left + extract(epoch from successor_not_after - certificate_not_after) <= ${seconds})`;
    return [
      `select count(*) filter (where ${condition}) as expiring,
        count(*) filter (where ${condition} and certificate_seconds_left <= 0) as expired,
        count(*) filter (where 'renewal_failed' = any(conditions)) as failed, count(*) as fleet
        from collectors where state <> 'revoked'`,
      `select device_id, state, certificate_not_after, certificate_seconds_left, renewal_status, renewal_last_error from collectors
        where ${condition} order by certificate_not_after, device_id limit ${listed(question)}`,
    ];
  }),
  answer: ({ periodSeconds }, [[totals] = none, hosts = []]) => {
    const seconds = periodSeconds ?? 7 * day;
    const failed =
      numberOf(totals?.failed) === 0
        ? "No renewal has failed."
        : `The renewal of ${counted(totals?.failed, "host")} failed: ${fleetPath({ states: ["renewal_failed"] })}`;
    if (numberOf(totals?.expiring) === 0)
      return lines(`No certificate of ${counted(totals?.fleet, "host")} expires within ${lasting(seconds)}.`, failed);
    return lines(
      `The certificates of ${counted(totals?.expiring, "host")} of ${numberOf(totals?.fleet).toLocaleString("en-US")} expire within ${lasting(seconds)}, without a successor that lasts longer; expired already: ${numberOf(totals?.expired)}.`,
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}): ${numberOf(row.certificate_seconds_left) <= 0 ? "expired" : "expires"} ${at(row.certificate_not_after)}, renewal ${shown(row.renewal_status ?? "not reported")}` +
          (row.renewal_last_error ? ` (${shown(row.renewal_last_error)})` : ""),
      ),
      more(totals?.expiring, hosts.length),
      failed,
      `All of them: ${fleetPath({ expiresWithinSeconds: seconds })}`,
    );
  },
};

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
    const of = (kind: string) => numberOf(counts.find(({ drift }) => drift === kind)?.hosts);
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

/** Refused enrollments, refused requests of enrolled hosts, and revoked hosts. */
export const refusals: Topic = {
  example: "Which enrollments and requests were refused in the last 24 hours?",
  intent: "I look for failures in the audit log, and for hosts that core refused.",
  matches: ({ text }) => /\bauth|refus|reject|denied|\bdeny|fail|clock/.test(text),
  next: once((question) => {
    const { since, periodSeconds } = question;
    const period = (column: string) => inPeriod(column, { since, seconds: periodSeconds ?? day });
    return [
      `select action, coalesce(reason_code, reason) as cause, count(*) as events, max(occurred_at) as last_at from audit_events
        where outcome = 'failure' and ${period("occurred_at")} group by action, cause order by events desc, action limit 20`,
      `select device_id, state, last_auth_failure_at, last_auth_failure_reason from collectors
        where ${period("last_auth_failure_at")} order by last_auth_failure_at desc, device_id limit ${listed(question)}`,
      `select count(*) as revoked, count(*) filter (where ${period("revoked_at")}) as newly from collectors
        where state = 'revoked'`,
    ];
  }),
  answer: ({ since, periodSeconds }, [failures = [], hosts = [], [revoked] = none]) => {
    const period = since === null ? `in the last ${lasting(periodSeconds ?? day)}` : `since ${at(since)}`;
    return lines(
      failures.length === 0
        ? `The audit log has no failure ${period}.`
        : `Failures in the audit log ${period}, by action and reason:`,
      failures.map(
        (row) =>
          `- ${shown(row.action)}, ${shown(row.cause ?? "no reason")}: ${counted(row.events, "event")}, the last at ${at(row.last_at)}`,
      ),
      hosts.length === 0 ? `No enrolled host was refused ${period}.` : `Enrolled hosts that core refused ${period}:`,
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}): ${shown(row.last_auth_failure_reason)} at ${at(row.last_auth_failure_at)}`,
      ),
      `Revoked hosts: ${numberOf(revoked?.revoked)}, ${numberOf(revoked?.newly)} of them ${period}: ${fleetPath({ states: ["revoked"] })}`,
    );
  },
};

const isAboutSignIns = ({ text }: Question): boolean => /\bsign(?:ed)?[ -]?ins?\b|logged in/.test(text);

/** Who changed what. */
export const changes: Topic = {
  example: "Who changed what in the last 24 hours?",
  intent: "I read the audit log.",
  matches: ({ text }) =>
    /\bwho (?:has |have |had )?(?:[a-z]+ed|did|put|set|froze|made)\b|what did [a-z]+|audit|\bchange[ds]?\b|\bsign(?:ed)?[ -]?ins?\b|logged in|happened/.test(
      text,
    ) && !/refus|fail|reject|denied/.test(text),
  next: once((question) => {
    const { since, periodSeconds } = question;
    // Reading is no change.
    const kind = isAboutSignIns(question)
      ? "action = 'operator.sign_in'"
      : "action not in ('operator.sign_in', 'fleet.export', 'chat.tool_call')";
    const condition = `actor_type = 'operator' and ${kind}
      and ${inPeriod("occurred_at", { since, seconds: periodSeconds ?? day })}`;
    return [
      `select actor_display, action, outcome, count(*) as events, max(occurred_at) as last_at from audit_events
        where ${condition} group by actor_display, action, outcome order by events desc, last_at desc limit 20`,
      `select e.occurred_at, e.actor_display, e.action, e.target_type, e.target_id, e.outcome, e.reason_code, c.device_id
        from (select * from audit_events where ${condition} order by occurred_at desc limit ${listed(question)}) e
        left join collectors c
          on c.identity_id = case when e.target_type = 'collector_identity' then e.target_id::uuid end
        order by e.occurred_at desc`,
    ];
  }),
  answer: (question, [byActor = [], events = []]) => {
    const { since, periodSeconds } = question;
    const signIns = isAboutSignIns(question);
    const period = since === null ? `in the last ${lasting(periodSeconds ?? day)}` : `since ${at(since)}`;
    if (byActor.length === 0)
      return signIns
        ? `The audit log has no sign-in of an operator ${period}.`
        : `Nobody changed anything ${period}: the audit log has no change by an operator.`;
    return lines(
      `${signIns ? "Sign-ins of" : "Changes by"} operators ${period}:`,
      byActor.map(
        (row) =>
          `- ${shown(row.actor_display)}: ${shown(row.action)}, ${counted(row.events, "time")}${row.outcome === "failure" ? ", failed" : ""}, the last at ${at(row.last_at)}`,
      ),
      "The newest:",
      events.map(
        (row) =>
          `- ${at(row.occurred_at)}: ${shown(row.actor_display)}, ${shown(row.action)} of ${shown(row.device_id ?? `${shown(row.target_type)} ${shown(row.target_id)}`)}${row.outcome === "failure" ? ", failed" : ""}${row.reason_code ? ` (${shown(row.reason_code)})` : ""}`,
      ),
    );
  },
};
