import { createMemo, For, Show } from "solid-js";
import { type ListedPolicy, PolicyPage } from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/create-report.ts";
import { withQuery } from "../browser/with-query.ts";
import { LabelLinks } from "../design/label-links.tsx";
import { RecordList } from "../design/record-list.tsx";
import type { RecordColumn } from "../design/record-table.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/time.tsx";
import {
  type EnrollmentView,
  enrolledPath,
  policyRules,
  policyWords,
  tokenStatesShown,
  tokensPath,
  tokenWords,
  usesOf,
} from "./enrollment-view.ts";

const pageRows = 50;
const listPath = "/api/core/collector/enrollment-policies";

/** The policies under the filter of the address, newest first, with their tokens by state. */
export const Policies = (props: { view: EnrollmentView; paused: boolean }) => {
  const report = createReport({
    schema: PolicyPage,
    path: createMemo(() => {
      const { policies, policyCursor } = props.view;
      const params = new URLSearchParams([...policies, ["limit", String(pageRows)]]);
      if (policyCursor !== undefined) params.set("cursor", policyCursor);
      return `${listPath}?${params}`;
    }),
    intervalMs: 15_000,
    paused: () => props.paused,
  });
  const pathOf = (cursor?: string) => {
    const { policies } = props.view;
    const params = new URLSearchParams();
    const state = policies.get("state");
    const text = policies.get("q");
    if (state !== null) params.set("policy", state);
    if (text !== null) params.set("q", text);
    if (cursor !== undefined) params.set("policy_cursor", cursor);
    return `${withQuery("/enrollment", params)}#policies`;
  };
  const columns: readonly RecordColumn<ListedPolicy>[] = [
    {
      name: "Policy",
      cell: (policy) => (
        <>
          <strong>{plainText(policy.name)}</strong>
          <Show when={policy.description}>
            {(text) => <span class="second-line">{plainText(text())}</span>}
          </Show>
          <Show when={Object.keys(policy.labels).length > 0}>
            <LabelLinks labels={policy.labels} />
          </Show>
        </>
      ),
    },
    {
      name: "State",
      cell: (policy) => (
        <>
          <span class="token-state" data-state={policy.state}>
            {policyWords[policy.state]}
          </span>
          <Show when={policy.frozen_at}>
            {(at) => (
              <span class="second-line">
                <Time at={at()} asOf={report.asOf()} />
              </span>
            )}
          </Show>
        </>
      ),
    },
    {
      name: "Allows",
      cell: (policy) => (
        <ul>
          <For each={policyRules(policy)}>{(rule) => <li>{plainText(rule)}</li>}</For>
        </ul>
      ),
    },
    {
      name: "Enrolled",
      isNumber: true,
      cell: (policy) => (
        <Show
          when={policy.enrollment_count > 0}
          fallback={<span class="quiet">{usesOf(0, policy.max_enrollments)}</span>}
        >
          <a href={enrolledPath(policy)}>
            {usesOf(policy.enrollment_count, policy.max_enrollments)}
          </a>
        </Show>
      ),
    },
    {
      name: "Tokens",
      cell: (policy) => (
        <ul class="inline-list">
          <For
            each={tokenStatesShown.filter((state) => policy.tokens[state] > 0)}
            fallback={<li class="quiet">none</li>}
          >
            {(state) => (
              <li>
                <a href={tokensPath({ policy_id: policy.id, state })}>
                  {formatCount(policy.tokens[state])} {tokenWords[state].toLowerCase()}
                </a>
              </li>
            )}
          </For>
        </ul>
      ),
    },
    {
      name: "Created",
      cell: (policy) => (
        <TimeCell
          at={policy.created_at}
          asOf={report.asOf()}
          second={policy.created_by_email ?? policy.created_by}
        />
      ),
    },
  ];
  const isFiltered = () => props.view.policies.size > 0;
  return (
    <RecordList
      report={report}
      part={props}
      label="Enrollment policies, newest first"
      columns={columns}
      noun="policy"
      nouns="policies"
      isContinued={props.view.policyCursor !== undefined}
      pathOf={pathOf}
      allPath="/enrollment"
      downloads={[
        {
          path: `${listPath}/export.csv${isFiltered() ? `?${props.view.policies}` : ""}`,
          words: "CSV of the policies",
        },
      ]}
      empty={
        <p class="quiet">
          <Show when={!isFiltered()} fallback="No policy matches.">
            No policy has been created. An administrator creates one with{" "}
            <code>svc-admin policies create</code>.
          </Show>
        </p>
      }
    />
  );
};
