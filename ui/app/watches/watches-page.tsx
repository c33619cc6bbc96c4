import { type JSX, Show } from "solid-js";
import { type WatchState, watchStates } from "#proto/watch/vocabulary.ts";
import {
  type CommonFactor,
  type Watch,
  WatchDetail,
  type WatchEventKind,
  WatchList,
} from "#proto/watch/watch.ts";
import { useUpdates } from "../api/live-report.tsx";
import { RecordState, type StateWords } from "../design/icon.tsx";
import { RecordList } from "../design/record-list.tsx";
import { type RecordColumns, RecordLink, RecordTable, TwoLines } from "../design/record-table.tsx";
import { Shown } from "../design/report-parts.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import {
  formatCount,
  formatCountOf,
  formatDuration,
  formatKnown,
  inWords,
  plainText,
} from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createListPage, PageFrame, RecordPage, Time } from "../shell/page.tsx";
import "./watches.css";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { defaultView, viewPath, withFilter } from "../fleet/view/view-state.ts";

/** Each state as the pages show it. */
const stateWords: Readonly<Record<WatchState, StateWords>> = {
  inactive: ["Inactive", "check", "muted"],
  pending: ["Pending", "info", "warn"],
  firing: ["Firing", "warning", "crit"],
};

/** The kinds of events in words. */
const eventWords: Readonly<Record<WatchEventKind, string>> = {
  firing: "Began to fire",
  resolved: "Ended",
  silenced: "Silenced",
  unsilenced: "Silence ended",
  delivered: "Message delivered",
  dropped: "Message given up",
};

/** Returns what a watch allows: `more than 5 hosts for 10 min`. */
const thresholdWords = ({
  more_than: hosts,
  for_seconds: seconds,
}: Pick<Watch, "more_than" | "for_seconds">) =>
  `${hosts === 0 ? "any host" : `more than ${formatCountOf(hosts, "host")}`}${seconds === 0 ? "" : ` for ${formatDuration(seconds)}`}`;

/** Returns the filter of a watch in words. */
const hostWords = ({ filter }: Pick<Watch, "filter">) =>
  filter.trim() === "" ? "every host" : plainText(filter);

/** Returns the address of the hosts that a watch counts, as they are now. */
const hostsPath = ({ filter: query }: Pick<Watch, "filter">, now: number) => {
  const { filter }: { filter: FleetFilter } = parseQuery(query, new Date(now));
  return viewPath(withFilter(defaultView, filter));
};

/** Returns what the hosts have in common: `17 of them have label region:fra1, and 3 other hosts`. */
const factorWords = ({ kind, value, selected, others }: CommonFactor) =>
  `${formatCount(selected)} of them have ${inWords(kind)} ${plainText(value)}, and ${others === 0 ? "no other host" : formatCountOf(others, "other host")}`;

/** A link to the hosts that a watch counts, as they are now. */
const HostsOfWatch = (props: { watch: Watch; title?: string; children: JSX.Element }) => {
  const { asOf } = useUpdates();
  return (
    <a href={hostsPath(props.watch, asOf())} title={props.title}>
      {props.children}
    </a>
  );
};

/** Until when a watch is silenced, and by whom. */
const WatchSilence = (props: { watch: Watch }) => (
  <Show when={props.watch.silence} fallback={<span class="quiet">none</span>}>
    {(silence) => (
      <TwoLines
        second={`by ${[silence().by, silence().reason]
          .filter((text) => text !== null)
          .map(plainText)
          .join(": ")}`}
      >
        until <Time at={silence().until} />
      </TwoLines>
    )}
  </Show>
);

