import { Show } from "solid-js";
import * as v from "valibot";
import { shortRecords } from "#proto/completeness/short-records.ts";
import { TextOrNull } from "#proto/values.ts";
import { createReport, useUpdates } from "../api/live-report.tsx";
import { formatCountOf, plainText } from "../format/format.ts";
import { incompleteText } from "./incomplete-text.ts";

/** The part of the report that the sentence needs: the whole schema would be a tenth of the page's script. */
const FleetHours = v.object({
  settled_until: TextOrNull,
  hosts: v.number(),
  hosts_listed: v.number(),
  hours: v.array(v.object({ hosts: v.record(v.string(), v.number()) })),
  items: v.array(
    v.object({
      host_id: v.string(),
      device_id: TextOrNull,
      worst: v.nullable(
        v.object({
          from: v.string(),
          state: v.string(),
          shortages: v.array(v.object({ kind: v.string(), count: v.nullable(v.number()) })),
        }),
      ),
    }),
  ),
});

/** The completeness of the last 24 hours in one sentence, with the host that is short of most; nothing until an hour is settled. */
export const FleetSentence = () => {
  const report = createReport({
    schema: FleetHours,
    path: () => "/api/core/collector/completeness?from=24h&limit=1",
    paused: useUpdates().paused,
    showsAge: true,
  });
  const known = () => {
    const value = report.value();
    // An old one is not shown at all: the page shows the age of its other figures.
    return report.phase() === "fresh" && value && value.settled_until !== null ? value : undefined;
  };
  return (
    <Show when={known()}>
      {(value) => (
        <p class="fleet-completeness">
          <a href="/data/completeness?from=24h">{wordsOf(value())}</a>
        </p>
      )}
    </Show>
  );
};

const wordsOf = ({ items, ...report }: v.InferOutput<typeof FleetHours>) => {
  const counts = `${incompleteText(report)} in the last 24 h`;
  const [first] = items;
  if (first?.worst == null) return counts;
  const { from, state, shortages } = first.worst;
  const records = shortRecords(shortages);
  const short = records === 0 ? "" : ` of ${formatCountOf(records, "record")}`;
  return `${counts}; ${plainText(first.device_id ?? first.host_id)} ${state.replace("_", " ")}${short} at ${from.slice(11, 16)} UTC`;
};
