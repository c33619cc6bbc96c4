import { createMemo, Show } from "solid-js";
import { type ListedToken, TokenPage } from "../../../proto/operator/enrollment.ts";
import { createReport } from "../api/create-report.ts";
import { withQuery } from "../browser/with-query.ts";
import { RecordList } from "../design/record-list.tsx";
import type { RecordColumn } from "../design/record-table.tsx";
import { formatUntil, plainText } from "../format/format.ts";
import { TimeCell } from "../shell/time.tsx";
import { type EnrollmentView, tokensPath, tokenWords, usesOf } from "./enrollment-view.ts";

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
