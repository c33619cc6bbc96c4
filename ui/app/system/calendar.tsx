import { Show } from "solid-js";
import { type CalendarEntry, SystemCalendar, withoutEnd } from "#proto/system/calendar.ts";
import { createReport, useUpdates } from "../api/live-report.tsx";
import { type RecordColumns, RecordTable } from "../design/records.tsx";
import { Loaded, OldNotice, Section } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/page.tsx";
import { PartMark } from "./part-mark.tsx";

const columns: RecordColumns<CalendarEntry> = {
  Credential: ({ what, subject }) => (
    <>
      {what}
      <Show when={subject}>
        {(name) => <span class="second-line system-detail">{plainText(name())}</span>}
      </Show>
    </>
  ),
  Expires: ({ ends_at: at, state }) => (
    <TimeCell
      at={at}
      second={state !== "ready" && <PartMark state={state} words={wordsOf[state]} />}
    />
  ),
  Of: ({ of }) => plainText(of.join(", ")),
  "How to replace": ({ change, docs, away }) => (
    <>
      {change}
      <span class="second-line system-detail">{docs}</span>
      <Show when={away !== "nothing"}>
        <span class="second-line">On a host that was away: {away}</span>
      </Show>
    </>
  ),
};

const wordsOf = { warning: "within 30 days", not_ready: "last day, or expired" } as const;

const columnsWithoutEnd: RecordColumns<CalendarEntry> = {
  ...columns,
  Expires: ({ ending, changed_at: at }) => (
    <>
      {withoutEnd[ending]}
      <Show when={at}>
        {(written) => (
          <span class="second-line">
            file of <Time at={written()} />
          </span>
        )}
      </Show>
    </>
  ),
};

const hasEnd = (entry: CalendarEntry) => entry.ends_at !== null;

/** When each credential expires, the soonest first, and what replaces it. */
export const Calendar = () => {
  const { paused } = useUpdates();
  const report = createReport({
    schema: SystemCalendar,
    path: () => "/api/core/system/calendar",
    intervalMs: 60_000,
    paused,
  });
  return (
    <Section id="system-calendar" title="Expiry dates">
      <OldNotice report={report} what="These dates are" pauses />
      <Loaded report={report} what="calendar">
        {(known) => (
          <>
            <RecordTable
              label="Expiry dates, soonest first"
              columns={columns}
              rows={known().items.filter(hasEnd)}
              isFailed={({ state }) => state === "not_ready"}
            />
            <details>
              <summary>Keys, tokens and passwords without a known expiry</summary>
              <RecordTable
                label="Credentials without a known expiry"
                columns={columnsWithoutEnd}
                rows={known().items.filter((entry) => !hasEnd(entry))}
              />
            </details>
          </>
        )}
      </Loaded>
    </Section>
  );
};
