import type { FleetClient } from "#client/connect.ts";
import {
  type CompareHostsData,
  type CompareHostsResponse,
  compareHosts,
  getFleetHealth,
  type ListFleetChangesResponse,
  listFleetChanges,
  type ReportFleetHealthResponse,
  reportFleetHealth,
} from "#client/index.ts";
import {
  describeChange,
  describeComparison,
  describeMeasure,
  describeRefused,
  describeVolume,
} from "#proto/fleet-health/comparison.ts";
import { type FleetFilter, selectsEveryHost } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { isUnusual, unusualVolume } from "#proto/volume.ts";
import { connect } from "../terminal/connect.ts";
import { usageError } from "../terminal/exit-codes.ts";
import { type FleetQuery, filterToQuery } from "../terminal/fleet-query.ts";
import { type Column, type OutputOptions, printRecord, printRows } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "../terminal/parse-option.ts";
import { printList } from "../terminal/print-list.ts";
import { repeat } from "../terminal/repeat.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action, AnswerOf, Columns } from "./command.ts";
import { resolveId } from "./names.ts";

/** Parses a query of the language of `/fleet`. Throws with the fault marked below it. */
export const fleetQueryOf = (words: readonly string[], now: Date): FleetQuery =>
  filterToQuery(filterOf(words, now));

const timedParts = ["silentSince", "notSilentSince", "expires", "notExpires"] as const;

/** Parses a query whose times, such as `since:10:00`, are those of core's clock: this machine's may be wrong. */
export const fleetQueryAtCore = async (
  { clock }: Pick<Terminal, "clock">,
  client: FleetClient,
  words: readonly string[],
): Promise<FleetQuery> => {
  const filter = filterOf(words, new Date(clock.now()));
  if (timedParts.every((part) => filter[part] === undefined)) return filterToQuery(filter);
  return fleetQueryOf(words, new Date(await coreTimeOf(client)));
};

/** Returns the time of core's clock, in milliseconds since the epoch. */
const coreTimeOf = async (client: FleetClient): Promise<number> => {
  const { data } = await reportFleetHealth<true>({ client, query: { limit: 1 } });
  return Date.parse(data.generated_at);
};

/** Checks the query of a change. Throws if it selects every host without `all`, as an empty variable of a script would, and for both. */
export const checkSelection = (
  { clock }: Pick<Terminal, "clock">,
  words: readonly string[],
  { all = false }: { all?: boolean | undefined },
): void => {
  const filter = filterOf(words, new Date(clock.now()));
  if (all && words.length > 0) throw usageError("--all has every host: leave the query out");
  if (!all && selectsEveryHost(filter))
    throw usageError("this selects every host: add --all if you mean all of them, or a condition");
};

/** Checks the query of a budget, as `checkSelection` does. */
export const checkQuery = (
  terminal: Terminal,
  options: { all?: boolean },
  { query }: { query: string },
) => {
  checkSelection(terminal, query === "" ? [] : [query], options);
  return {};
};

/** Returns a past time as the API accepts it. Core's clock decides what `2h` means. */
const pastTimeAtCore = async (
  client: FleetClient,
  time: Instant | undefined,
): Promise<string | undefined> => {
  if (time === undefined || "at" in time) return time?.at;
  return new Date((await coreTimeOf(client)) - time.secondsAgo * 1000).toISOString();
};

const filterOf = (words: readonly string[], now: Date): FleetFilter => {
  const text = words.join(" ");
  const { filter, faults } = parseQuery(text, now);
  const [fault] = faults;
  if (fault !== undefined) {
    const mark = `${" ".repeat(fault.from)}${"^".repeat(Math.max(1, fault.to - fault.from))}`;
    throw usageError(`${fault.message}\n  ${text}\n  ${mark}`);
  }
  return filter;
};

type Row = ReportFleetHealthResponse["items"][number];

const columns: readonly Column<Row>[] = [
  "identity_id as id",
  "state",
  "identity",
  "hostname",
  "last_heartbeat_at as heartbeat",
  "last_envelope_at as envelope",
  { drift: (row) => row.config.drift },
  "version",
];

/** `svc-admin fleet list`: the hosts of a query, the most severe first; `--watch` repeats, `--at` shows a past time. */
export const listFleetAction: Action<{
  limit?: number;
  watch?: boolean;
  interval: number;
  at?: Instant;
}> = async (terminal, { watch, interval, at: time, ...options }, ...words) => {
  let isFirst = true;
  await repeat(terminal, interval, async () => {
    const client = connect(terminal, options);
    const at = await pastTimeAtCore(client, time);
    const selected = at
      ? fleetQueryOf(words, new Date(at))
      : await fleetQueryAtCore(terminal, client, words);
    const query = { ...selected, sort: "severity" as const, ...(at && { at }) };
    if (!isFirst && options.format === "table") terminal.out.write("\n");
    isFirst = false;
    await printList(terminal, options, columns, reportFleetHealth, { client, query });
    return watch !== true;
  });
};

