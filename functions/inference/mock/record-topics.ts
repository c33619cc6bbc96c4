import { counted, lasting, listed, type Row } from "./answer-words.ts";
import type { Topic } from "./topics.ts";

const daySeconds = 86_400;
const none: readonly Row[] = [];

/** Answers a list of rows under a heading, or says that there are none. */
const listOf = (heading: string, rows: readonly Row[], otherwise: string): string[] =>
  rows.length === 0 ? [otherwise] : [heading, ...listed(rows)];

/** Which hosts send the most: hours of the last two days, days before. */
const volume: Topic = {
  example: "Which hosts sent the most in the last 7 days?",
  matches: ({ text }) => /\bvolume\b|sen[dt]s? (?:the )?most|most (?:data|telemetry|traffic)/.test(text),
  statements: ({ periodSeconds, top }) => {
    const since = `now() - make_interval(secs => ${periodSeconds ?? daySeconds})`;
    const sums = "device_id, sum(payload_bytes) as payload_bytes, sum(envelopes) as envelopes";
    return [
      `select ${sums} from ingest_hours where hour > ${since} group by device_id order by 2 desc, 1 limit ${top}`,
      `select ${sums} from volume_days where day > ${since} group by device_id order by 2 desc, 1 limit ${top}`,
    ];
  },
  answer: ({ periodSeconds }, [hours = [], days = []]) => {
    const period = lasting(periodSeconds ?? daySeconds);
    return [
      ...listOf(
        `Most in the last ${period}, of the newest two days:`,
        hours,
        "Core stored nothing in the newest two days.",
      ),
      ...(days.length === 0 ? [] : ["Of the days before:", ...listed(days)]),
      "All of it is on the page of volume, /volume",
    ];
  },
};

/** Expected hosts that never enrolled, and how many did. */
const inventory: Topic = {
  example: "Which expected hosts never enrolled?",
  matches: ({ text }) =>
    /inventory|never enroll|not enroll|(?:is|are) expected|expected hosts?|should exist/.test(text),
  statements: ({ top }) => [
    "select count(*) as hosts, count(*) filter (where not is_enrolled) as missing from inventory where is_expected",
    `select name, owner from inventory where is_expected and not is_enrolled order by name limit ${top}`,
  ],
  answer: (_, [[totals] = none, missing = []]) => [
    `${counted(totals?.missing, "host")} of ${counted(totals?.hosts, "expected host")} never enrolled.`,
    ...listed(missing),
    "The inventory: /inventory",
  ],
};

/** Watches that fire, and what happened to watches. */
const watches: Topic = {
  example: "Which watches fire?",
  matches: ({ text }) => /\bwatch(?:es)?\b/.test(text),
  statements: ({ top }) => [
    `select name, state, matching_hosts, more_than, firing_since as firing_since_at, filter, fault from watches
      order by state = 'firing' desc, state = 'pending' desc, name limit ${top}`,
    `select name, kind, matching_hosts, occurred_at from watch_events order by occurred_at desc limit ${top}`,
  ],
  answer: (_, [all = [], events = []]) => [
    ...listOf("The watches, those that fire first:", all, "There is no watch."),
    ...(events.length === 0 ? [] : ["What happened last:", ...listed(events)]),
    "The watches: /watches",
  ],
};

/** How hosts were, and when they were silent. */
const history: Topic = {
  example: "Which hosts were silent in the last 24 hours, and which changed version?",
  matches: ({ host, text }) =>
    host === null && /\bwere (?:silent|offline|down|stale)\b|change[ds]? (?:their )?version|\bhistory\b/.test(text),
  statements: ({ periodSeconds, top }) => {
    const since = `now() - make_interval(secs => ${periodSeconds ?? daySeconds})`;
    return [
      `select device_id, silent_of, from_at, until_at from host_silences where until_at > ${since}
        order by until_at desc, device_id limit ${top}`,
      `select h.device_id, h.version as version_before, c.version, h.until_at from host_history h
        join collectors c on c.identity_id = h.identity_id
        where h.until_at > ${since} and h.version <> c.version order by h.until_at desc, h.device_id limit ${top}`,
    ];
  },
  answer: ({ periodSeconds }, [silences = [], versions = []]) => {
    const period = `in the last ${lasting(periodSeconds ?? daySeconds)}`;
    return [
      ...listOf(`Silences that ended ${period}, the newest first:`, silences, `No silence ended ${period}.`),
      ...listOf("Hosts that ran another version before:", versions, `No host changed its version ${period}.`),
    ];
  },
};

/** The topics about what core records beside the state of hosts. */
export const recordTopics: readonly Topic[] = [volume, inventory, watches, history];
