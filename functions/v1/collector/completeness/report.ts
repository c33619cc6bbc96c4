import * as v from "valibot";
import type { ConfiguredCore, Core } from "#functions/core.ts";
import {
  exportFleetHours,
  type HostStates,
  type MatchingHour,
  reportFleetHours,
  type SettledHour,
} from "#functions/domain/completeness/report-completeness.ts";
import { type CsvColumns, csvRoute } from "#functions/http/csv.ts";
import { listFields, resource } from "#functions/http/resource.ts";
import { hourMs, rfc3339 } from "#kit/clock.ts";
import {
  type HourState,
  hourStates,
  incompleteStates,
  type Shortage,
  shortageKinds,
  shortRecords,
} from "#proto/completeness/hour-state.ts";
import {
  FleetCompleteness,
  type HostStrip,
  type ShortageView,
} from "#proto/completeness/report.ts";
import { Identifier } from "#proto/values.ts";
import { hourRangeFields, hourRangeOf, shortageViews } from "./hour.ts";

/** The route that reports how many hosts have which state in each hour, and the hosts whose hours are not complete. */
export const completenessReports = (core: Pick<Core, "config" | "db" | "clock" | "hourColumns">) =>
  resource(core, "/v1/collector/completeness", ({ get, cursors }) => ({
    reportCompleteness: get(
      "",
      "How many hosts have which state in each hour, and the hosts with incomplete hours, the largest loss first",
      {
        query: v.strictObject({ ...hourFilterFields, ...listFields }),
        returns: ["The report", FleetCompleteness],
        handle: async ({ query }) => {
          const now = core.clock.now();
          const list = "completeness";
          const [from, to, hours, host, loss] = await cursors.open(list, query.cursor);
          // Further pages have the hours of the first page.
          const range =
            from === undefined
              ? hourRangeOf(query, now)
              : { fromMs: Number(from), toMs: Number(to) };
          const filter = { ...range, states: statesOf(query.state), host: query.host ?? null };
          const after =
            host === undefined ? null : { hours: Number(hours), host, loss: Number(loss ?? 0) };
          const { counts, total, hosts, next, settlesMs } = await reportFleetHours(core, filter, {
            after,
            limit: query.limit,
          });
          const last = counts.at(-1);
          return {
            generated_at: rfc3339(now),
            from: rfc3339(range.fromMs),
            to: rfc3339(range.toMs),
            settled_until: last === undefined ? null : rfc3339(last.hourStartMs + hourMs),
            settles_at: settlesMs === null ? null : rfc3339(settlesMs),
            hosts:
              last === undefined
                ? 0
                : [...last.hosts.values()].reduce((sum, count) => sum + count, 0),
            hosts_listed: total,
            hours: counts.map(({ hourStartMs, hosts: byState }) => ({
              from: rfc3339(hourStartMs),
              hosts: Object.fromEntries([...byState].filter(([, count]) => count > 0)),
            })),
            items: hosts.map((host) => stripView(host, filter.states)),
            next_cursor: await cursors.seal(
              list,
              next && [
                ...[range.fromMs, range.toMs, next.hours].map(String),
                next.host,
                String(next.loss),
              ],
            ),
          };
        },
      },
    ),
  }));

const State = v.picklist(hourStates, "must be a state of an hour");
const States = v.union(
  [
    v.array(State),
    v.pipe(
      State,
      v.transform((state) => [state]),
    ),
  ],
  "must be a state of an hour",
);

/** Selects hours of hosts; without `state`, those that need attention. */
const hourFilterFields = {
  ...hourRangeFields,
  state: v.optional(States),
  host: v.optional(Identifier(2048)),
};

/** Returns the states of a list. */
const statesOf = (asked: readonly HourState[] | undefined): readonly HourState[] =>
  asked === undefined ? incompleteStates : hourStates.filter((state) => asked.includes(state));

