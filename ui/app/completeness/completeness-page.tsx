import { For, Show } from "solid-js";
import { FleetCompleteness, type HostStrip } from "../../../proto/completeness/report.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { Loaded } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { createAddressPage, PageHead } from "../shell/page.tsx";
import { countsText, FleetPicture, HoursStrip } from "./fleet-picture.tsx";
import { HourMark } from "./hour-mark.tsx";
import { dayHourText, hourStateWords, shortageText, shownStates } from "./hour-view.ts";
import { incompleteText } from "./incomplete-text.ts";
import "../design/page.css";
import "./completeness.css";

const pageRows = 50;
const path = "/completeness";

const ranges = [
  { words: "24 hours", from: "24h" },
  { words: "7 days", from: null },
  { words: "30 days", from: "30d" },
] as const;

/** `/completeness`: how many hosts had which state in each hour, and the hosts with the most incomplete hours first. */
export const CompletenessPage = () => {
  const { report, params, pathOf, csvPath, list, head } = createAddressPage({
    title: "Completeness",
    path: "/completeness",
    source: "/api/core/collector/completeness",
    schema: FleetCompleteness,
    intervalMs: 60_000,
    limit: pageRows,
  });
  const state = () => params().get("state");
  const isOneHour = () => params().has("to");
  const columns: readonly RecordColumn<HostStrip>[] = [
    {
      name: "Host",
      cell: (host) => (
        <Show
          when={host.identity_id}
          fallback={<span class="quiet">{plainText(host.host_id)}</span>}
        >
          {(id) => (
            <a href={`/hosts/${id()}#completeness`}>{plainText(host.device_id ?? host.host_id)}</a>
          )}
        </Show>
      ),
    },
    { name: "Hours", isNumber: true, cell: ({ hours }) => formatCount(hours) },
    {
      name: "Worst hour",
      cell: (host) => (
        <Show when={host.worst} fallback={<span class="quiet">none</span>}>
          {(hour) => (
            <div class="worst-hour">
              <HourMark state={hour().state} />
              <Show when={host.identity_id} fallback={<span>{dayHourText(hour().from)}</span>}>
                {(id) => (
                  <a href={`/hosts/${id()}?hour=${hour().from}#completeness`}>
                    {dayHourText(hour().from)}
                  </a>
                )}
              </Show>
              <Show when={hour().shortages.length > 0}>
                <span class="hour-shortages">{hour().shortages.map(shortageText).join(", ")}</span>
              </Show>
            </div>
          )}
        </Show>
      ),
    },
    {
      name: "Hours of the range, oldest first",
      cell: (host) => (
        <HoursStrip host={host} range={report.answer()?.value} label={runsText(host)} />
      ),
    },
  ];
  return (
    <div class="page completeness">
      <PageHead {...head()} />
      <Loaded
        report={report}
        what="hours"
        heading
        value={report.answer()?.value}
        instead={{ href: path, words: "Show the last 7 days" }}
      >
        {(known) => (
          <div class="shown page" data-shown={report.phase()}>
            <p class="completeness-headline">{headlineOf(known(), state())}</p>
            <Chips
              label="Time"
              chips={ranges.map(({ words, from }) => ({
                words,
                path: pathOf({ from, to: null }),
                isChosen: !isOneHour() && params().get("from") === from,
              }))}
            >
              <Show when={isOneHour()}>
                <span class="button" aria-current="true">
                  {dayHourText(known().from)} to {dayHourText(known().to)} UTC
                </span>
              </Show>
            </Chips>
            <Show
              when={known().hours.length > 0}
              fallback={
                <section class="notice">
                  <h2>No hour is settled yet</h2>
                  <p>Core settles each hour 15 minutes after its end.</p>
                </section>
              }
            >
              <FleetPicture report={known()} hrefOf={(from, to) => pathOf({ from, to })} />
              <Chips
                label="Hosts with hours in a state"
                chips={[
                  {
                    words: "Incomplete",
                    path: pathOf({ state: null }),
                    isChosen: state() === null,
                  },
                  ...shownStates
                    .filter((one) =>
                      known().hours.some(
                        ({ hosts }) => one !== "undecided" && (hosts[one] ?? 0) > 0,
                      ),
                    )
                    .map((one) => ({
                      words: <HourMark state={one} />,
                      path: pathOf({ state: one }),
                      isChosen: state() === one,
                      title: hourStateWords[one][1],
                    })),
                ]}
              />
              <HourTable report={known()} hrefOf={(from, to) => pathOf({ from, to })} />
            </Show>
          </div>
        )}
      </Loaded>
      <Show when={params().get("host")}>
        {(host) => (
          <p>
            Hours of <code>{plainText(host())}</code>.{" "}
            <a href={pathOf({ host: null })}>Show all hosts</a>
          </p>
        )}
      </Show>
      <Show when={report.phase() !== "failed" && report.answer()?.value.hours.length}>
        <RecordList
          {...list()}
          label="Hosts, those with the most such hours first"
          columns={columns}
          isFailed={({ worst }) => worst?.state === "short"}
          noun="host"
          downloads={[{ path: csvPath(), words: "CSV" }]}
          empty={
            <section class="notice">
              <h2>
                {state() === null ? "No host has an incomplete hour" : "No host has such an hour"}
              </h2>
              <p>No host has an hour in this state in the time that you chose.</p>
            </section>
          }
        />
      </Show>
    </div>
  );
};

const headlineOf = (report: FleetCompleteness, state: string | null): string => {
  if (report.settled_until === null) return "No hour of this time is settled.";
  const hosts = formatCountOf(report.hosts, "host");
  const until = `settled until ${dayHourText(report.settled_until)} UTC`;
  const name = state === null ? undefined : shownStates.find((one) => one === state);
  if (name !== undefined)
    return `${hosts}: ${formatCount(report.hosts_listed)} with an hour in the state “${hourStateWords[name][0]}”, ${until}.`;
  return `${incompleteText(report)}, ${until}.`;
};

const runsText = ({ runs }: HostStrip): string =>
  `${runs.map(({ state, hours }) => `${formatCountOf(hours, "hour")} ${hourStateWords[state ?? "undecided"][0].toLowerCase()}`).join(", ")}`;

/** The figures of the picture; each hour links to its hosts. */
const HourTable = (props: {
  report: FleetCompleteness;
  hrefOf: (from: string, to: string) => string;
}) => (
  <details>
    <summary>Figures of each hour</summary>
    <ul class="hours-list">
      <For each={props.report.hours.toReversed()}>
        {(hour) => (
          <li>
            <a
              href={props.hrefOf(
                hour.from,
                new Date(Date.parse(hour.from) + 3_600_000).toISOString(),
              )}
            >
              {dayHourText(hour.from)} UTC
            </a>
            : {countsText(hour)}
          </li>
        )}
      </For>
    </ul>
  </details>
);
