import { type FleetFilter, filterToParams } from "../../../proto/fleet-health/filter.ts";
import { type FleetState, fleetStates } from "../../../proto/fleet-health/vocabulary.ts";
import { counted, lasting, listed, numberIn, type Row, shown } from "./answer-words.ts";
import type { MockQuestion } from "./question.ts";
import { recordTopics } from "./record-topics.ts";

/** A kind of question that the mock understands. */
export interface Topic {
  /** A question of this topic, in the words of an operator. */
  example: string;
  matches(question: MockQuestion): boolean;
  /** Returns the statements whose rows suffice for the answer. Values in them come from the person's question alone. */
  statements(question: MockQuestion): readonly string[];
  /** Returns the lines of the answer, by the rows of each statement: plain text, links as local paths. */
  answer(question: MockQuestion, results: readonly (readonly Row[])[]): readonly string[];
}

/** Returns a text as a literal of PostgreSQL, where `standard_conforming_strings` is on. A NUL, which no text there holds, is left out. */
export const textLiteral = (text: string): string => `'${text.replaceAll("\0", "").replaceAll("'", "''")}'`;

const daySeconds = 86_400;
const none: readonly Row[] = [];

const fleetPath = (filter: FleetFilter): string => `/fleet?${filterToParams(filter)}`;

/** Everything about the host that a question names, or hosts with similar names. */
const host: Topic = {
  example: "What is wrong with host web-01?",
  matches: (question) => question.host !== null,
  statements: ({ host: name }) => {
    const literal = textLiteral(name ?? "");
    const found = `select identity_id from collectors where ${literal} in (device_id, identity, hostname) order by identity limit 5`;
    // A pattern may be short only.
    const similar = textLiteral(`%${(name ?? "").slice(0, 90).replace(/[\\%_]/g, "\\$&")}%`);
    return [
      `select device_id, state, conditions, identity, hostname, platform, version, policy, heartbeat_age_seconds, envelope_age_seconds,
        forwarder_last_error, certificate_status, certificate_seconds_left as certificate_left_seconds, renewal_last_error, drift, running_config_hash,
        desired_config_hash, config_error, queue_records, queue_bytes, queue_bytes_max as queue_limit_bytes, dropped_records_total, dead_letters,
        last_auth_failure_at, last_auth_failure_reason from collectors where identity_id in (${found}) order by identity`,
      `select action, actor_display as by, outcome, reason_code as reason, occurred_at from audit_events
        where target_id in (select identity_id::text from (${found}) h) order by occurred_at desc limit 5`,
      `select device_id, state from collectors where identity ilike ${similar} or hostname ilike ${similar} order by device_id limit 10`,
    ];
  },
  answer: ({ host: name }, [exact = [], events = [], similar = []]) => {
    const [row] = exact;
    if (row === undefined)
      return similar.length === 0
        ? [`No host has the device id, identity or host name ${shown(name)}, or a similar one.`]
        : [
            `No host is named ${shown(name)}. Similar names:`,
            ...listed(similar),
            `Search for it: ${fleetPath({ text: [String(name).slice(0, 256)] })}`,
          ];
    return [
      ...listed(exact),
      events.length === 0 ? "The audit log has no event about it." : "The newest events about it in the audit log:",
      ...listed(events),
      `The host on the fleet page: ${fleetPath({ identity: [String(row.identity)] })}`,
    ];
  },
};

/** Returns which events a question asks for, in words and as a condition. Reading is no change. */
const eventsOf = ({ text }: MockQuestion): readonly [words: string, where: string] => {
  if (/\bauth|refus|reject|denied|\bdeny|fail|clock/.test(text)) return ["Failures", "outcome = 'failure'"];
  if (/sign(?:ed)?[ -]?in|logged in/.test(text)) return ["Sign-ins", "action = 'operator.sign_in'"];
  return [
    "Changes",
    "actor_type = 'operator' and action not in ('operator.sign_in', 'fleet.export', 'chat.tool_call')",
  ];
};

