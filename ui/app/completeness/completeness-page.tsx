import { Show } from "solid-js";
import { FleetCompleteness, type HostStrip } from "#proto/completeness/report.ts";
import { Chips, type RecordColumns, RecordList } from "../design/records.tsx";
import { List, Loaded, Notice } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { type AddressList, createListPage, PageFrame } from "../shell/page.tsx";
import { countsText, FleetPicture, HoursStrip } from "./fleet-picture.tsx";
import { HourMark } from "./hour-mark.tsx";
import { dayHourText, hourMarks, shortageText, shownStates } from "./hour-view.ts";
import { incompleteText } from "./incomplete-text.ts";
import "./completeness.css";

const ranges = { "24 hours": "24h", "7 days": null, "30 days": "30d" };

/** Returns the address of the hosts of a span. */
type HrefOf = (from: string, to: string) => string;

/** `/data/completeness`: how many hosts had which state in each hour, and the hosts with the most incomplete hours first. */
export const CompletenessPage = () => {
  const { page, report, list, ...address } = createListPage({
    path: "/data/completeness",
    schema: FleetCompleteness,
    limit: 50,
  });
  const state = () => address.params().get("state");
  return (
    <PageFrame of={page} class="completeness">
      <Loaded
        report={report}
        what="hours"
        heading
        instead={{ href: "/data/completeness", words: "Show the last 7 days" }}
      >
        {(known) => (
          <div class="shown page" data-shown={report.phase()}>
            <p class="headline">{headlineOf(known(), state())}</p>
            <TimeChips report={known()} list={address} />
            <Show
              when={known().hours.length > 0}
              fallback={
                <Notice title="No hour is settled yet">
                  <p>Core settles each hour 15 minutes after its end.</p>
                </Notice>
              }
            >
              <Hours report={known()} list={address} />
            </Show>
          </div>
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
      <Show when={report.phase() !== "failed" && report.value()?.hours.length}>
        <RecordList
          {...list()}
          label="Hosts, those with the most such hours first"
          columns={columnsOf(() => report.value())}
          isFailed={({ worst }) => worst?.state === "short"}
          noun="host"
          exports={{ csv: "CSV" }}
          empty={
            <Notice
              title={
                state() === null ? "No host has an incomplete hour" : "No host has such an hour"
              }
            >
              <p>No host has an hour in this state in the time that you chose.</p>
            </Notice>
          }
        />
      </Show>
    </PageFrame>
  );
};

interface ReportProps {
  report: FleetCompleteness;
  list: AddressList;
}

/** The spans of time to choose from, and the hour that is chosen. */
const TimeChips = (props: ReportProps) => (
  <Chips label="Time" chips={props.list.chips("from", ranges, { to: null })}>
    <Show when={props.list.params().has("to")}>
      <span class="button" aria-current="true">
        {dayHourText(props.report.from)} to {dayHourText(props.report.to)} UTC
      </span>
    </Show>
  </Chips>
);

/** The hosts by state in each hour, as a picture and as figures, and the states to choose from. */
const Hours = (props: ReportProps) => {
  const hrefOf: HrefOf = (from, to) => props.list.pathOf({ from, to });
  const present = () =>
    shownStates.filter((one) =>
      props.report.hours.some(({ hosts }) => one !== "undecided" && (hosts[one] ?? 0) > 0),
    );
  return (
    <>
      <FleetPicture report={props.report} hrefOf={hrefOf} />
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
      <HourTable report={props.report} hrefOf={hrefOf} />
    </>
  );
};

const columnsOf = (rangeOf: () => FleetCompleteness | undefined): RecordColumns<HostStrip> => ({
  Host: (host) => (
    <Show when={host.identity_id} fallback={<span class="quiet">{plainText(host.host_id)}</span>}>
      {(id) => (
        <a href={`/hosts/${id()}#completeness`}>{plainText(host.device_id ?? host.host_id)}</a>
      )}
    </Show>
  ),
  Hours: { isNumber: true, cell: ({ hours }) => formatCount(hours) },
  "Worst hour": (host) => (
    <Show when={host.worst} fallback={<span class="quiet">none</span>}>
      {(hour) => <WorstHour hostId={host.identity_id} hour={hour()} />}
    </Show>
  ),
  "Hours of the range, oldest first": (host) => (
    <HoursStrip host={host} range={rangeOf()} label={runsText(host)} />
  ),
});

/** The worst hour of a host, as a link to its account. */
const WorstHour = (props: { hostId: string | null; hour: NonNullable<HostStrip["worst"]> }) => (
  <div class="worst-hour row">
    <HourMark state={props.hour.state} />
    <Show when={props.hostId} fallback={<span>{dayHourText(props.hour.from)}</span>}>
      {(id) => (
        <a href={`/hosts/${id()}?hour=${props.hour.from}#completeness`}>
          {dayHourText(props.hour.from)}
        </a>
      )}
    </Show>
    <Show when={props.hour.shortages.length > 0}>
      <span class="hour-shortages">{props.hour.shortages.map(shortageText).join(", ")}</span>
    </Show>
  </div>
);

const headlineOf = (report: FleetCompleteness, state: string | null) => {
  if (report.settled_until === null) return "No hour of this time is settled.";
  const hosts = formatCountOf(report.hosts, "host");
  const until = `settled until ${dayHourText(report.settled_until)} UTC`;
  const name = state === null ? undefined : shownStates.find((one) => one === state);
  if (name !== undefined)
    return `${hosts}: ${formatCount(report.hosts_listed)} with an hour in the state “${hourMarks[name][0]}”, ${until}.`;
  return `${incompleteText(report)}, ${until}.`;
};

const runsText = ({ runs }: HostStrip) =>
  runs
    .map(({ state, hours }) => {
      const [name] = hourMarks[state ?? "undecided"];
      return `${formatCountOf(hours, "hour")} ${name.toLowerCase()}`;
    })
    .join(", ");

/** The figures of the picture; each hour links to its hosts. */
const HourTable = (props: { report: FleetCompleteness; hrefOf: HrefOf }) => (
  <details>
    <summary>Figures of each hour</summary>
    <List class="hours-list stack gap-1" of={props.report.hours.toReversed()}>
      {(hour) => (
        <>
          <a
            href={props.hrefOf(
              hour.from,
              new Date(Date.parse(hour.from) + 3_600_000).toISOString(),
            )}
          >
            {dayHourText(hour.from)} UTC
          </a>
          : {countsText(hour)}
        </>
      )}
    </List>
  </details>
);
