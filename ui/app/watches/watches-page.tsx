import { Show } from "solid-js";
import { watchStates } from "../../../proto/watch/vocabulary.ts";
import { type Watch, WatchList } from "../../../proto/watch/watch.ts";
import { Chips, type RecordColumn, RecordLink, RecordList, TwoLines } from "../design/records.tsx";
import { Notice } from "../design/report-parts.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { createListPage, PageFrame, Time } from "../shell/page.tsx";
import { HostsOfWatch, WatchSilence, WatchStateMark } from "./watch-parts.tsx";
import { hostWords, stateMarks, thresholdWords } from "./watch-view.ts";

const columns: readonly RecordColumn<Watch>[] = [
  {
    name: "Watch",
    cell: (watch) => (
      <TwoLines second={thresholdWords(watch)}>
        <RecordLink href={`/watches/${watch.id}`}>{plainText(watch.name)}</RecordLink>
      </TwoLines>
    ),
  },
  {
    name: "State",
    cell: (watch) => (
      <>
        <WatchStateMark state={watch.state} />
        <Show when={watch.explained_by}>
          {(id) => (
            <a class="second-line" href={`/watches/${id()}`}>
              reported by another watch
            </a>
          )}
        </Show>
      </>
    ),
  },
  {
    name: "Hosts",
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
  { name: "Last change", cell: (watch) => <Time at={watch.changed_at} /> },
  { name: "Silence", cell: (watch) => <WatchSilence watch={watch} /> },
  {
    name: "Messages to",
    cell: ({ receivers, waiting_messages: waiting }) => (
      <Show when={receivers.length > 0} fallback={<span class="quiet">no receiver</span>}>
        <TwoLines second={waiting > 0 && `${formatCount(waiting)} not delivered yet`}>
          {plainText(receivers.join(", "))}
        </TwoLines>
      </Show>
    ),
  },
];

/** `/watches`: the watches, newest first, with their state. */
export const WatchesPage = () => {
  const { page, report, params, chip, list } = createListPage({
    title: "Watches",
    path: "/watches",
    source: "/api/core/collector/watches",
    schema: WatchList,
    intervalMs: 10_000,
    limit: 50,
  });
  return (
    <PageFrame of={page}>
      <Show when={report.answer()?.value.held_by}>
        {(outage) => <Outages outages={[outage()]} />}
      </Show>
      <Chips
        label="Watches by state"
        chips={[
          chip("All", { state: null }),
          ...watchStates.map((state) => chip(stateMarks[state].words, { state })),
        ]}
      />
      <RecordList
        {...list()}
        report={report}
        label="Watches, newest first"
        columns={columns}
        isFailed={({ state }) => state === "firing"}
        noun="watch"
        nouns="watches"
        empty={
          <Notice title={`No watch ${params().has("state") ? "is in this state" : "yet"}`}>
            <p>
              An administrator makes one with <strong>Watch this view</strong> on the{" "}
              <a href="/fleet">fleet</a>, or with <code>svc-admin watches create</code>.
            </p>
          </Notice>
        }
      />
    </PageFrame>
  );
};
