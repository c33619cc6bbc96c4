import { Show } from "solid-js";
import { FleetCompleteness } from "../../../proto/completeness/report.ts";
import { createReport } from "../api/create-report.ts";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { HourShape } from "./hour-mark.tsx";
import { clockText, hourStateWords, shortBy } from "./hour-view.ts";
import "./completeness.css";

/** The completeness of the last 24 hours in one sentence, with the host that is short of most; nothing until an hour is settled. */
export const FleetSentence = (props: { paused: boolean }) => {
  const { api } = usePageContext();
  const report = createReport({
    api,
    schema: FleetCompleteness,
    path: () => "/api/core/collector/completeness?from=24h&limit=1",
    intervalMs: 60_000,
    paused: () => props.paused,
    showsAge: true,
  });
  const known = () => {
    const value = report.answer()?.value;
    // One that is old is not shown at all: the page says the age of its other figures.
    return report.phase() === "fresh" && value && value.settled_until !== null ? value : undefined;
  };
  return (
    <Show when={known()}>
      {(value) => (
        <p class="fleet-completeness">
          <HourShape state={value().hosts_listed === 0 ? "complete" : (value().items[0]?.worst?.state ?? "short")} />
          <a href="/completeness?from=24h">{wordsOf(value())}</a>
        </p>
      )}
    </Show>
  );
};

const wordsOf = ({ hosts, hosts_listed: incomplete, items }: FleetCompleteness): string => {
  const whole = `${formatCountOf(hosts, "host")}: ${formatCount(Math.max(0, hosts - incomplete))} complete in the last 24 h`;
  const [first] = items;
  if (first?.worst == null) return whole;
  const name = plainText(first.device_id ?? first.host_id);
  const short = shortBy(first.worst.shortages);
  const state = hourStateWords[first.worst.state][0].toLowerCase();
  return `${whole}; ${name} ${state}${short === "" ? "" : ` of ${short}`} at ${clockText(first.worst.from)} UTC`;
};
