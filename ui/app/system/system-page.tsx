import { Show } from "solid-js";
import { filterToParams } from "#proto/fleet-health/filter.ts";
import { groupParts, isIll } from "#proto/system/parts.ts";
import { type PartState, SystemReport } from "#proto/system/report.ts";
import { type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { List, Loaded, Shown } from "../design/report-parts.tsx";
import { formatBytes, formatCount, formatCountOf, plainText } from "../format/format.ts";
import { createPage, PageFrame, Time } from "../shell/page.tsx";
import { Calendar } from "./calendar.tsx";
import { Components } from "./components.tsx";
import { PartMark } from "./part-mark.tsx";
import { Trust } from "./trust.tsx";

type Core = SystemReport["cores"][number];

const coreColumns: RecordColumns<Core> = {
  Machine: ({ machine }) => plainText(machine),
  State: ({ state }) => <PartMark state={coreStates[state]} words={state} />,
  Version: ({ version }) => plainText(version),
  Started: ({ started_at: at }) => <Time at={at} />,
  "Last report": ({ reported_at: at }) => <Time at={at} />,
  "Streams of hosts": {
    isNumber: true,
    cell: ({ streams }) =>
      streams === null ? <span class="quiet">none</span> : formatCount(streams),
  },
  Hosts: {
    isNumber: true,
    cell: ({ machine, hosts }) => (
      <Show when={hosts > 0} fallback="0">
        <a href={`/fleet?${filterToParams({ core: [machine], heartbeat: ["recent"] })}`}>
          {formatCount(hosts)}
        </a>
      </Show>
    ),
  },
  "Clock ahead": {
    isNumber: true,
    cell: ({ clock_ahead_seconds: ahead }) => `${ahead.toFixed(1)} s`,
  },
};

/** `/system`: the state of cores, database, exports and certificates, those that need attention first. */
export const SystemPage = () => {
  const page = createPage({
    title: () => "System",
    schema: SystemReport,
    path: () => "/api/core/system",
    intervalMs: 10_000,
  });
  const { report } = page;
  return (
    <PageFrame of={page}>
      <Loaded report={report} what="state of the system" heading>
        {(known) => (
          <Shown by={report} class="page">
            <strong>
              <PartMark state={known().state} words={headlineOf(known())} />
            </strong>
            <Components parts={known().parts} />
            <h2>Cores</h2>
            <RecordTable
              label="Cores"
              columns={coreColumns}
              rows={known().cores}
              isFailed={({ state }) => state === "silent"}
            />
            <h2>Database</h2>
            <List class="stack gap-1" of={databaseFacts(known())}>
              {(fact) => fact}
            </List>
            <h2>Outages of the last week</h2>
            <LastOutages outages={known().outages} />
            <Calendar />
            <Trust />
          </Shown>
        )}
      </Loaded>
    </PageFrame>
  );
};

/** When no core listened for hosts, newest first. */
const LastOutages = (props: { outages: SystemReport["outages"] }) => (
  <List
    class="stack gap-1"
    of={props.outages.toReversed()}
    none="None. A failed check is no outage while a core listens."
  >
    {(outage) => (
      <>
        <Time at={outage.began_at} /> to{" "}
        <Show when={outage.ended_at} fallback="now: no core listens">
          {(at) => <Time at={at()} />}
        </Show>
      </>
    )}
  </List>
);

const coreStates: Readonly<Record<Core["state"], PartState>> = {
  running: "ready",
  silent: "not_ready",
  stopped: "disabled",
};

const headlineOf = ({ parts }: SystemReport) => {
  const groups = groupParts(parts);
  const ill = groups.filter(({ worst }) => isIll(worst));
  return ill.length > 0
    ? `${formatCount(ill.length)} of ${formatCountOf(groups.length, "component")} ${ill.length === 1 ? "needs" : "need"} attention`
    : `All ${formatCountOf(groups.length, "component")} are ready`;
};

const databaseFacts = ({ database }: SystemReport): string[] => [
  `PostgreSQL ${database.version}, ${formatBytes(database.bytes)}, ${formatBytes(database.telemetry_bytes)} of it telemetry`,
  ...(database.oldest_day === null ? [] : [`Telemetry since ${database.oldest_day.slice(0, 10)}`]),
  ...(database.retention_days === null
    ? []
    : [`Telemetry is kept ${formatCountOf(database.retention_days, "day")}`]),
  database.slow_statements === 0
    ? "No statement runs for more than 10 s"
    : `${formatCountOf(database.slow_statements, "statement")} run for more than 10 s, the longest for ${Math.round(database.slowest_seconds)} s`,
  ...(database.standbys.length === 0
    ? ["No standby is connected, or core's role may not see it"]
    : database.standbys.map(({ name, lag_seconds: lag }) =>
        lag === null
          ? `Standby ${name} has replayed everything`
          : `Standby ${name} is ${lag.toFixed(1)} s behind`,
      )),
];
