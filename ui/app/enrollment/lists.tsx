import { createMemo, For, Show } from "solid-js";
import {
  type ListedPolicy,
  type ListedToken,
  PolicyPage,
  TokenPage,
} from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { LabelLinks, type RecordColumn, RecordList } from "../design/records.tsx";
import { formatCount, formatUntil, plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/page.tsx";
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
const listPath = "/api/core/collector/tokens";

/** The tokens of all policies under the filter of the address, newest first. */
export const Tokens = (props: { view: EnrollmentView; paused: boolean }) => {
  const report = createReport({
    schema: TokenPage,
    path: createMemo(() => {
      const { tokens, tokenCursor } = props.view;
      const params = new URLSearchParams([...tokens, ["limit", String(pageRows)]]);
      if (tokenCursor !== undefined) params.set("cursor", tokenCursor);
      return `${listPath}?${params}`;
    }),
    intervalMs: 15_000,
    paused: () => props.paused,
  });
  const pathOf = (cursor?: string) => {
    const params = new URLSearchParams(props.view.tokens);
    if (cursor !== undefined) params.set("cursor", cursor);
    return `${withQuery("/enrollment", params)}#tokens`;
  };
  const columns: readonly RecordColumn<ListedToken>[] = [
    {
      name: "Token",
      cell: (token) => (
        <>
          <code>{token.token_prefix}…</code>
          <Show when={token.description}>
            {(text) => <span class="second-line">{plainText(text())}</span>}
          </Show>
        </>
      ),
    },
    {
      name: "State",
      cell: (token) => (
        <span class="token-state" data-state={token.state}>
          {tokenWords[token.state]}
        </span>
      ),
    },
    {
      name: "Policy",
      cell: (token) => (
        <a href={tokensPath({ policy_id: token.policy_id })}>{plainText(token.policy_name)}</a>
      ),
    },
    {
      name: "Uses",
      isNumber: true,
      cell: (token) => (
        <Show
          when={token.use_count > 0}
          fallback={<span class="quiet">{usesOf(0, token.max_uses)}</span>}
        >
          <a href={usesPath(token)}>{usesOf(token.use_count, token.max_uses)}</a>
        </Show>
      ),
    },
    {
      name: "Expires",
      cell: (token) => (
        <TimeCell
          at={token.expires_at}
          asOf={report.asOf()}
          second={`${Date.parse(token.expires_at) <= report.asOf() ? "expired " : ""}${formatUntil(token.expires_at, report.asOf())}`}
        />
      ),
    },
    {
      name: "Last use",
      cell: ({ last_used_at: at, last_used_address: address }) => (
        <TimeCell at={at} asOf={report.asOf()} none="never" second={address} />
      ),
    },
    {
      name: "Created",
      cell: (token) => (
        <TimeCell
          at={token.created_at}
          asOf={report.asOf()}
          second={token.created_by_email ?? token.created_by}
        />
      ),
    },
    {
      name: "Refusals",
      cell: (token) => (
        <a
          href={`/audit?${new URLSearchParams({ action: "collector.enroll", outcome: "failure", target: token.id })}`}
        >
          in the audit log
          <span class="visually-hidden">: refusals of the token {token.token_prefix}</span>
        </a>
      ),
    },
  ];
  const isFiltered = () => props.view.tokens.size > 0;
  return (
    <RecordList
      report={report}
      part={props}
      label="Bootstrap tokens, newest first"
      columns={columns}
      noun="token"
      isContinued={props.view.tokenCursor !== undefined}
      pathOf={pathOf}
      allPath="/enrollment"
      downloads={[
        {
          path: withQuery(`${listPath}/export.csv`, props.view.tokens),
          words: "CSV of the tokens",
        },
      ]}
      empty={
        <p class="quiet">
          <Show when={!isFiltered()} fallback="No token matches.">
            No token has been created. An administrator creates one with{" "}
            <code>svc-admin tokens create</code>.
          </Show>
        </p>
      }
    />
  );
};

/** The enrollments that used a token, which their events name in their details. */
const usesPath = ({ id, created_at: since }: ListedToken): string =>
  `/audit?${new URLSearchParams({ action: "collector.enroll", outcome: "success", since, q: id })}`;

const policyListPath = "/api/core/collector/enrollment-policies";

/** The policies under the filter of the address, newest first, with their tokens by state. */
export const Policies = (props: { view: EnrollmentView; paused: boolean }) => {
  const report = createReport({
    schema: PolicyPage,
    path: createMemo(() => {
      const { policies, policyCursor } = props.view;
      const params = new URLSearchParams([...policies, ["limit", String(pageRows)]]);
      if (policyCursor !== undefined) params.set("cursor", policyCursor);
      return `${policyListPath}?${params}`;
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
          path: `${policyListPath}/export.csv${isFiltered() ? `?${props.view.policies}` : ""}`,
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
