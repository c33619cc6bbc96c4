/** The states of hours and their shortages, in the operator's words. */
import type { RuleCounts } from "#proto/completeness/account.ts";
import { addRule } from "#proto/completeness/hour-accounts.ts";
import { countIncomplete, type HourState, shortRecords } from "#proto/completeness/hour-state.ts";
import type {
  FleetCompleteness,
  HostHourView,
  HostStrip,
  ShortageView,
} from "#proto/completeness/report.ts";
import { rulesText } from "#proto/completeness/rules-text.ts";
import {
  capitalised,
  formatBytes,
  formatCount,
  formatCountOf,
  plainText,
} from "../format/format.ts";

/** An hour's state, or that it is not decided. */
export type ShownState = HourState | "undecided";

/**
 * The name of each state, what it means, and its silhouette on a grid of 16 by 16, filled by even-odd, so that none depends on its colour. In
 * the order of a legend: worst first.
 */
export const hourMarks: Readonly<
  Record<ShownState, readonly [name: string, meaning: string, shape: string]>
> = {
  short: [
    "Short",
    "Records of this hour are missing: each number says where they were lost.",
    "M1 1h14v14H1ZM5 3.4 3.4 5l3 3-3 3L5 12.6l3-3 3 3 1.6-1.6-3-3 3-3L11 3.4l-3 3Z",
  ],
  silent: [
    "Silent",
    "No heartbeats arrive, so it is unknown what the host accepted.",
    "M1 1h14v14H1Zm2.5 2.5v9h9v-9Zm3 3h3v3h-3Z",
  ],
  late: [
    "Late",
    "Heartbeats arrive, but the host's report of this hour has not.",
    "M1 1h14v3H1Zm0 5.5h14v3H1ZM1 12h14v3H1Z",
  ],
  core_out: [
    "Core out",
    "Core could not receive in or just after this hour. The host's report will settle it.",
    "M1 1h4.5L1 5.5ZM9 1h4.5L1 13.5V9Zm6 2.5V8l-7 7H3.5ZM15 11v4h-4Z",
  ],
  undelivered: [
    "Complete, not delivered",
    "All is stored or discarded as configured. An export has not delivered it yet, or none is on.",
    "M1 1h14v14H1Zm2 2v10h10V3Zm0 0 10 10H3Z",
  ],
  complete: [
    "Complete",
    "All that the host accepted is stored or discarded as configured, and every export has delivered it.",
    "M1 1h14v14H1Z",
  ],
  not_running: [
    "Not running",
    "The host states that no collector ran in this hour.",
    "M1 1h14v14H1Zm1.5 1.5v11h11v-11Z",
  ],
  not_accounted: [
    "No report",
    "The host sends no hourly reports, or an older core stored what it sent.",
    "M3 7h10v2H3Z",
  ],
  undecided: [
    "Not settled yet",
    "The hour is not over, or core has not settled it yet.",
    "M7 7h2v2H7Z",
  ],
};

/** The states in the order of a legend. */
export const shownStates = Object.keys(hourMarks) as ShownState[];

const shortageWords: Readonly<Record<ShortageView["kind"], (count: string) => string>> = {
  account_refused: () => "core refuses the host's report of this hour",
  accounts_lost: () => "the host's reports of this hour are lost",
  dropped: (count) => `${count} dropped at the host`,
  rejected: (count) => `${count} rejected by core`,
  lost_in_restore: (count) => `${count} lost by the store, or in a restore`,
  missing: (count) => `${count} accepted by the host and never received`,
  file_gap: (count) => `${count} lost in a rotation of files or the journal`,
  export_rejected: (count) => `${count} rejected by the backend of an export`,
  export_rejected_items: (count) => `${count} rejected by the backend of an export`,
  unknown: () => "a queue of the host ended without a report: the loss is unknown",
};

const refusals: Readonly<Record<string, string>> = {
  malformed: "it cannot be read",
  host_mismatch: "it names another host",
  certificate_unknown: "core did not issue its certificate",
  certificate_revoked: "its certificate is revoked",
  signature_invalid: "its signature is not the host's",
  contradicts_itself: "its counts contradict its range",
  contradicts_sequences: "its range contradicts what core received",
  predecessor_differs: "it names another report before it",
  queue_ended: "an earlier report ended its queue",
  number_used: "core has another report of this number",
  rate_limited: "the host sent too many",
};

/** Returns how much of a shortage there is: records, bytes or items. */
export const amountOf = (kind: ShortageView["kind"], count: number) => {
  if (kind === "file_gap") return formatBytes(count);
  if (kind === "export_rejected_items")
    return formatCountOf(
      count,
      "span, log record or data point",
      "spans, log records or data points",
    );
  return formatCountOf(count, "record");
};

/** Describes where records of an hour were lost: `310 records dropped at the host`. */
export const shortageText = ({ kind, count, reason }: ShortageView): string => {
  const amount = count === null ? "records" : amountOf(kind, count);
  const why = reason === undefined ? "" : `: ${refusals[reason] ?? reason}`;
  return `${shortageWords[kind](amount)}${why}`;
};

/** Describes how many records an hour lacks; "" if unknown. */
const shortBy = (shortages: readonly ShortageView[]) => {
  const records = shortRecords(shortages);
  return records === 0 ? "" : formatCountOf(records, "record");
};

