import { Show } from "solid-js";
import { type CalendarEntry, SystemCalendar, withoutEnd } from "#proto/system/calendar.ts";
import { createReport, useUpdates } from "../api/live-report.tsx";
import { type RecordColumns, RecordTable, TwoLines } from "../design/record-table.tsx";
import { Loaded, Section } from "../design/report-parts.tsx";
import { WithCode } from "../design/with-code.tsx";
import { capitalised, formatUntil, plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/page.tsx";
import { PartMark } from "./part-mark.tsx";

/** How long a credential lasts, marked once that needs somebody. */
const TimeLeft = (props: { of: CalendarEntry }) => {
  const { asOf } = useUpdates();
  const words = () => formatUntil(props.of.ends_at ?? "", asOf());
  return (
    <Show when={props.of.state !== "ready"} fallback={words()}>
      <PartMark state={props.of.state} words={words()} />
    </Show>
  );
};

const columns: RecordColumns<CalendarEntry> = {
  Credential: ({ what, subject }) => (
    <TwoLines second={subject && plainText(subject)}>{capitalised(what)}</TwoLines>
  ),
  Expires: (entry) => <TimeCell at={entry.ends_at} second={<TimeLeft of={entry} />} />,
  Of: ({ of }) => plainText(of.join(", ")),
  "How to replace": ({ change, docs, away }) => (
    <TwoLines second={away !== "nothing" && <WithCode text={`On a host that was away: ${away}`} />}>
      <TwoLines second={docs}>{change}</TwoLines>
    </TwoLines>
  ),
};

const columnsWithoutEnd: RecordColumns<CalendarEntry> = {
  ...columns,
  Expires: ({ ending, changed_at: at }) => (
    <TwoLines
      second={
        at && (
          <>
            file of <Time at={at} />
          </>
        )
      }
    >
      {withoutEnd[ending]}
    </TwoLines>
  ),
};

const hasEnd = (entry: CalendarEntry) => entry.ends_at !== null;

/** When each credential expires, the soonest first, and what replaces it. */
export const Calendar = () => {
  const report = createReport({
    schema: SystemCalendar,
    path: () => "/api/core/system/calendar",
  });
  return (
    <Section id="system-calendar" title="Expiry dates">
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