const columns: RecordColumns<Watch> = {
  Watch: (watch) => (
    <TwoLines second={thresholdWords(watch)}>
      <RecordLink href={`/watches/${watch.id}`}>{plainText(watch.name)}</RecordLink>
    </TwoLines>
  ),
  State: (watch) => (
    <>
      <TwoLines
        second={
          watch.since && (
            <>
              since <Time at={watch.since} />
            </>
          )
        }
      >
        <RecordState of={stateWords[watch.state]} />
      </TwoLines>
      <Show when={watch.explained_by}>
        {(id) => (
          <a class="second-line" href={`/watches/${id()}`}>
            reported by another watch
          </a>
        )}
      </Show>
    </>
  ),
  Hosts: {
    isNumber: true,
    cell: (watch) => (
      <Show
        when={watch.fault}
        fallback={
          <HostsOfWatch watch={watch} title={hostWords(watch)}>
            {watch.count === null ? "not counted yet" : formatCount(watch.count)}
          </HostsOfWatch>
        }
      >
        {(fault) => plainText(fault())}
      </Show>
    ),
  },
  "Last change": (watch) => <Time at={watch.changed_at} />,
  Silence: (watch) => <WatchSilence watch={watch} />,
  "Messages to": ({ receivers, waiting_messages: waiting }) => (
    <Show when={receivers.length > 0} fallback={<span class="quiet">no receiver</span>}>
      <TwoLines second={waiting > 0 && `${formatCount(waiting)} not delivered yet`}>
        {plainText(receivers.join(", "))}
      </TwoLines>
    </Show>
  ),
};

const stateChoices = {
  All: null,
  ...Object.fromEntries(watchStates.toReversed().map((state) => [stateWords[state][0], state])),
};

/** `/watches`: the watches, those that fire first, with their state. */
export const WatchesPage = () => {
  const { session } = usePageContext();
  const mayWrite = () => session()?.scopes.includes("admin");
  const { page, report, chips, list } = createListPage({
    path: "/watches",
    schema: WatchList,
    intervalMs: 10_000,
    limit: 50,
    sort: "severity",
  });
  return (
    <PageFrame
      of={page}
      head={
        <Show when={mayWrite() && (report.value()?.items.length ?? 0) > 0}>
          <a class="button" href="/watches/new">
            Create a watch
          </a>
        </Show>
      }
    >
      <Show when={report.value()?.held_by}>{(outage) => <Outages outages={[outage()]} />}</Show>
      <RecordList
        {...list()}
        filters={{ "Watches by state": chips("state", stateChoices) }}
        label="Watches, worst first"
        columns={columns}
        isFailed={({ state }) => state === "firing"}
        noun="watch"
        nouns="watches"
        order="first to last"
        first={{
          title: "No watch yet",
          says: "A watch counts the hosts of a filter, and sends a message when more match than you allow. It shows here whether it fires, and since when.",
          ...(mayWrite()
            ? { href: "/watches/new", link: "Create a watch" }
            : {
                command:
                  'svc-admin watches create "stale hosts" state:stale --more-than 5 --for 10m',
              }),
        }}
      />
    </PageFrame>
  );
};

const eventColumns: RecordColumns<WatchDetail["history"][number]> = {
  When: ({ at }) => <Time at={at} />,
  What: ({ kind }) => eventWords[kind],
  Hosts: { isNumber: true, cell: ({ count }) => formatKnown(count ?? undefined) },
  Detail: ({ receiver, detail }) =>
    plainText([receiver, detail].filter((part) => part !== null).join(": ")),
};

/** `/watches/{id}`: one watch as its list shows it, what its hosts have in common, and what happened. */
export const WatchPage = () => {
  const { session } = usePageContext();
  return (
    <RecordPage
      noun="watch"
      allPath="/watches"
      schema={WatchDetail}
      intervalMs={10_000}
      titleOf={({ name }) => plainText(name)}
    >
      {(known, report) => (
        <Shown by={report} class="page">
          <Show when={known().held_by}>{(outage) => <Outages outages={[outage()]} />}</Show>
          <RecordTable
            label="The watch"
            columns={columns}
            rows={[known()]}
            isFailed={({ state }) => state === "firing"}
          />
          <p>
            Counts{" "}
            <HostsOfWatch watch={known()}>
              <code>{hostWords(known())}</code>
            </HostsOfWatch>
            .
            <Show when={known().common_factor}>
              {(factor) => <> In common: {factorWords(factor())}.</>}
            </Show>
          </p>
          <Show when={session()?.scopes.includes("admin")}>
            <p>
              <a class="button" href={`/watches/${known().id}/change`}>
                Change, silence or test
              </a>
            </p>
          </Show>
          <h2>History</h2>
          <Show
            when={known().history.length > 0}
            fallback={<p class="quiet">Nothing has happened yet.</p>}
          >
            <RecordTable
              label="History, newest first"
              columns={eventColumns}
              rows={known().history}
            />
          </Show>
        </Shown>
      )}
    </RecordPage>
  );
};
