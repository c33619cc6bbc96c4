import { Show } from "solid-js";
import { WatchDetail } from "../../../proto/watch/watch.ts";
import { type RecordColumn, RecordTable } from "../design/records.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { formatCountOf, formatKnown, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { RecordPage, Time } from "../shell/page.tsx";
import { HostsOfWatch, WatchSilence, WatchStateMark } from "./watch-parts.tsx";
import { eventWords, factorWords, hostWords, thresholdWords } from "./watch-view.ts";

const columns: readonly RecordColumn<WatchDetail["history"][number]>[] = [
  { name: "When", cell: ({ at }) => <Time at={at} /> },
  { name: "What", cell: ({ kind }) => eventWords[kind] },
  { name: "Hosts", isNumber: true, cell: ({ count }) => formatKnown(count ?? undefined) },
  {
    name: "Detail",
    cell: ({ receiver, detail }) =>
      plainText([receiver, detail].filter((part) => part !== null).join(": ")),
  },
];

/** `/watches/{id}`: one watch, its state, and what happened. */
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
        <div class="shown page" data-shown={report.phase()}>
          <Show when={known().held_by}>{(outage) => <Outages outages={[outage()]} />}</Show>
          <p>
            <WatchStateMark state={known().state} />{" "}
            <Show when={known().since}>
              {(since) => (
                <>
                  since <Time at={since()} />
                </>
              )}
            </Show>
          </p>
          <WatchFacts watch={known()} />
          <Show when={session()?.scopes.includes("admin")}>
            <p>
              <a class="button" href={`/watches/change?id=${known().id}`} rel="external">
                Change, silence or test
              </a>
            </p>
          </Show>
          <h2>History</h2>
          <Show
            when={known().history.length > 0}
            fallback={<p class="quiet">Nothing has happened yet.</p>}
          >
            <RecordTable label="History, newest first" columns={columns} rows={known().history} />
          </Show>
        </div>
      )}
    </RecordPage>
  );
};

/** What a watch counts, what its hosts have in common, and who receives its messages. */
const WatchFacts = (props: { watch: WatchDetail }) => (
  <ul class="fact-lines">
    <li>
      Fires at {thresholdWords(props.watch)} that match{" "}
      <HostsOfWatch watch={props.watch}>
        <code>{hostWords(props.watch)}</code>
      </HostsOfWatch>
    </li>
    <li>
      {props.watch.fault ??
        (props.watch.count === null
          ? "Not counted yet"
          : `${formatCountOf(props.watch.count, "host")} now`)}
    </li>
    <Show when={props.watch.common_factor}>
      {(factor) => <li>In common: {factorWords(factor())}</li>}
    </Show>
    <Show when={props.watch.explained_by}>
      {(id) => (
        <li>
          Reported by <a href={`/watches/${id()}`}>another watch</a>, so that no message of this one
          is sent
        </li>
      )}
    </Show>
    <li>Messages to: {plainText(props.watch.receivers.join(", ")) || "no receiver"}</li>
    <li>
      Silence: <WatchSilence watch={props.watch} />
    </li>
  </ul>
);