/** Answers from the audit log: changes, sign-ins and refusals. */
const audit: Topic = {
  example: "Who changed what in the last 24 hours?",
  matches: ({ text }) =>
    !/renew/.test(text) &&
    /\bwho (?:[a-z]+ed|did|put|set|froze|made)\b|what did [a-z]+|audit|\bchange[ds]?\b|sign(?:ed)?[ -]?ins?\b|happened|\bauth|refus|reject|denied|fail|clock/.test(
      text,
    ),
  statements: (question) => {
    const where = `${eventsOf(question)[1]} and occurred_at > now() - make_interval(secs => ${question.periodSeconds ?? daySeconds})`;
    return [
      `select action, actor_display as by, outcome, coalesce(reason_code, reason) as reason, count(*) as events, max(occurred_at) as last_at
        from audit_events where ${where} group by 1, 2, 3, 4 order by events desc, action limit 20`,
      `select e.action, c.device_id as of, e.actor_display as by, e.outcome, e.reason_code as reason, e.occurred_at
        from (select * from audit_events where ${where} order by occurred_at desc limit ${question.top}) e
        left join collectors c on c.identity_id = case when e.target_type = 'collector_identity' then e.target_id::uuid end
        order by e.occurred_at desc`,
    ];
  },
  answer: (question, [groups = [], events = []]) => {
    const words = `${eventsOf(question)[0]} in the last ${lasting(question.periodSeconds ?? daySeconds)}`;
    return groups.length === 0
      ? [`${words}: the audit log has none.`]
      : [`${words}:`, ...listed(groups), "The newest:", ...listed(events)];
  },
};

/** Hosts that a question selects by a condition: how many, by the values of a column, and the first of them. */
interface Selection {
  example: string;
  pattern: RegExp;
  /** Completes "3 hosts of 10". */
  words(question: MockQuestion): string;
  where(question: MockQuestion): string;
  /** Returns the column by whose values they are counted. */
  by(question: MockQuestion): string;
  /** The columns of each, and their order; without columns they are only counted. */
  columns?: string;
  order?: string;
  /** Returns the filter of the fleet page that shows them, where there is one. */
  filter?(question: MockQuestion): FleetFilter;
  note?: string;
}

const reasons =
  "state, conditions, heartbeat_age_seconds, certificate_seconds_left as certificate_left_seconds, config_error, renewal_last_error, queue_bytes";
const losses = ["dropped_records_total", "dead_letters", "file_gaps", "gap_records_max"];
const inTrouble = fleetStates.filter((state) => state !== "healthy" && state !== "enrolling");
/** Revoked hosts last, since nobody needs to act on them. */
const urgency = [...fleetStates.filter((state) => state !== "revoked"), "revoked"].map(textLiteral).join(", ");

