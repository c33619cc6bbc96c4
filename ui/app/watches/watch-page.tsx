import { useParams } from "@solidjs/router";
import { createMemo, createSignal, Show } from "solid-js";
import { WatchDetail } from "../../../proto/watch/watch.ts";
import { createReport } from "../api/live-report.tsx";
import { type RecordColumn, RecordTable } from "../design/records.tsx";
import { Loaded } from "../design/report-parts.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead, Time } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { WatchSilence, WatchStateMark } from "./watch-parts.tsx";
import { eventWords, factorWords, hostsPath, hostWords, thresholdWords } from "./watch-view.ts";
import "../design/page.css";

type WatchEvent = WatchDetail["history"][number];

/** `/watches/{id}`: one watch, its state, and what happened. */
export const WatchPage = () => {
  const { session } = usePageContext();
  const route = useParams<{ id: string }>();
  const [paused, setPaused] = createSignal(false);
  const report = createReport({
    schema: WatchDetail,
    path: createMemo(() => `/api/core/collector/watches/${encodeURIComponent(route.id)}`),
    intervalMs: 10_000,
    paused,
  });
  const title = () => plainText(report.answer()?.value.name ?? "Watch");
  createPageTitle(title);
  const columns: readonly RecordColumn<WatchEvent>[] = [
    { name: "When", cell: ({ at }) => <Time at={at} asOf={report.asOf()} /> },
    { name: "What", cell: ({ kind }) => eventWords[kind] },
    {
      name: "Hosts",
      isNumber: true,
      cell: ({ count }) => (count === null ? "" : formatCount(count)),
    },
    {
      name: "Detail",
      cell: ({ receiver, detail }) =>
        plainText([receiver, detail].filter((part) => part !== null).join(": ")),
    },
  ];
  return (
    <div class="page">
      <PageHead title={title()} report={report} paused={paused()} onPause={setPaused} />
      <Loaded
        report={report}
        what="watch"
        heading
        missing="No such watch"
        instead={{ href: "/watches", words: "Show all watches" }}
        value={report.answer()?.value}
      >
        {(known) => (
          <div class="shown page" data-shown={report.phase()}>
            <Show when={known().held_by}>
              {(outage) => <Outages outages={[outage()]} asOf={report.asOf()} />}
            </Show>
            <p>
              <WatchStateMark state={known().state} />{" "}
              <Show when={known().since}>
                {(since) => (
                  <>
                    since <Time at={since()} asOf={report.asOf()} />
                  </>
                )}
              </Show>
            </p>
            <ul class="watch-facts">
              <li>
                Fires at {thresholdWords(known())} that match{" "}
                <a href={hostsPath(known(), report.asOf())}>
                  <code>{hostWords(known())}</code>
                </a>
              </li>
              <li>
                {known().fault ??
                  (known().count === null
                    ? "Not counted yet"
                    : `${formatCountOf(known().count ?? 0, "host")} now`)}
              </li>
              <Show when={known().common_factor}>
                {(factor) => <li>In common: {factorWords(factor())}</li>}
              </Show>
              <Show when={known().explained_by}>
                {(id) => (
                  <li>
                    Reported by <a href={`/watches/${id()}`}>another watch</a>, so that no message
                    of this one is sent
                  </li>
                )}
              </Show>
              <li>
                Messages to:{" "}
                {known().receivers.length === 0
                  ? "no receiver"
                  : plainText(known().receivers.join(", "))}
              </li>
              <li>
                Silence: <WatchSilence watch={known()} asOf={report.asOf()} />
              </li>
            </ul>
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
      </Loaded>
    </div>
  );
};
