import { at, counted, duringPeriod, fleetPath, lines, more, numberIn, shown, sized } from "./answer-words.ts";
import { listed, none, once, periodOf, type Row, type Topic } from "./topic.ts";

const counts: readonly (readonly [column: string, words: (row: Row) => string])[] = [
  ["dropped_records_total", (row) => `${counted(row.dropped_records_total, "record")} dropped`],
  ["dead_letters", (row) => `${counted(row.dead_letters, "record")} rejected by core (dead letters)`],
  [
    "file_gaps",
    (row) =>
      `lines of rotated files ${counted(row.file_gaps, "time")}, ${sized(row.file_gap_bytes)} as far as it is known`,
  ],
  [
    "gap_records_max",
    (row) =>
      `at most ${counted(row.gap_records_max, "record")} with a restored database (found ${at(row.gap_last_at)})`,
  ],
];

const columns = counts.map(([column]) => column);
const hasLost = `state <> 'revoked' and (${columns.map((column) => `${column} > 0`).join(" or ")})`;
const atRisk = "state <> 'revoked' and 'queue_at_risk' = any(conditions)";

/** Which hosts lost data, and which may next: by what collectors and core counted as lost, never by how much core received. */
export const losses: Topic = {
  example: "Which hosts lost data?",
  intent: "I add up what collectors and core counted as lost.",
  matches: ({ text }) =>
    /\blos(?:t|s|ses|e|es|ing)\b(?! (?:contact|connection|heartbeat|touch))|\bdrop|dead letter|\bgaps?\b|missing (?:data|records|lines|telemetry)|data (?:is |are )?missing/.test(
      text,
    ),
  next: once((question) => [
    `select count(*) filter (where ${hasLost}) as hosts, count(*) filter (where ${atRisk}) as at_risk,
      count(*) filter (where state <> 'revoked') as fleet,
      ${columns.map((column) => `sum(${column}) filter (where ${hasLost}) as ${column}`).join(", ")},
      sum(file_gap_bytes) filter (where ${hasLost}) as file_gap_bytes,
      max(gap_last_at) filter (where ${hasLost}) as gap_last_at from collectors`,
    `select device_id, state, ${columns.join(", ")}, file_gap_bytes, gap_last_at from collectors where ${hasLost}
      order by (file_gaps > 0 or gap_records_max is not null) desc, dropped_records_total + dead_letters desc, device_id
      limit ${listed(question)}`,
    `select device_id, queue_bytes, queue_bytes_max from collectors where ${atRisk}
      order by queue_at_risk_since, device_id limit ${listed(question)}`,
  ]),
  answer: (question, [[totals = {}] = none, hosts = [], risky = []]) => {
    const { periodSeconds, since } = question;
    const hostCount = numberIn(totals.hosts);
    return lines(
      hostCount === 0
        ? `None of ${counted(totals.fleet, "host")} reports a loss.`
        : `${counted(hostCount, "host")} lost data: ${wordsOf(totals)}.`,
      periodSeconds === null && since === null
        ? null
        : `Collectors count losses since their queue was created, so I cannot tell which of them happened ${duringPeriod(periodOf(question))}.`,
      hosts.map((row) => `- ${shown(row.device_id)} (${shown(row.state)}): ${wordsOf(row)}`),
      more(hostCount, hosts.length),
      hostCount === 0
        ? null
        : `Those that dropped records, or whose records core rejected: ${fleetPath({ droppedMoreThan: 0, notCondition: ["revoked"] })}`,
      numberIn(totals.at_risk) === 0
        ? "No queue is at risk of losing more."
        : `${counted(totals.at_risk, "queue")} at risk of losing more: ${fleetPath({ condition: ["queue_at_risk"], notCondition: ["revoked"] })}`,
      risky.map((row) => `- ${shown(row.device_id)}: ${sized(row.queue_bytes)} of ${sized(row.queue_bytes_max)}`),
      more(totals.at_risk, risky.length),
    );
  },
};

const wordsOf = (row: Row): string =>
  counts
    .filter(([column]) => numberIn(row[column]) > 0)
    .map(([, words]) => words(row))
    .join(", ");