/** The operators' words for a host without heartbeats. */
const silent = /\boffline\b|\bdown\b|unreachable|heartbeat|(?:not|n't|stopped) report/;

const stateOf = ({ text }: MockQuestion): FleetState =>
  fleetStates.find((state) => new RegExp(`\\b${state.replaceAll("_", "[ _]")}\\b`).test(text)) ?? "stale";

const propertyOf = ({ text }: MockQuestion): string =>
  /platform/.test(text) ? "platform" : /polic/.test(text) ? "policy" : "version";

const expirySeconds = ({ periodSeconds }: MockQuestion): number => periodSeconds ?? 7 * daySeconds;

const selections: readonly Selection[] = [
  {
    example: "Which hosts lost data?",
    pattern:
      /\blos(?:t|s|ses|e|es|ing)\b(?! (?:contact|connection|heartbeat|touch))|\bdrop|dead letter|\bgaps?\b|data (?:is |are )?missing/,
    words: () => "lost data, by what collectors and core counted as lost",
    where: () => `state <> 'revoked' and (${losses.map((column) => `${column} > 0`).join(" or ")})`,
    by: () => "state",
    columns: `${losses.join(", ")}, file_gap_bytes`,
    order: "(file_gaps > 0 or gap_records_max is not null) desc, dropped_records_total + dead_letters desc, device_id",
    note: "Collectors count since their queue was created, so I cannot tell when it happened.",
  },
  {
    example: "Which queues are at risk?",
    pattern: /queue|buffer|backlog|at risk/,
    words: () => "have a queue at risk",
    where: () => "state <> 'revoked' and 'queue_at_risk' = any(conditions)",
    by: () => "state",
    columns:
      "queue_bytes, queue_bytes_max as queue_limit_bytes, queue_records, queue_oldest_record_age_seconds, forwarder_last_error",
    order: "queue_bytes desc, device_id",
    filter: () => ({ condition: ["queue_at_risk"], notCondition: ["revoked"] }),
  },
  {
    example: "Which hosts have never forwarded anything?",
    pattern: /never/,
    words: () => "sent heartbeats and never forwarded",
    where: () => "state <> 'revoked' and last_heartbeat_at is not null and last_envelope_at is null",
    by: () => "platform",
    columns: "state, version, enrolled_at, forwarder_last_error",
    order: "enrolled_at, device_id",
    filter: () => ({ forwarding: ["never"] }),
  },
  {
    example: "Which hosts stopped forwarding, and what do they have in common?",
    pattern:
      /stopp?|silent|quiet|no longer|(not|n't) (sen[dt]|forward)(?! (a |any )?heartbeat)|no (data|telemetry)|in common/,
    words: ({ periodSeconds }) =>
      `stopped forwarding${periodSeconds === null ? "" : ` in the last ${lasting(periodSeconds)}`}: nothing for 10 min`,
    where: ({ periodSeconds }) =>
      `state <> 'revoked' and envelope_age_seconds > 600${periodSeconds === null ? "" : ` and envelope_age_seconds <= ${periodSeconds}`}`,
    by: () => "state",
    columns: "state, envelope_age_seconds, heartbeat_age_seconds, forwarder_last_error",
    order: "envelope_age_seconds, device_id",
  },
  {
    example: "Which certificates expire within 7 days?",
    pattern: /certificate|\bcerts?\b|expir|renew/,
    words: (question) =>
      `have a certificate that expires within ${lasting(expirySeconds(question))}, and no successor that lasts longer`,
    where: (question) =>
      `state <> 'revoked' and certificate_seconds_left <= ${expirySeconds(question)} and (successor_not_after is null
        or certificate_seconds_left + extract(epoch from successor_not_after - certificate_not_after) <= ${expirySeconds(question)})`,
    by: () => "renewal_status",
    columns: "state, certificate_seconds_left as certificate_left_seconds, renewal_last_error",
    order: "certificate_seconds_left, device_id",
    filter: (question) => ({ expiresWithinSeconds: expirySeconds(question) }),
  },
  {
    example: "Which hosts drift from their desired config?",
    pattern: /drift|config/,
    words: () => "do not run their desired config",
    where: () => "state <> 'revoked' and drift in ('drifted', 'on_last_known_good')",
    by: () => "drift",
    columns: "state, drift, running_config_hash, desired_config_hash, config_error",
    order: "drift, device_id",
    filter: () => ({ drift: ["drifted", "on_last_known_good"] }),
  },
  {
    example: "How many hosts are there by version?",
    pattern: /version|outdated|platform|polic/,
    words: (question) => `in the fleet, by ${propertyOf(question)}`,
    where: () => "true",
    by: propertyOf,
  },
  {
    example: "Which hosts are stale?",
    pattern: new RegExp(`${silent.source}|(?<!how )\\b(?:${fleetStates.join("|").replaceAll("_", "[ _]")})\\b`),
    words: (question) => `in the state ${stateOf(question)}`,
    where: (question) => `state = ${textLiteral(stateOf(question))}`,
    by: () => "platform",
    columns: reasons,
    order: "device_id",
    filter: (question) => ({ states: [stateOf(question)] }),
  },
  {
    example: "Which hosts need attention, and why?",
    pattern: /attention|trouble|problem|unhealthy|wrong|broken|overview|health|how many|enrolled|\bok\b|status/,
    words: () => "need attention",
    where: () => "state not in ('healthy', 'enrolling')",
    by: () => "state",
    columns: reasons,
    order: `array_position(array[${urgency}], state), device_id`,
    filter: () => ({ states: inTrouble }),
  },
];

const topicOf = ({ example, pattern, words, where, by, columns, order, filter, note }: Selection): Topic => ({
  example,
  matches: ({ text }) => pattern.test(text),
  statements: (question) => [
    `select count(*) filter (where ${where(question)}) as hosts, count(*) as fleet from collectors`,
    `select ${by(question)}, count(*) as hosts from collectors where ${where(question)} group by 1 order by 2 desc, 1 limit 20`,
    // It chooses the hosts before it joins what the columns need, which takes a tenth of the time in a fleet of 100,000.
    ...(columns === undefined
      ? []
      : [
          `select device_id, ${columns} from collectors where identity_id in (select identity_id from collectors
            where ${where(question)} order by ${order} limit ${question.top}) order by ${order}`,
        ]),
    ...(/in common/.test(question.text) ? [commonStatement(where(question))] : []),
  ],
  answer: (question, [[totals] = none, groups = [], hosts = [], common]) => {
    const [count, fleet] = [numberIn(totals?.hosts), numberIn(totals?.fleet)];
    const head = `${counted(count, "host")} of ${fleet.toLocaleString("en-US")} ${words(question)}`;
    if (count === 0) return [`${head}.`];
    const left = count - hosts.length;
    const list = [
      "The first of them:",
      ...listed(hosts),
      ...(left > 0 ? [`- and ${left.toLocaleString("en-US")} more`] : []),
    ];
    return [
      `${head}:`,
      ...listed(groups),
      ...(common ? commonLines(common, count, fleet) : []),
      ...(columns === undefined ? [] : list),
      ...(note === undefined ? [] : [note]),
      ...(filter ? [`All of them: ${fleetPath(filter(question))}`] : []),
    ];
  },
});

/** Returns a statement that counts, for each value of some properties, the selected hosts and all hosts with it. */
const commonStatement = (where: string): string =>
  `select d.property, d.value, count(*) filter (where h.selected) as hosts, count(*) as fleet
    from (select (${where}) as selected, version, platform, policy, running_config_hash, forwarder_last_error from collectors
      where state <> 'revoked') h
    cross join lateral (values ('version', h.version), ('platform', h.platform), ('policy', h.policy),
      ('config', h.running_config_hash), ('last error', h.forwarder_last_error)) d(property, value)
    where d.value is not null group by d.property, d.value having count(*) filter (where h.selected) > 0
    order by hosts desc, d.property, d.value limit 40`;

/** Reports the values that at least four of five selected hosts share and that are rarer in the fleet, the rarest first. */
const commonLines = (rows: readonly Row[], count: number, fleet: number): string[] => {
  const shared = rows
    .filter((row) => {
      const share = numberIn(row.hosts) / count;
      return share >= 0.8 && share >= 1.2 * (numberIn(row.fleet) / fleet);
    })
    .sort((a, b) => numberIn(a.fleet) - numberIn(b.fleet))
    .map(
      ({ property, value, hosts, fleet: all }) =>
        `- ${shown(property)} ${shown(value)}: ${numberIn(hosts)} of them, of ${counted(all, "host")} with it`,
    );
  return shared.length === 0
    ? ["Nothing sets them apart."]
    : ["What they have in common, and the others less:", ...shared];
};

/** The topics of the mock; the first that matches answers. */
export const topics: readonly Topic[] = [...recordTopics, host, audit, ...selections.map(topicOf)];
