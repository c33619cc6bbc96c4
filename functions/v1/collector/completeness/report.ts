import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  type HostStates,
  reportFleetHours,
  type SettledHour,
} from "#functions/domain/completeness/report-completeness.ts";
import { scope } from "#functions/http/guards.ts";
import { createCursorSeal, listFields } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { hourMs as hourLengthMs, rfc3339 } from "#kit/clock.ts";
import { incompleteStates } from "#proto/completeness/hour-note.ts";
import { type HourState, hourStates } from "#proto/completeness/hour-state.ts";
import { FleetCompleteness, type HostStrip } from "#proto/completeness/report.ts";
import { shortRecords } from "#proto/completeness/short-records.ts";
import { Identifier } from "#proto/values.ts";
import { hourRangeFields, hourRangeOf, shortageViews } from "./hour.ts";

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

/** Which hours of which hosts: without `state`, those that somebody should look at. */
export const hourFilterFields = {
  ...hourRangeFields,
  state: v.optional(States),
  host: v.optional(Identifier(2048)),
};

/** Returns the states that a list is of. */
export const statesOf = (asked: readonly HourState[] | undefined): readonly HourState[] =>
  asked === undefined ? incompleteStates : hourStates.filter((state) => asked.includes(state));

/** `GET /v1/collector/completeness`: how many hosts have which state in each hour, and the hosts whose hours are not complete. */
export const fleetCompletenessRoute = (
  core: Pick<Core, "config" | "db" | "clock" | "hourColumns">,
) => {
  const cursors = createCursorSeal(core.config);
  return route({
    method: "GET",
    path: "/v1/collector/completeness",
    operationId: "reportCompleteness",
    summary:
      "How many hosts have which state in each hour, and the hosts with the most incomplete hours",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...hourFilterFields, ...listFields }),
    replies: { 200: { description: "The report", schema: FleetCompleteness } },
    handle: async ({ query }) => {
      const now = core.clock.now();
      const list = "completeness";
      const [from, to, hours, host] =
        query.cursor === undefined ? [] : await cursors.open(list, query.cursor);
      // Further pages are of the hours of the first one.
      const range =
        from === undefined ? hourRangeOf(query, now) : { fromMs: Number(from), toMs: Number(to) };
      const filter = { ...range, states: statesOf(query.state), host: query.host ?? null };
      const after = host === undefined ? null : { hours: Number(hours), host };
      const { counts, total, hosts, next } = await reportFleetHours(core, filter, {
        after,
        limit: query.limit,
      });
      const last = counts.at(-1);
      const body: FleetCompleteness = {
        generated_at: rfc3339(now),
        from: rfc3339(range.fromMs),
        to: rfc3339(range.toMs),
        settled_until: last === undefined ? null : rfc3339(last.hourMs + hourLengthMs),
        hosts:
          last === undefined ? 0 : [...last.hosts.values()].reduce((sum, count) => sum + count, 0),
        hosts_listed: total,
        hours: counts.map(({ hourMs, hosts: byState }) => ({
          from: rfc3339(hourMs),
          hosts: Object.fromEntries([...byState].filter(([, count]) => count > 0)),
        })),
        items: hosts.map((one) => stripView(one, filter.states)),
        next_cursor:
          next &&
          (await cursors.seal(list, [
            String(range.fromMs),
            String(range.toMs),
            String(next.hours),
            next.host,
          ])),
      };
      return { status: 200, body };
    },
  });
};

const stripView = (
  { host, name, hours, settled }: HostStates,
  states: readonly HourState[],
): HostStrip => {
  const worst = worstOf(settled.filter(({ state }) => state !== null && states.includes(state)));
  return {
    host_id: host,
    identity_id: name?.identityId ?? null,
    device_id: name?.deviceId ?? null,
    hours,
    worst: worst?.state
      ? { from: rfc3339(worst.hourMs), state: worst.state, shortages: shortageViews(worst.note) }
      : null,
    from: rfc3339(settled[0]?.hourMs ?? 0),
    runs: runsOf(settled),
  };
};

const recordsShort = ({ note }: SettledHour): number => shortRecords(note?.shortages ?? []);

const worstOf = (hours: readonly SettledHour[]): SettledHour | undefined =>
  hours.reduce<SettledHour | undefined>(
    (worst, hour) =>
      worst === undefined || recordsShort(hour) >= recordsShort(worst) ? hour : worst,
    undefined,
  );

const runsOf = (settled: readonly SettledHour[]): HostStrip["runs"] => {
  const runs: HostStrip["runs"] = [];
  for (const { state } of settled) {
    const last = runs.at(-1);
    if (last?.state === state) last.hours += 1;
    else runs.push({ state, hours: 1 });
  }
  return runs;
};
