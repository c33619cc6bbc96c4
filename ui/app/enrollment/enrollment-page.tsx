import { Show } from "solid-js";
import { EnrollmentReport } from "#proto/operator/enrollment.ts";
import { RefusedHosts } from "../audit/record-events.tsx";
import { Icon } from "../design/icon.tsx";
import { type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { List, LoadFailure, Section } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { createPage, PageFrame, TimeCell } from "../shell/page.tsx";
import {
  type CountedReason,
  reasonWords,
  refusalEventsPath,
  refusalReasons,
} from "./enrollment-view.ts";
import { Policies, Tokens } from "./lists.tsx";
import "./enrollment.css";

/** `/access/enrollment`: which tokens enroll hosts now, under which policies, and what was rejected in the last day. */
export const EnrollmentPage = () => {
  const page = createPage({
    title: () => "Enrollment",
    schema: EnrollmentReport,
    path: () => "/api/core/collector/enrollment",
    intervalMs: 15_000,
  });
  const { report } = page;
  const known = () => report.value();
  return (
    <PageFrame of={page}>
      <LoadFailure what="counts" level="h2" problem={report.failure()} onRetry={report.refresh} />
      <Section id="tokens" title="Bootstrap tokens">
        <Tokens counts={known()?.tokens} />
      </Section>
      <Section id="policies" title="Policies">
        <Policies counts={known()?.policies} />
      </Section>
      <Show when={known()}>{(counts) => <Refusals report={counts()} />}</Show>
    </PageFrame>
  );
};

const columnsOf = (report: EnrollmentReport): RecordColumns<CountedReason> => ({
  Reason: ({ reason }) => reasonWords(reason),
  Refused: { isNumber: true, cell: ({ refused }) => formatCount(refused) },
  "Audit events": {
    isNumber: true,
    cell: ({ reason, events }) => (
      <a href={refusalEventsPath(report, { reason })}>{formatCount(events)}</a>
    ),
  },
  "By policy": ({ reason, policies }) => (
    <List class="inline-list" of={policies}>
      {(group) => (
        <Show
          when={group.policy_id}
          fallback={
            <span class="quiet">{formatCountOf(group.events, "event")} without a policy</span>
          }
        >
          {(id) => (
            <a href={refusalEventsPath(report, { reason, policyId: id() })}>
              {plainText(group.policy_name ?? "")}: {formatCountOf(group.events, "event")}
            </a>
          )}
        </Show>
      )}
    </List>
  ),
  Last: ({ lastAt, lastAddress }) => <TimeCell at={lastAt} second={lastAddress} />,
});

/** The enrollments that core rejected in the last day, by reason and policy, each with its audit events. */
const Refusals = (props: { report: EnrollmentReport }) => {
  const reasons = () => refusalReasons(props.report.refusals);
  return (
    <Section id="refusals" title="Refused in the last day">
      <Show when={reasons().length > 0} fallback={<p class="quiet">No enrollment was refused.</p>}>
        <div class="page-tools">
          <p class="quiet">
            Repeated refusals of a host or address are one audit event a minute, without a policy.
            No event has the token.
          </p>
          <a class="button" href="/api/core/collector/enrollment/refusals.csv" download="">
            <Icon name="export" /> CSV of the refusals
          </a>
        </div>
        <RecordTable
          label="Refusals by reason"
          columns={columnsOf(props.report)}
          rows={reasons()}
        />
        <RefusedHosts />
      </Show>
    </Section>
  );
};
