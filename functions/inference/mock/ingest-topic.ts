import { at, counted, duringPeriod, fleetPath, lines, numberIn, shown, sized } from "./answer-words.ts";
import { inPeriod } from "./sql.ts";
import { listed, none, once, periodOf, type Topic } from "./topic.ts";

/** How much core ingested, per hour, per kind and by which hosts. */
export const ingest: Topic = {
  example: "How much is ingested per hour, and which hosts send most?",
  intent: "I add up the ingested records by hour, kind and host.",
  matches: ({ text }) => /ingest|volume|traffic|throughput|how much|sends? (the )?most|(per|an|each) hour/.test(text),
  next: once((question) => {
    const condition = inPeriod("hour", periodOf(question));
    const sums = "sum(envelopes) as records, sum(payload_bytes) as bytes";
    return [
      `select ${sums}, count(distinct identity) as hosts, (select count(*) from collectors where state <> 'revoked') as fleet
        from ingest_hours where ${condition}`,
      `select hour, ${sums}, count(distinct identity) as hosts from ingest_hours where ${condition}
        group by hour order by hour desc limit 12`,
      `select kind, ${sums} from ingest_hours where ${condition} group by kind order by bytes desc, kind`,
      `select device_id, identity, ${sums} from ingest_hours where ${condition} group by device_id, identity
        order by bytes desc, identity limit ${listed(question)}`,
    ];
  }),
  answer: (question, [[totals] = none, hours = [], kinds = [], hosts = []]) => {
    const period = duringPeriod(periodOf(question));
    if (hosts.length === 0)
      return `Core stored no record ${period}. Hosts that never forwarded: ${fleetPath({ forwarding: ["never"] })}`;
    const amount = (row: (typeof hours)[number]) => `${counted(row.records, "record")}, ${sized(row.bytes)}`;
    return lines(
      `Core stored ${amount(totals ?? {})} ${period}, from ${numberIn(totals?.hosts).toLocaleString("en-US")} of ${counted(totals?.fleet, "host")}. Whole hours count, and the newest one is not over. Per hour, the newest first:`,
      hours.map((row) => `- ${at(row.hour)}: ${amount(row)}, ${counted(row.hosts, "host")}`),
      "By kind:",
      kinds.map((row) => `- ${shown(row.kind)}: ${amount(row)}`),
      "The hosts that sent most:",
      hosts.map((row) => `- ${shown(row.device_id ?? row.identity)}: ${amount(row)}`),
      `Hosts by their last envelope: /fleet?sort=last_envelope_at&order=desc`,
    );
  },
};
