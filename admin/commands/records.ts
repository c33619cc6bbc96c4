import {
  items,
  type ListAuditEventsData,
  type ListAuditEventsResponse,
  listAuditEvents,
} from "#client/index.ts";
import { minuteMs } from "#kit/clock.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { withoutEnd } from "#proto/system/calendar.ts";
import { components, describePart, isIll } from "#proto/system/parts.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import {
  type Column,
  createRowPrinter,
  type OutputOptions,
  printRecord,
  printRows,
} from "../terminal/output.ts";
import type { Instant } from "../terminal/parse-option.ts";
import { printList } from "../terminal/print-list.ts";
import { repeat } from "../terminal/repeat.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action, AnswerOf, GlobalOptions } from "./command.ts";

type Event = ListAuditEventsResponse["items"][number];

const columns: readonly Column<Event>[] = [
  "occurred_at as time",
  { actor: ({ actor }) => actor.display },
  "action",
  {
    target: ({ target }) => `${target.type} ${target.id}`,
    outcome: ({ outcome, reason_code }) =>
      reason_code === null ? outcome : `${outcome} ${reason_code}`,
  },
];

interface AuditOptions {
  action?: string;
  actor?: string;
  target?: string;
  since?: Instant;
  until?: Instant;
  limit?: number;
  follow?: boolean;
}

type Query = NonNullable<ListAuditEventsData["query"]>;

const followSeconds = 2;
/** A person reads the newest events; a program gets every one. */
const tableLimit = 100;

/** `svc-admin audit list`: newest first; with `--follow`, what happens from now on, oldest first. */
export const listAuditAction: Action<AuditOptions> = async (
  terminal,
  { limit, follow, ...options },
) => {
  const { action, actor, target, since, until, format } = options;
  const query: Query = withoutUndefined({ action, actor, target });
  if (follow === true) return followAudit(terminal, options, query);
  const times = { ...timeQuery("since", since), ...timeQuery("until", until) };
  const request = { client: connect(terminal, options), query: { ...query, ...times } };
  const output = { format, limit: limit ?? (format === "table" ? tableLimit : undefined) };
  const hasMore = await printList(terminal, output, columns, listAuditEvents, request);
  if (hasMore && limit === undefined)
    terminal.err.write(
      `These are the first ${tableLimit}: --limit reads more, and -o csv, json or yaml all of them.\n`,
    );
};

/** Returns a time as the API accepts it: core subtracts seconds from its own clock, so this machine's does not matter. */
const timeQuery = (name: "since" | "until", time: Instant | undefined): Query => {
  if (time === undefined) return {};
  if ("at" in time) return { [name]: time.at };
  return { [name === "since" ? "within_seconds" : "older_than_seconds"]: String(time.secondsAgo) };
};

/** Prints new events, or those since a time, until interrupted. Core's time of the newest event decides what is new. */
const followAudit = async (
  terminal: Terminal,
  { since, ...options }: GlobalOptions & { since?: Instant },
  query: Query,
) => {
  const print = createRowPrinter(terminal, options, columns);
  let newest: number | undefined;
  let seen = new Set<string>();
  let isFirst = true;
  await repeat(terminal, followSeconds, async () => {
    const client = connect(terminal, options);
    if (newest === undefined && since === undefined) {
      const { data } = await listAuditEvents<true>({ client, query: { ...query, limit: 1 } });
      const [latest] = data.items;
      if (latest) newest = Date.parse(latest.occurred_at);
    }
    // Events are committed out of order: those of the last minute are read again.
    const from =
      newest === undefined
        ? timeQuery("since", since)
        : { since: new Date(newest - minuteMs).toISOString() };
    const found = await Array.fromAsync(
      items(listAuditEvents, { client, query: { ...query, ...from, limit: 1000 } }),
    );
    const isOld = isFirst && since === undefined;
    if (!isOld) await print(found.filter(({ id }) => !seen.has(id)).reverse());
    isFirst = false;
    seen = new Set(found.map(({ id }) => id));
    const [latest] = found;
    if (latest) newest = Math.max(newest ?? 0, Date.parse(latest.occurred_at));
    return false;
  });
};

/** Prints the state of the system's parts, those that need attention first. Exits with 1 if one is not ready. */
export const printSystem = async (
  terminal: Terminal,
  options: OutputOptions,
  { parts, state }: AnswerOf<"reportSystem">,
) => {
  const columns: readonly Column<(typeof parts)[number]>[] = [
    { component: (part) => components[describePart(part).component] },
    "of",
    { check: (part) => describePart(part).title },
    "state",
    "since",
    "detail as what it says",
    { "what to do": (part) => (isIll(part) ? describePart(part).remedy : "") },
  ];
  await printRows(terminal, options, columns, parts);
  return state === "not_ready" ? exitCodes.refused : undefined;
};

/** Prints what ends when, what ends next first. Exits with 1 if something ends within 30 days. */
export const printCalendar = async (
  terminal: Terminal,
  options: OutputOptions,
  { items }: AnswerOf<"readCalendar">,
) => {
  const columns: readonly Column<(typeof items)[number]>[] = [
    { ends: ({ ends_at, ending }) => ends_at ?? withoutEnd[ending] },
    "state",
    { what: ({ what, subject }) => (subject ? `${what}: ${subject}` : what) },
    "of",
    "changed_at as file written",
    { "changed by": ({ change, docs }) => `${change} (${docs})` },
    "away as a host that was away",
  ];
  await printRows(terminal, options, columns, items);
  return items.every(({ state }) => state === "ready") ? undefined : exitCodes.refused;
};

/** Prints the hosts that lack the newest CA bundle of a channel, and what that means. Exits with 1 if there is one. */
export const printTrust = async (
  terminal: Terminal,
  options: OutputOptions,
  answer: AnswerOf<"readTrust">,
) => {
  const { channels, away } = answer;
  const lacking = channels.flatMap(({ channel, lacking: hosts }) =>
    hosts.map((host) => ({ channel, ...host })),
  );
  const exitCode = lacking.length === 0 ? undefined : exitCodes.refused;
  if (options.format === "json" || options.format === "yaml") {
    await printRecord(terminal, options, answer);
    return exitCode;
  }
  const columns: readonly Column<(typeof lacking)[number]>[] = [
    "channel",
    "identity",
    { bundle: ({ number, is_pinned: isPinned }) => number ?? (isPinned ? "pinned" : "none") },
    "last_heartbeat_at as last heartbeat",
    { silent: ({ is_silent: isSilent }) => (isSilent ? "silent" : "") },
  ];
  await printRows(terminal, options, columns, lacking);
  for (const { channel, advice } of channels) terminal.err.write(`${channel}: ${advice}\n`);
  if (exitCode) terminal.err.write(`On a host that was away for the whole change: ${away}\n`);
  return exitCode;
};