/** `svc-admin fleet show`: a host's health; `--at` shows a past time. */
export const showHostAction: Action<{ at?: Instant }> = async (
  terminal,
  { at: time, ...options },
  id = "",
) => {
  const client = connect(terminal, options);
  const path = { identity_id: await resolveId(client, "host", id) };
  const at = await pastTimeAtCore(client, time);
  const { data } = await getFleetHealth<true>({ client, path, query: at ? { at } : {} });
  const record =
    options.format === "table" ? { ...data.item, forwarding: forwardingOf(data.item) } : data;
  await printRecord(terminal, options, record);
};

/** Describes how a host forwards, and which budget holds it: a held host has no fault. */
const forwardingOf = ({ forwarding, hold }: Row): string | null => {
  if (hold === undefined) return forwarding;
  const held = `held by its budget ${hold.budget} until ${hold.until}`;
  return forwarding === null ? held : `${forwarding}, ${held}`;
};

type Compared =
  | CompareHostsResponse["measures"][number]
  | NonNullable<CompareHostsResponse["volume"]>[number];

/** `svc-admin fleet compare`: compares the hosts of a query since a time with similar ones. */
export const compareHostsAction: Action<{ since: Instant }> = async (
  terminal,
  { since, ...options },
  ...words
) => {
  const client = connect(terminal, options);
  const filter = await fleetQueryAtCore(terminal, client, words);
  const query = { ...filter, since: textOfInstant(since) } as CompareHostsData["query"];
  const { data } = await compareHosts<true>({ client, query });
  if (options.format !== "table") return printRecord(terminal, options, data);
  terminal.out.write(`${describeComparison(data)}\n\n`);
  const columns: readonly Column<Compared>[] = [
    {
      measure: (row) => ("measure" in row ? row.measure : row.signal),
      verdict: (row) => ("verdict" in row ? row.verdict : ""),
      difference: (row) => ("measure" in row ? describeMeasure(row) : describeVolume(row)),
    },
    "changed",
    "control",
  ];
  await printRows(terminal, options, columns, [...data.measures, ...(data.volume ?? [])]);
};

type Change = ListFleetChangesResponse["items"][number];

const changeColumns: readonly Column<Change>[] = [
  { change: describeChange },
  "hosts",
  "began_at",
  {
    comparison: ({ comparison, soak_until }) =>
      comparison ? describeComparison(comparison) : `soaks until ${soak_until}`,
  },
];

/** `svc-admin fleet changes`: what hosts changed without a rollout, and how they compare since. */
export const listChangesAction: Action<{ limit?: number }> = async (terminal, options) => {
  const client = connect(terminal, options);
  await printList(terminal, options, changeColumns, listFleetChanges, { client });
  const { data } = await listFleetChanges<true>({ client, query: { limit: 1 } });
  if (data.refused > 0) terminal.err.write(`${describeRefused(data.refused)}\n`);
};

/** Returns a row for each thing that runs out: what, of which host, when, and the figures behind it. */
const aheadRows = (ahead: AnswerOf<"lookAhead">) => [
  ...ahead.certificates.first.map((host) => ({
    what: "certificate",
    of: host.device_id,
    at: host.expires_at,
    from: "not renewed",
  })),
  ...ahead.queues.fullest.map((host) => ({
    what: "queue",
    of: host.device_id,
    at: host.full_at,
    from: `${host.bytes} of ${host.max_bytes} bytes, ${host.grew_bytes} more in ${host.grew_seconds} s`,
  })),
  ...ahead.tokens.items.map((token) => ({
    what: "token",
    of: `${token.policy_name} ${token.token_prefix}`,
    at: token.expires_at,
    from: token.uses_left === null ? "any number of uses left" : `${token.uses_left} uses left`,
  })),
  ...ahead.system_certificates.items.map(({ machine, name, expires_at }) => ({
    what: "certificate of core",
    of: `${machine} ${name}`,
    at: expires_at,
    from: "",
  })),
];

/** Prints what runs out, and how many hosts are affected; with `-o json` core's response. */
export const printAhead = async (
  terminal: Terminal,
  options: OutputOptions,
  ahead: AnswerOf<"lookAhead">,
): Promise<void> => {
  if (options.format === "json" || options.format === "yaml")
    return printRecord(terminal, options, ahead);
  const rows = aheadRows(ahead);
  await printRows(terminal, options, ["what", "of", "at", "from"], rows);
  const { certificates, queues, telemetry } = ahead;
  terminal.err.write(
    `until ${ahead.until}: ${certificates.count} hosts do not renew, ${queues.count} queues fill\n`,
  );
  if (telemetry)
    terminal.err.write(
      `telemetry: ${telemetry.bytes} bytes of ${telemetry.days} days, ${telemetry.bytes_then} then\n`,
    );
};

/** The columns of `svc-admin volume`. */
export const volumeColumns: Columns<"reportVolume"> = [
  { name: ({ name, device_id }) => device_id ?? name ?? "(none)" },
  "payload_bytes as bytes",
  "envelopes",
  "disk_bytes",
  {
    "usual bytes a day": ({ day }) => day?.usual_bytes,
    note: ({ day }) => (day && isUnusual(day) ? `${unusualVolume.times}x its usual` : ""),
  },
];
