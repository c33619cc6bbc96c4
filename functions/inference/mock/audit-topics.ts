import { at, counted, duringPeriod, fleetPath, lines, numberIn, shown } from "./answer-words.ts";
import type { MockQuestion } from "./question.ts";
import { inPeriod } from "./sql.ts";
import { listed, none, once, periodOf, type Topic } from "./topic.ts";

/** Refused enrollments, refused requests of enrolled hosts, and revoked hosts. */
export const refusals: Topic = {
  example: "Which enrollments and requests were refused in the last 24 hours?",
  intent: "I look for failures in the audit log, and for hosts that core refused.",
  matches: ({ text }) => /\bauth|refus|reject|denied|\bdeny|fail|clock/.test(text),
  next: once((question) => {
    const period = (column: string) => inPeriod(column, periodOf(question));
    return [
      `select action, coalesce(reason_code, reason) as cause, count(*) as events, max(occurred_at) as last_at from audit_events
        where outcome = 'failure' and ${period("occurred_at")} group by action, cause order by events desc, action limit 20`,
      `select device_id, state, last_auth_failure_at, last_auth_failure_reason from collectors
        where ${period("last_auth_failure_at")} order by last_auth_failure_at desc, device_id limit ${listed(question)}`,
      `select count(*) as revoked, count(*) filter (where ${period("revoked_at")}) as newly from collectors
        where state = 'revoked'`,
    ];
  }),
  answer: (question, [failures = [], hosts = [], [revoked] = none]) => {
    const period = duringPeriod(periodOf(question));
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
      `Revoked hosts: ${numberIn(revoked?.revoked)}, ${numberIn(revoked?.newly)} of them ${period}: ${fleetPath({ states: ["revoked"] })}`,
    );
  },
};

const isAboutSignIns = ({ text }: MockQuestion): boolean => /\bsign(?:ed)?[ -]?ins?\b|logged in/.test(text);

/** Who changed what. */
export const changes: Topic = {
  example: "Who changed what in the last 24 hours?",
  intent: "I read the audit log.",
  matches: ({ text }) =>
    /\bwho (?:has |have |had )?(?:[a-z]+ed|did|put|set|froze|made)\b|what did [a-z]+|audit|\bchange[ds]?\b|\bsign(?:ed)?[ -]?ins?\b|logged in|happened/.test(
      text,
    ) && !/refus|fail|reject|denied/.test(text),
  next: once((question) => {
    // Reading is no change.
    const kind = isAboutSignIns(question)
      ? "action = 'operator.sign_in'"
      : "action not in ('operator.sign_in', 'fleet.export', 'chat.tool_call')";
    const condition = `actor_type = 'operator' and ${kind}
      and ${inPeriod("occurred_at", periodOf(question))}`;
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
    const signIns = isAboutSignIns(question);
    const period = duringPeriod(periodOf(question));
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