/** Returns the state to show for an hour. */
export const shownState = (state: HourState | null): ShownState => state ?? "undecided";

/** Returns the hour of a timestamp in UTC: `10:00`. */
export const clockText = (at: string) => at.slice(11, 16);

/** Returns the day and hour of a timestamp in UTC: `2026-11-25 10:00`. */
export const dayHourText = (at: string): string => `${at.slice(0, 10)} ${clockText(at)}`;

/** Names an hour for a control: day, hour, state and shortages. */
export const hourLabel = ({
  from,
  state,
  shortages,
}: Pick<HostHourView, "from" | "state" | "shortages">): string => {
  const short = shortBy(shortages);
  return `${dayHourText(from)} UTC: ${hourMarks[shownState(state)][0]}${short && ` of ${short}`}`;
};

/** The length of an hour, in milliseconds. */
export const hourLengthMs = 3_600_000;

/** Returns when the hour that begins at a time ends. */
export const endOfHour = (from: string): string =>
  new Date(Date.parse(from) + hourLengthMs).toISOString();

/** Hours of a host in a row that have the same state, with the start of the first. */
export type RunAt = HostStrip["runs"][number] & { from: string };

/** Returns the runs of a host's hours with their times. */
export const runsOf = ({ from, runs }: Pick<HostStrip, "from" | "runs">): RunAt[] => {
  let at = Date.parse(from);
  return runs.map((run) => {
    const start = at;
    at += run.hours * hourLengthMs;
    return { ...run, from: new Date(start).toISOString() };
  });
};

const retry = "Once the backend accepts them: `svc-server export retry-dead-letters`.";
const lost = "They are lost; the host's report names their sequences.";

const stepsOfShortage: Readonly<Record<ShortageView["kind"], string>> = {
  account_refused: "Open the hour to see why.",
  accounts_lost: "The loss stays unknown.",
  dropped: "Enlarge its queue, or find why it was slow.",
  rejected: "Core's log says why.",
  lost_in_restore:
    "Core had stored them. Ranges: `svc-admin audit list --action ingest.lost --action ingest.gap`.",
  missing: lost,
  file_gap: "Keep rotated files and the journal for longer.",
  export_rejected: retry,
  export_rejected_items: retry,
  unknown: "The loss stays unknown.",
};

const stepsOfState: Partial<Record<HourState, string>> = {
  silent: "It sends no heartbeats. Start its collector: it sends its reports then.",
  late: "It sends heartbeats but no hourly report. On the host, `svc-collector status` says why.",
};

/** Returns the hours of a host in these states: those that lost records first, by the loss, then the newest. */
export const holesOf = (host: HostStrip, states: readonly HourState[]): RunAt[] => {
  const lossOf = ({ state, shortages }: RunAt) =>
    state === "short" ? 1 + shortRecords(shortages) : 0;
  return runsOf(host)
    .filter(({ state }) => state !== null && states.includes(state))
    .toReversed()
    .sort((a, b) => lossOf(b) - lossOf(a));
};

/** Returns why hours are as they are, unless their shortages say it, and what to do; a command is between backticks. */
export const nextStepOf = ({ state, shortages }: Pick<RunAt, "state" | "shortages">): string => {
  const steps = new Set(shortages.map(({ kind }) => stepsOfShortage[kind]));
  if (steps.size > 0) return [...steps].join(" ");
  return (state && stepsOfState[state]) ?? hourMarks[shownState(state)][1];
};

/** Returns words as a sentence. */
export const sentence = (text: string): string => `${capitalised(text)}.`;

/** Says what rules of the host's config dropped and redacted in hours; "" for nothing. */
export const rulesSentence = (
  hours: readonly Pick<HostHourView, "figures">[],
  when = "in this hour",
): string => {
  const sums = new Map<string, RuleCounts>();
  for (const { figures } of hours)
    for (const { rule, ...counts } of figures?.rules ?? []) addRule(sums, rule, counts);
  const text = rulesText(
    [...sums].map(([rule, counts]) => ({ rule, ...counts })),
    formatCount,
  );
  return text && `Rules ${when}: ${plainText(text)}.`;
};

type FleetHour = FleetCompleteness["hours"][number];

/** Returns how many hosts of an hour have an incomplete one. */
export const incompleteHosts = ({ hosts }: FleetHour): number =>
  countIncomplete((state) => hosts[state]);

/** Says how many hosts of an hour are in which state, worst first. */
export const countsText = ({ hosts }: FleetHour): string =>
  shownStates
    .filter((state): state is HourState => state !== "undecided" && (hosts[state] ?? 0) > 0)
    .map((state) => `${formatCount(hosts[state] ?? 0)} ${hourMarks[state][0].toLowerCase()}`)
    // "complete, not delivered" has a comma of its own.
    .join("; ");

/** Says that no hour has settled, and when the first does; null without a host. */
export const settlingText = (settlesAt: string | null, now: string): string => {
  if (settlesAt === null) return "No hour has settled yet: no host is enrolled.";
  const at = `${clockText(settlesAt)} UTC`;
  return settlesAt > now
    ? `No hour has settled yet. The first settles at ${at}.`
    : `No hour has settled yet. The first was due at ${at}; core is settling it.`;
};
