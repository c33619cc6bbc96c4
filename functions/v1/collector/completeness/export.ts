import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  exportFleetHours,
  type MatchingHour,
} from "#functions/domain/completeness/report-completeness.ts";
import { type CsvColumn, csvRoute } from "#functions/http/csv.ts";
import { rfc3339 } from "#kit/clock.ts";
import { type Shortage, shortageKinds } from "#proto/completeness/hour-state.ts";
import { hourRangeOf } from "./hour.ts";
import { hourFilterFields, statesOf } from "./report.ts";

const shortageText = (
  shortages: readonly Shortage[],
  kind: Shortage["kind"],
): string | number | null => {
  const found = shortages.filter((shortage) => shortage.kind === kind);
  if (found.length === 0) return null;
  const reasons = found.flatMap(({ reason }) => reason ?? []);
  return reasons.length > 0 ? reasons.join(" ") : (found[0]?.count ?? "unknown");
};

const columns: readonly CsvColumn<MatchingHour>[] = [
  ["hour", ({ hourMs }) => rfc3339(hourMs)],
  ["identity", ({ host }) => host],
  ["identity_id", ({ name }) => name?.identityId ?? null],
  ["device_id", ({ name }) => name?.deviceId ?? null],
  ["state", ({ state }) => state],
  ["accepted", ({ note }) => note?.accepted ?? null],
  ["stored", ({ note }) => note?.stored ?? null],
  ...shortageKinds.map(
    (kind): CsvColumn<MatchingHour> => [
      kind,
      ({ note }) => shortageText(note?.shortages ?? [], kind),
    ],
  ),
];

/** `GET /v1/collector/completeness/export.csv`: every hour of the list's filter; audited. */
export const exportCompletenessRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  csvRoute(core, {
    path: "/v1/collector/completeness/export.csv",
    operationId: "exportCompleteness",
    summary:
      "The hours of hosts that are not complete as CSV, those of the hosts with the most first",
    query: v.strictObject(hourFilterFields),
    open: async ({ query, caller: operator, origin }) => {
      const now = core.clock.now();
      const range = hourRangeOf(query, now);
      const { state, host } = query;
      const asked = { from: rfc3339(range.fromMs), to: rfc3339(range.toMs), state, host };
      const filter = { ...range, states: statesOf(state), host: host ?? null };
      const batches = exportFleetHours(core, filter, { operator, origin, asked });
      return { name: "completeness", asked: { state, host }, at: new Date(now), columns, batches };
    },
  });
