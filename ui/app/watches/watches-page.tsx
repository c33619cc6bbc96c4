import { Show } from "solid-js";
import { type WatchState, watchStates } from "../../../proto/watch/vocabulary.ts";
import { type Watch, WatchList } from "../../../proto/watch/watch.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { createAddressPage, PageHead, Time } from "../shell/page.tsx";
import { WatchSilence, WatchStateMark } from "./watch-parts.tsx";
import { hostsPath, hostWords, stateMarks, thresholdWords } from "./watch-view.ts";
import "../design/page.css";

const pageRows = 50;

/** `/watches`: the watches, newest first, with their state. */
export const WatchesPage = () => {
  const { report, params, pathOf, list, head } = createAddressPage({
    title: "Watches",
    path: "/watches",
    source: "/api/core/collector/watches",
    schema: WatchList,
    intervalMs: 10_000,
    limit: pageRows,
  });
  const columns: readonly RecordColumn<Watch>[] = [
    {
      name: "Watch",
      cell: (watch) => (
        <>
          <a class="watch-name" href={`/watches/${watch.id}`}>
            {plainText(watch.name)}
          </a>
          <span class="second-line">{thresholdWords(watch)}</span>
        </>
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
            <a href={hostsPath(watch, report.asOf())} title={hostWords(watch)}>
              {watch.count === null ? "not counted yet" : formatCount(watch.count)}
            </a>
          }
        >
          {(fault) => plainText(fault())}
        </Show>
      ),
    },
    { name: "Last change", cell: (watch) => <Time at={watch.changed_at} asOf={report.asOf()} /> },
    { name: "Silence", cell: (watch) => <WatchSilence watch={watch} asOf={report.asOf()} /> },
    {
      name: "Messages to",
      cell: (watch) => (
        <Show when={watch.receivers.length > 0} fallback={<span class="quiet">no receiver</span>}>
          {plainText(watch.receivers.join(", "))}
          <Show when={watch.waiting_messages > 0}>
            <span class="second-line">{formatCount(watch.waiting_messages)} not delivered yet</span>
          </Show>
        </Show>
      ),
    },
  ];
  const chip = (words: string, state: WatchState | null) => ({
    words,
    path: pathOf({ state }),
    isChosen: params().get("state") === state,
  });
  return (
    <div class="page">
      <PageHead {...head()} />
      <Show when={report.answer()?.value.held_by}>
        {(outage) => <Outages outages={[outage()]} asOf={report.asOf()} />}
      </Show>
      <Chips
        label="Watches by state"
        chips={[
          chip("All", null),
          ...watchStates.map((state) => chip(stateMarks[state].words, state)),
        ]}
      />
      <RecordList
        {...list()}
        label="Watches, newest first"
        columns={columns}
        isFailed={({ state }) => state === "firing"}
        noun="watch"
        nouns="watches"
        empty={
          <section class="notice">
            <h2>No watch {params().has("state") ? "is in this state" : "yet"}</h2>
            <p>
              An administrator makes one with <strong>Watch this view</strong> on the{" "}
              <a href="/fleet">fleet</a>, or with <code>svc-admin watches create</code>.
            </p>
          </section>
        }
      />
    </div>
  );
};
