import { type JSX, Show } from "solid-js";
import { AuditChainView, AuditEventPage, type RecordNames } from "#proto/audit-event.ts";
import { createReport } from "../api/live-report.tsx";
import { Icon } from "../design/icon.tsx";
import { RecordList } from "../design/record-list.tsx";
import { type RecordColumns, TwoLines } from "../design/record-table.tsx";
import { Banner, Notice } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, type TimeZone } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createListPage, PageFrame } from "../shell/page.tsx";
import { AuditFields, auditChoices, peoplesChanges } from "./audit-filters.tsx";
import { auditPageRows, eventsSource } from "./audit-view.ts";
import { type Burst, beginOf, burstsOf, dayOf } from "./bursts.ts";
import { EventActor, EventDescription, EventTimeline } from "./event-timeline.tsx";
import "../design/page.css";

/** `/changes/audit`: who did what, when and why, under the filters of the address, and how far the hash chain is verified. */
export const AuditPage = () => {
  const { times } = usePageContext();
  const { page, report, list, ...address } = createListPage({
    path: "/changes/audit",
    source: eventsSource,
    schema: AuditEventPage,
    intervalMs: 15_000,
    limit: auditPageRows,
    foreign: ["all"],
    initial: peoplesChanges,
  });
  const known = () => report.value();
  const isStuck = () =>
    known()?.items.some(
      ({ seq, occurred_at: at }) => seq === null && report.asOf() - Date.parse(at) > linkMsMax,
    ) === true;
  const columns = columnsOf(() => known()?.names ?? {});
  return (
    <PageFrame of={page} class="audit" head={<ChainStatus isStuck={isStuck()} />}>
      <RecordList
        {...list()}
        filters={auditChoices(address)}
        fields={<AuditFields list={address} />}
        label="Audit events, newest first"
        columns={columns}
        rowsOf={(events) => burstsOf(events, times.zone())}
        headingOf={({ newest }) => dayText(newest.occurred_at, report.asOf(), times.zone())}
        isFailed={({ newest }) => newest.outcome === "failure"}
        noun="event"
        exports={{ csv: "CSV", jsonl: "JSON lines" }}
        empty={
          <Show
            when={known()?.next_cursor}
            fallback={
              <Notice
                title="No event matches"
                href="/changes/audit?all=true"
                link="Show everything"
              >
                <p>Choose a longer time, or clear the filters above.</p>
              </Notice>
            }
          >
            {(cursor) => (
              <Notice
                title="No event matches"
                href={address.pathOf({ cursor: cursor() })}
                link="Search older events"
              >
                <p>
                  Not found in the newest 5,000 events under the other filters. Older ones may have
                  it.
                </p>
              </Notice>
            )}
          </Show>
        }
      />
    </PageFrame>
  );
};

/** Returns the heading of a day: `Today, 2026-11-20`. */
const dayText = (at: string, now: number, zone: TimeZone) => {
  const day = dayOf(at, zone);
  const weekday = new Date(day).toLocaleDateString("en", { weekday: "long", timeZone: "UTC" });
  return `${day === dayOf(now, zone) ? "Today" : weekday}, ${day}`;
};

const columnsOf = (names: () => RecordNames): RecordColumns<Burst> => ({
  Time: (burst) => (
    <TwoLines
      second={
        beginOf(burst) && (
          <>
            since <TimeOfDay at={beginOf(burst) ?? ""} />
          </>
        )
      }
    >
      <TimeOfDay at={burst.newest.occurred_at} />
    </TwoLines>
  ),
  Who: ({ newest, others }) => {
    const actors = new Set([newest, ...others].map(({ actor }) => actor.id)).size;
    return (
      <TwoLines second={actors > 1 && `and ${formatCountOf(actors - 1, "other host")}`}>
        <EventActor event={newest} names={names()} />
      </TwoLines>
    );
  },
  "Did what": ({ newest, others }) => (
    <div class="event-what">
      <EventDescription event={newest} names={names()} />
      <Show when={others.length > 0}>
        <details>
          <summary>{`and ${formatCount(others.length)} more of the same`}</summary>
          <EventTimeline entries={others.map((event) => ({ event }))} names={names()} />
        </details>
      </Show>
    </div>
  ),
});

/** The time of day of an event, below the heading of its day. */
const TimeOfDay = (props: { at: string }) => {
  const { times } = usePageContext();
  const text = () => times.text(props.at);
  return (
    <time datetime={props.at} title={text()}>
      {text().slice(11)}
    </time>
  );
};

/** How long an event may wait for its place in the chain: the job that links events runs every second. */
const linkMsMax = 60_000;

type Fault = NonNullable<AuditChainView["fault"]>;
type Verified = NonNullable<AuditChainView["verified"]>;

const faultTexts: Readonly<Record<Fault["kind"], string>> = {
  gap: "is missing from the chain",
  chain_broken: "does not follow the one before it",
  event_missing: "was deleted",
  event_edited: "was edited",
};

/** How much of the hash chain core has verified, and since when: never more than it checked. */
const ChainStatus = (props: {
  /** Events of the page have waited for too long. */
  isStuck: boolean;
}) => {
  const report = createReport({
    schema: AuditChainView,
    path: () => "/api/core/audit-events/chain",
    intervalMs: 15_000,
  });
  const status = (): JSX.Element => {
    const chain = report.current();
    if (report.phase() === "failed")
      return (
        <>
          <Icon name="warning" /> The state of the hash chain could not be loaded.
        </>
      );
    if (chain === undefined) return "Hash chain: loading";
    if (props.isStuck)
      return (
        <>
          <Icon name="warning" /> {formatCountOf(chain.pending, "event")} not linked into the hash
          chain for over a minute: check that core's jobs run.
        </>
      );
    if (chain.verified)
      return (
        <VerifiedChain chain={chain} verified={chain.verified} isOld={report.phase() === "stale"} />
      );
    return (
      <>
        <Icon name="info" /> The hash chain has not been verified yet.
      </>
    );
  };
  return (
    <Show
      when={report.phase() !== "failed" && report.current()?.fault}
      fallback={
        <p
          class="chain-status"
          data-tone={props.isStuck || report.phase() === "failed" ? "warn" : undefined}
        >
          {status()}
        </p>
      }
    >
      {(fault) => (
        <Banner class="chain-fault" role="alert">
          <span>
            The hash chain has a fault: event {formatCount(fault().seq)} {faultTexts[fault().kind]}.
            Events from there on are not verified. Run <code>svc-server verify-audit</code> and
            compare with the heads in core's log.
          </span>
        </Banner>
      )}
    </Show>
  );
};

const VerifiedChain = (props: { chain: AuditChainView; verified: Verified; isOld: boolean }) => {
  const { times } = usePageContext();
  const checked = () => {
    const since = times.text(props.verified.checked_since);
    const until = times.text(props.verified.checked_at);
    return since === until ? `at ${until}` : `between ${since} and ${until}`;
  };
  return (
    <>
      <Icon name="check" />
      <span>
        Hash chain verified up to event {formatCount(props.verified.seq)} of{" "}
        {formatCount(props.chain.head?.seq ?? 0)}, each checked {checked()}
        <Show when={props.chain.pending > 0}>
          ; {formatCountOf(props.chain.pending, "event")} not linked yet
        </Show>
        <Show when={props.isOld}> (old)</Show>.
      </span>
    </>
  );
};
