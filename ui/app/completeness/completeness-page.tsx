import { Show } from "solid-js";
import { type HourState, hourStates, incompleteStates } from "#proto/completeness/hour-state.ts";
import { FleetCompleteness, type HostStrip } from "#proto/completeness/report.ts";
import { CopiedCommand } from "../design/buttons.tsx";
import { Chips, RecordList } from "../design/record-list.tsx";
import { type RecordColumns, TwoLines } from "../design/record-table.tsx";
import { List, Loaded, Notice, Shown } from "../design/report-parts.tsx";
import { formatCountOf, plainText } from "../format/format.ts";
import { type AddressList, createListPage, PageFrame } from "../shell/page.tsx";
import { FirstHour } from "./first-hour.tsx";
import { Holes } from "./holes.tsx";
import { HourMark } from "./hour-mark.tsx";
import {
  countsText,
  dayHourText,
  endOfHour,
  hourMarks,
  incompleteHosts,
  settlingText,
} from "./hour-view.ts";
import { AllHours, HoursStrip, type HrefOf } from "./hours-picture.tsx";
import { hostsWith, incompleteText, restText } from "./incomplete-text.ts";
import "./completeness.css";

const ranges = { "24 hours": "24h", "7 days": null, "30 days": "30d" };

/** `/data/completeness`: what core knows before the first hour is settled; then the hours of hosts, the largest loss first. */
export const CompletenessPage = () => {
  const { page, report, list, ...address } = createListPage({
    path: "/data/completeness",
    schema: FleetCompleteness,
    limit: 20,
  });
  const asked = () =>
    hourStates.filter((state) => address.params().getAll("state").includes(state));
  const what = () => (asked().length > 0 ? "hours in this state" : undefined);
  const rest = (shown: number) => {
    const known = report.value();
    return known && restText(known, { shown, what: what() });
  };
  const withHours = () => {
    const known = report.value();
    return report.phase() !== "failed" && known && known.hours.length > 0 ? known : undefined;
  };
  return (
    <PageFrame of={page} class="completeness">
      <Loaded
        report={report}
        what="hours"
        heading
        instead={{ href: "/data/completeness", words: "Show the last 7 days" }}
      >
        {(known) => (
          <Shown by={report} class="page">
            <p class="headline">{headlineOf(known(), asked())}</p>
            <Show when={withHours()} fallback={<Unsettled report={known()} list={address} />}>
              <Choices report={known()} list={address} />
            </Show>
          </Shown>
        )}
      </Loaded>
      <Show when={address.params().get("host")}>
        {(host) => (
          <p>
            Hours of <code>{plainText(host())}</code>.{" "}
            <a href={address.pathOf({ host: null })}>Show all hosts</a>
          </p>
        )}
      </Show>
      <Show when={withHours()}>
        {(known) => (
          <>
            <RecordList
              {...list()}
              label="Hosts, the largest loss first"
              columns={columnsOf(known, asked, (from, to) => address.pathOf({ from, to }))}
              rowsOf={(hosts): Row[] => ["all", ...hosts]}
              isFailed={(row) => row !== "all" && row.worst?.state === "short"}
              noun="host"
              order="first to last"
              exports={{ csv: "CSV" }}
              empty={<p>{rest(0)}</p>}
            />
            <Show when={known().items.length > 0 && !address.params().has("cursor")}>
              <p>{rest(known().items.length)}</p>
            </Show>
            <Verification report={known()} />
          </>
        )}
      </Show>
    </PageFrame>
  );
};

interface ReportProps {
  report: FleetCompleteness;
  list: AddressList;
}

/** What stands in place of hours: those that are to come, or a link to those that there are. */
const Unsettled = (props: ReportProps) => (
  <Show
    when={props.list.params().size === 0 && props.report.settles_at}
    fallback={
      // Without a host there is none at any time, as the headline says.
      <Show when={props.report.settled_until ?? props.report.settles_at}>
        <Notice
          title="No hour of this time has settled"
          href="/data/completeness"
          link="Show the last 7 days"
        />
      </Show>
    }
  >
    {(at) => (
      <>
        <FirstHour settlesAt={at()} />
        <p class="quiet">
          Then each host has a row here: its hours, what is missing, and what to do.
        </p>
      </>
    )}
  </Show>
);

