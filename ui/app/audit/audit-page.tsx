import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, createSignal, Match, Show, Switch } from "solid-js";
import { AuditChainView, AuditEventPage, type AuditEventView } from "../../../proto/audit-event.ts";
import { createReport } from "../api/live-report.tsx";
import { Icon } from "../design/parts.tsx";
import { type RecordColumn, RecordList } from "../design/records.tsx";
import { formatCount, formatCountOf, formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead, Time } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { AuditFilters } from "./audit-filters.tsx";
import {
  type AuditView,
  auditExportPath,
  auditPath,
  changeView,
  eventsPath,
  parseAuditView,
} from "./audit-view.ts";
import { EventActor, EventWhat } from "./event-timeline.tsx";
import "../design/page.css";
import "./audit.css";

type Fault = NonNullable<AuditChainView["fault"]>;

const faultTexts: Readonly<Record<Fault["kind"], string>> = {
  gap: "is missing from the chain",
  chain_broken: "does not follow the one before it",
  event_missing: "was deleted",
  event_edited: "was edited",
};

/** How much of the hash chain core has verified, and since when: never more than it checked. */
const ChainStatus = () => {
  const { times } = usePageContext();
  const report = createReport({
    schema: AuditChainView,
    path: () => "/api/core/audit-events/chain",
    intervalMs: 15_000,
  });
  const chain = () => report.current();
  const checkedText = (verified: AuditChainView["verified"]): string => {
    const since = formatTimestamp(verified?.checked_since ?? "", times.zone());
    const until = formatTimestamp(verified?.checked_at ?? "", times.zone());
    return since === until ? `at ${until}` : `between ${since} and ${until}`;
  };
  return (
    <Switch fallback={<p class="chain-status">Hash chain: loading</p>}>
      <Match when={report.phase() === "failed"}>
        <p class="chain-status">
          <Icon name="warning" /> The state of the hash chain could not be loaded.
        </p>
      </Match>
      <Match when={chain()?.fault}>
        {(fault) => (
          <p class="banner chain-fault" role="alert">
            <Icon name="warning" />
            <span>
              The hash chain has a fault: event {formatCount(fault().seq)}{" "}
              {faultTexts[fault().kind]}. Events from there on are not verified. Run{" "}
              <code>svc-server verify-audit</code> and compare with the heads in core's log.
            </span>
          </p>
        )}
      </Match>
      <Match when={chain()?.verified ? chain() : undefined}>
        {(known) => (
          <p class="chain-status">
            <Icon name="check" />
            <span>
              Hash chain verified up to event {formatCount(known().verified?.seq ?? 0)} of{" "}
              {formatCount(known().head?.seq ?? 0)}, each checked {checkedText(known().verified)}
              <Show when={known().pending > 0}>
                ; {formatCountOf(known().pending, "event")} not linked yet
              </Show>
              <Show when={report.phase() === "stale"}> (old)</Show>.
            </span>
          </p>
        )}
      </Match>
      <Match when={chain()}>
        <p class="chain-status">
          <Icon name="info" /> The hash chain has not been verified yet.
        </p>
      </Match>
    </Switch>
  );
};

/** `/audit`: who did what, when and why, under the filters of the address, and how far the hash chain is verified. */
export const AuditPage = () => {
  const location = useLocation();
  const navigate = useNavigate();
  createPageTitle(() => "Audit");
  const parsed = createMemo(() => parseAuditView(location.search));
  const view = () => {
    const known = parsed();
    return "parameter" in known ? undefined : known;
  };
  const fault = () => {
    const known = parsed();
    return "parameter" in known ? known.parameter : undefined;
  };
  return (
    <div class="page audit">
      <Show
        when={view()}
        fallback={
          <section class="notice" role="alert">
            <h1>Audit</h1>
            <p>
              This link has a filter that the page does not understand: <code>{fault()}</code>. No
              events are shown, because others than those it meant could appear.
            </p>
            <a class="button" href="/audit">
              Show all events
            </a>
          </section>
        }
      >
        {(known) => (
          <AuditEvents
            view={known()}
            onChange={(next) => navigate(auditPath(next), { scroll: false })}
          />
        )}
      </Show>
    </div>
  );
};

const AuditEvents = (props: { view: AuditView; onChange: (view: AuditView) => void }) => {
  const [paused, setPaused] = createSignal(false);
  const report = createReport({
    schema: AuditEventPage,
    path: createMemo(() => eventsPath(props.view)),
    intervalMs: 15_000,
    paused,
  });
  const page = () => report.answer()?.value;
  const columns: readonly RecordColumn<AuditEventView>[] = [
    { name: "Time", cell: (event) => <Time at={event.occurred_at} asOf={report.asOf()} /> },
    { name: "Who", cell: (event) => <EventActor event={event} names={page()?.names ?? {}} /> },
    { name: "Did what", cell: (event) => <EventWhat event={event} names={page()?.names ?? {}} /> },
    {
      name: "Chain",
      cell: (event) => <Place event={event} asOf={report.asOf()} />,
      isNumber: true,
    },
  ];
  const pathOf = (cursor?: string) =>
    auditPath(changeView(props.view, cursor === undefined ? {} : { cursor }));
  return (
    <>
      <PageHead title="Audit" report={report} paused={paused()} onPause={setPaused}>
        <ChainStatus />
      </PageHead>
      <AuditFilters view={props.view} onChange={props.onChange} />
      <RecordList
        report={report}
        label="Audit events, newest first"
        columns={columns}
        isFailed={(event) => event.outcome === "failure"}
        noun="event"
        isContinued={props.view.cursor !== undefined}
        pathOf={pathOf}
        allPath="/audit"
        downloads={[
          { path: auditExportPath("csv", props.view), words: "CSV" },
          { path: auditExportPath("jsonl", props.view), words: "JSON lines" },
        ]}
        empty={
          <section class="notice">
            <h2>No event matches</h2>
            <Show when={page()?.next_cursor} fallback={<p>Change or clear the filters above.</p>}>
              {(cursor) => (
                <>
                  <p>
                    The newest 5,000 events under the other filters do not hold this text. Older
                    ones may.
                  </p>
                  <a class="button" href={pathOf(cursor())}>
                    Search older events
                  </a>
                </>
              )}
            </Show>
          </section>
        }
      />
    </>
  );
};

/** How long an event may wait for its place in the chain: the job that links events runs every second. */
const linkMsMax = 60_000;

/** The number of an event in the hash chain. An event that is not linked after a minute is not a normal one. */
const Place = (props: { event: AuditEventView; asOf: number }) => (
  <Show
    when={props.event.seq}
    fallback={
      <span class="event-quiet state-mark">
        <Show
          when={props.asOf - Date.parse(props.event.occurred_at) > linkMsMax}
          fallback="not linked yet"
        >
          <Icon name="warning" /> not linked
        </Show>
      </span>
    }
  >
    {(seq) => <span title={props.event.hash ?? undefined}>{seq()}</span>}
  </Show>
);
