import { useLocation } from "@solidjs/router";
import { createMemo, createSignal, For, Show } from "solid-js";
import { EnrollmentReport } from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/live-report.tsx";
import { Icon } from "../design/parts.tsx";
import { Chips, type RecordColumn, RecordTable } from "../design/records.tsx";
import { LoadFailure } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, formatKnown, plainText } from "../format/format.ts";
import { RefusedHosts } from "../host/host-events.tsx";
import { PageHead, TimeCell } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import {
  type CountedReason,
  parseEnrollmentView,
  policiesPath,
  policyWords,
  reasonWords,
  refusalEventsPath,
  refusalReasons,
  tokenStatesShown,
  tokensPath,
  tokenWords,
} from "./enrollment-view.ts";
import { Policies, Tokens } from "./lists.tsx";
import "../design/page.css";
import "./enrollment.css";

/** The enrollments that core rejected in the last day, by reason and policy, each with its audit events. */
const Refusals = (props: { report: EnrollmentReport; asOf: number }) => {
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

/** `/enrollment`: which tokens enroll hosts now, under which policies, and what was rejected in the last day. */
export const EnrollmentPage = () => {
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  createPageTitle(() => "Enrollment");
  const view = createMemo(() => parseEnrollmentView(location.search));
  const report = createReport({
    schema: EnrollmentReport,
    path: () => "/api/core/collector/enrollment",
    intervalMs: 15_000,
    paused,
  });
  const counts = () => report.answer()?.value;
  return (
    <div class="page">
      <PageHead title="Enrollment" report={report} paused={paused()} onPause={setPaused} />
      <Show
        when={view().unknown}
        fallback={
          <>
            <Show when={report.phase() === "failed" && report.state().problem}>
              {(problem) => (
                <LoadFailure
                  title={<h2>The counts could not be loaded</h2>}
                  problem={problem()}
                  onRetry={report.refresh}
                />
              )}
            </Show>
            <section class="enrollment-part" aria-labelledby="tokens">
              <h2 id="tokens">Bootstrap tokens</h2>
              <Chips
                label="Tokens by state"
                chips={[
                  { words: "All", path: tokensPath(), isChosen: view().tokens.size === 0 },
                  ...tokenStatesShown.map((state) => ({
                    words: `${tokenWords[state]} ${formatKnown(counts()?.tokens[state])}`,
                    path: tokensPath({ state }),
                    isChosen: view().tokens.toString() === `state=${state}`,
                  })),
                ]}
              />
              <Tokens view={view()} paused={paused()} />
            </section>
            <section class="enrollment-part" aria-labelledby="policies">
              <h2 id="policies">Policies</h2>
              <Chips
                label="Policies by state"
                chips={[
                  { words: "All", path: policiesPath(), isChosen: view().policies.size === 0 },
                  ...(["active", "frozen"] as const).map((state) => ({
                    words: `${policyWords[state]} ${formatKnown(counts()?.policies[state])}`,
                    path: policiesPath({ policy: state }),
                    isChosen: view().policies.get("state") === state,
                  })),
                ]}
              />
              <Policies view={view()} paused={paused()} />
            </section>
            <Show when={counts()}>
              {(known) => <Refusals report={known()} asOf={report.asOf()} />}
            </Show>
          </>
        }
      >
        {(name) => (
          <section class="notice" role="alert">
            <h2>This link has a filter that the page does not understand</h2>
            <p>
              The parameter is <code>{name()}</code>. Nothing is shown, because other rows than
              those it meant could appear.
            </p>
            <a class="button" href="/enrollment">
              Show everything
            </a>
          </section>
        )}
      </Show>
    </div>
  );
};
