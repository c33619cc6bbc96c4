import { For, Show } from "solid-js";
import type { EnrollmentReport } from "../../../proto/operator/enrollment.ts";
import { Icon } from "../design/icon.tsx";
import { type RecordColumn, RecordTable } from "../design/record-table.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { RefusedHosts } from "../host/host-events.tsx";
import { TimeCell } from "../shell/time.tsx";
import {
  type CountedReason,
  reasonWords,
  refusalEventsPath,
  refusalReasons,
} from "./enrollment-view.ts";

/** The enrollments that core rejected in the last day, by reason and policy, each with its audit events. */
export const Refusals = (props: { report: EnrollmentReport; asOf: number }) => {
  const columns: readonly RecordColumn<CountedReason>[] = [
    { name: "Reason", cell: ({ reason }) => reasonWords(reason) },
    {
      name: "Refused",
      isNumber: true,
      cell: ({ refused }) => formatCount(refused),
    },
    {
      name: "Audit events",
      isNumber: true,
      cell: ({ reason, events }) => (
        <a href={refusalEventsPath(props.report, { reason })}>{formatCount(events)}</a>
      ),
    },
    {
      name: "By policy",
      cell: ({ reason, policies }) => (
        <ul class="inline-list">
          <For each={policies}>
            {(group) => (
              <li>
                <Show
                  when={group.policy_id}
                  fallback={
                    <span class="quiet">
                      {formatCountOf(group.events, "event")} without a policy
                    </span>
                  }
                >
                  {(id) => (
                    <a href={refusalEventsPath(props.report, { reason, policyId: id() })}>
                      {plainText(group.policy_name ?? "")}: {formatCountOf(group.events, "event")}
                    </a>
                  )}
                </Show>
              </li>
            )}
          </For>
        </ul>
      ),
    },
    {
      name: "Last",
      cell: ({ lastAt, lastAddress }) => (
        <TimeCell at={lastAt} asOf={props.asOf} second={lastAddress} />
      ),
    },
  ];
  const reasons = () => refusalReasons(props.report.refusals);
  return (
    <section class="enrollment-part" aria-labelledby="refusals">
      <h2 id="refusals">Refused in the last day</h2>
      <Show when={reasons().length > 0} fallback={<p class="quiet">No enrollment was refused.</p>}>
        <div class="page-tools">
          <p class="quiet">
            Repeated refusals of a host or address share one audit event a minute, which has no
            policy. No event has the token.
          </p>
          <a class="button" href="/api/core/collector/enrollment/refusals.csv" download="">
            <Icon name="export" /> CSV of the refusals
          </a>
        </div>
        <RecordTable label="Refusals by reason" columns={columns} rows={reasons()} />
        <RefusedHosts />
      </Show>
    </section>
  );
};