const stripView = (
  { host, name, hours, settled, openQueues }: HostStates,
  states: readonly HourState[],
): HostStrip => {
  const worst = worstOf(settled.filter(({ state }) => state !== null && states.includes(state)));
  return {
    host_id: host,
    identity_id: name?.identityId ?? null,
    device_id: name?.deviceId ?? null,
    hours,
    worst: worst?.state
      ? {
          from: rfc3339(worst.hourStartMs),
          state: worst.state,
          shortages: shortageViews(worst.note),
        }
      : null,
    from: rfc3339(settled[0]?.hourStartMs ?? 0),
    runs: runsOf(settled),
    open_queues: openQueues,
  };
};

const recordsShort = ({ note }: SettledHour) => shortRecords(note?.shortages ?? []);

const worstOf = (hours: readonly SettledHour[]): SettledHour | undefined =>
  hours.reduce<SettledHour | undefined>(
    (worst, hour) =>
      worst === undefined || recordsShort(hour) >= recordsShort(worst) ? hour : worst,
    undefined,
  );

const runsOf = (settled: readonly SettledHour[]): HostStrip["runs"] => {
  const runs: HostStrip["runs"] = [];
  for (const { state, note } of settled) {
    const shortages = shortageViews(note);
    const last = runs.at(-1);
    if (last?.state === state) {
      last.hours += 1;
      last.shortages = sumShortages([...last.shortages, ...shortages]);
    } else runs.push({ state, hours: 1, shortages });
  }
  return runs;
};

/** Adds up shortages of the same kind and reason; one that nobody can count stays so. */
const sumShortages = (shortages: readonly ShortageView[]): ShortageView[] =>
  [...Map.groupBy(shortages, ({ kind, reason }) => `${kind} ${reason}`).values()].flatMap(
    ([first, ...others]) =>
      first === undefined ? [] : { ...first, count: others.reduce(addCount, first.count) },
  );

const addCount = (sum: number | null, { count }: ShortageView) =>
  sum === null || count === null ? null : sum + count;

const shortageText = (shortages: readonly Shortage[], kind: Shortage["kind"]) => {
  const found = shortages.filter((shortage) => shortage.kind === kind);
  if (found.length === 0) return null;
  const reasons = found.flatMap(({ reason }) => reason ?? []);
  return reasons.length > 0 ? reasons.join(" ") : (found[0]?.count ?? "unknown");
};

const columns: CsvColumns<MatchingHour> = {
  hour: ({ hourStartMs }) => rfc3339(hourStartMs),
  identity: ({ host }) => host,
  identity_id: ({ name }) => name?.identityId ?? null,
  device_id: ({ name }) => name?.deviceId ?? null,
  state: ({ state }) => state,
  accepted: ({ note }) => note?.accepted ?? null,
  stored: ({ note }) => note?.stored ?? null,
  ...Object.fromEntries(
    shortageKinds.map((kind) => [
      kind,
      ({ note }: MatchingHour) => shortageText(note?.shortages ?? [], kind),
    ]),
  ),
};

/** `GET /v1/collector/completeness/export.csv`: every hour of the list's filter; audited. */
export const exportCompletenessRoute = (core: ConfiguredCore) =>
  csvRoute(core, {
    path: "/v1/collector/completeness/export.csv",
    operationId: "exportCompleteness",
    summary:
      "The hours of hosts that are not complete as CSV, those of the hosts with the largest loss first",
    query: v.strictObject(hourFilterFields),
    open: async ({ query: { from, to, state, host } }, audit) => {
      const now = core.clock.now();
      const range = hourRangeOf({ from, to }, now);
      const asked = { from: rfc3339(range.fromMs), to: rfc3339(range.toMs), state, host };
      const filter = { ...range, states: statesOf(state), host: host ?? null };
      const batches = exportFleetHours(core, filter, { ...audit, asked });
      return { name: "completeness", asked: { state, host }, at: new Date(now), columns, batches };
    },
  });