/** The spans of time, the chosen hour, the states of its hosts, and the figures of each hour. */
const Choices = (props: ReportProps) => {
  const present = () =>
    hourStates.filter((one) => props.report.hours.some(({ hosts }) => (hosts[one] ?? 0) > 0));
  return (
    <>
      <Chips label="Time" chips={props.list.chips("from", ranges, { to: null })}>
        <Show when={props.list.params().has("to")}>
          <span class="button" aria-current="true">
            {dayHourText(props.report.from)} to {dayHourText(props.report.to)} UTC
          </span>
        </Show>
      </Chips>
      <Chips
        label="Hosts with hours in a state"
        chips={[
          props.list.chip("Incomplete", { state: null }),
          ...present().map((state) => ({
            ...props.list.chip(<HourMark state={state} />, { state }),
            title: hourMarks[state][1],
          })),
        ]}
      />
      <details>
        <summary>Figures of each hour</summary>
        <List class="hours-list stack gap-1" of={props.report.hours.toReversed()}>
          {(hour) => (
            <>
              <a href={props.list.pathOf({ from: hour.from, to: endOfHour(hour.from) })}>
                {dayHourText(hour.from)} UTC
              </a>
              : {countsText(hour)}
            </>
          )}
        </List>
      </details>
    </>
  );
};

/** The hosts of an hour together, or one. */
type Row = "all" | HostStrip;

const columnsOf = (
  reportOf: () => FleetCompleteness,
  askedOf: () => readonly HourState[],
  hrefOf: HrefOf,
): RecordColumns<Row> => ({
  Host: (row) => (row === "all" ? "All hosts" : <HostName host={row} />),
  Hours: (row) =>
    row === "all" ? (
      <AllHours report={reportOf()} hrefOf={hrefOf} />
    ) : (
      <HoursStrip host={row} range={reportOf()} />
    ),
  "Missing, and next step": (row) =>
    row === "all" ? (
      `In the worst hour, ${formatCountOf(Math.max(...reportOf().hours.map(incompleteHosts)), "host is", "hosts are")} incomplete.`
    ) : (
      <Holes host={row} states={askedOf().length > 0 ? askedOf() : incompleteStates} />
    ),
});

const HostName = (props: { host: HostStrip }) => {
  const name = () => plainText(props.host.device_id ?? props.host.host_id);
  return (
    <TwoLines second={formatCountOf(props.host.hours, "hour")}>
      <Show when={props.host.identity_id} fallback={<span class="quiet">{name()}</span>}>
        {(id) => <a href={`/hosts/${id()}#completeness`}>{name()}</a>}
      </Show>
    </TwoLines>
  );
};

const headlineOf = (report: FleetCompleteness, asked: readonly HourState[]) => {
  const { settled_until: until, settles_at: next, generated_at: now, hosts, hosts_listed } = report;
  if (until === null) return settlingText(next, now);
  const settled = `Hours until ${dayHourText(until)} UTC are settled.`;
  if (asked.length === 0) return `${incompleteText(report)} ${settled}`;
  const names = asked.map((state) => `“${hourMarks[state][0]}”`).join(" or ");
  return `${hostsWith(hosts_listed, hosts, `hours in the state ${names}`)}. ${settled}`;
};

/** The two commands that check what core states of the newest hour shown, without core. */
const Verification = (props: { report: FleetCompleteness }) => {
  const hour = () => props.report.hours.at(-1)?.from.replace(".000Z", "Z");
  return (
    <section class="panel stack" aria-labelledby="verification">
      <h2 id="verification">Verify it yourself</h2>
      <p>
        Core signs a statement of each hour. The second command verifies it without core;{" "}
        <code>keys.txt</code> has core's log key, from a source that you trust.
      </p>
      <CopiedCommand
        text={`svc-admin completeness statement ${hour()} > hour.txt`}
        what="the command that writes the statement"
      />
      <CopiedCommand
        text="svc-server verify-completeness hour.txt --keys keys.txt"
        what="the command that verifies it"
      />
    </section>
  );
};
