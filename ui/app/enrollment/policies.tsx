import { createMemo, For, Show } from "solid-js";
import { type ListedPolicy, PolicyPage } from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/create-report.ts";
import { OldNotice } from "../design/freshness.tsx";
import { Icon } from "../design/icon.tsx";
import { LabelLinks } from "../design/label-links.tsx";
import { ListPager } from "../design/list-pager.tsx";
import { Loaded } from "../design/loaded.tsx";
import { type RecordColumn, RecordTable } from "../design/record-table.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { Time } from "../shell/time.tsx";
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
  const { api } = usePageContext();
  const report = createReport({
    api,
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
  const page = () => report.answer()?.value;
  const pathOf = (cursor?: string) => {
    const { policies } = props.view;
    const params = new URLSearchParams();
    const [state, text] = [policies.get("state"), policies.get("q")];
    if (state !== null) params.set("policy", state);
    if (text !== null) params.set("q", text);
    if (cursor !== undefined) params.set("policy_cursor", cursor);
    return `/enrollment${params.size === 0 ? "" : `?${params}`}#policies`;
  };
  const columns: readonly RecordColumn<ListedPolicy>[] = [
    {
      name: "Policy",
      cell: (policy) => (
        <>
          <strong>{plainText(policy.name)}</strong>
          <Show when={policy.description}>{(text) => <span class="second-line">{plainText(text())}</span>}</Show>
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
          <a href={enrolledPath(policy)}>{usesOf(policy.enrollment_count, policy.max_enrollments)}</a>
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
        <>
          <Time at={policy.created_at} asOf={report.asOf()} />
          <span class="second-line">{policy.created_by_email ?? policy.created_by}</span>
        </>
      ),
    },
  ];
  return (
    <>
      <OldNotice report={report} what="These policies are" paused={props.paused} />
      <Loaded
        report={report}
        what="policies"
        instead={{ href: "/enrollment", words: "Show all policies" }}
        value={page()}
      >
        {(known) => (
          <>
            <div class="page-tools">
              <ListPager
                label="Pages of policies"
                rows={known().items.length}
                isContinued={props.view.policyCursor !== undefined}
                firstPath={pathOf()}
                nextPath={known().next_cursor === null ? undefined : pathOf(known().next_cursor ?? undefined)}
                noun="policy"
                nouns="policies"
              />
              <a
                class="button"
                href={`${listPath}/export.csv${props.view.policies.size === 0 ? "" : `?${props.view.policies}`}`}
                download=""
              >
                <Icon name="export" /> CSV of the policies
              </a>
            </div>
            <Show
              when={known().items.length > 0}
              fallback={
                <p class="quiet">
                  {props.view.policies.size === 0
                    ? "No policy has been created. An administrator creates one through the API."
                    : "No policy matches."}
                </p>
              }
            >
              <div class="shown" data-shown={report.phase()}>
                <RecordTable label="Enrollment policies, newest first" columns={columns} rows={known().items} />
              </div>
            </Show>
          </>
        )}
      </Loaded>
    </>
  );
};
