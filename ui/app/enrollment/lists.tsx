import { For, Show } from "solid-js";
import {
  type EnrollmentReport,
  type ListedPolicy,
  type ListedToken,
  PolicyPage,
  TokenPage,
} from "#proto/operator/enrollment.ts";
import { useUpdates } from "../api/live-report.tsx";
import { auditPath } from "../audit/audit-view.ts";
import { countedChoices, RecordList } from "../design/record-list.tsx";
import { LabelLinks, type RecordColumns, TwoLines } from "../design/record-table.tsx";
import { List } from "../design/report-parts.tsx";
import { formatCount, formatUntil, plainText } from "../format/format.ts";
import { createListPart, Time, TimeCell } from "../shell/page.tsx";
import {
  enrolledPath,
  policyRules,
  policyWords,
  tokenStatesShown,
  tokensPath,
  tokenWords,
  usesOf,
} from "./enrollment-view.ts";

/** What both lists of the page have in common. */
const ofPage = { path: "/access/enrollment", limit: 50, intervalMs: 15_000 };

/** How many of its limit are used, as a link to the audit events; without any, plain text. */
const Uses = (props: { used: number; max: number; href: string }) => (
  <Show when={props.used > 0} fallback={<span class="quiet">{usesOf(0, props.max)}</span>}>
    <a href={props.href}>{usesOf(props.used, props.max)}</a>
  </Show>
);

const StateWord = (props: { state: string; words: string }) => (
  <span class="token-state" data-state={props.state}>
    {props.words}
  </span>
);

/** When a record was created, and by whom. */
const Created = (props: { of: ListedToken | ListedPolicy }) => (
  <TimeCell at={props.of.created_at} second={props.of.created_by_email ?? props.of.created_by} />
);

/** When a token expires, or that it has. */
const Expiry = (props: { at: string }) => {
  const { asOf } = useUpdates();
  return (
    <TimeCell
      at={props.at}
      second={`${Date.parse(props.at) <= asOf() ? "expired " : ""}${formatUntil(props.at, asOf())}`}
    />
  );
};

const tokenColumns: RecordColumns<ListedToken> = {
  Token: (token) => (
    <TwoLines second={token.description && plainText(token.description)}>
      <code>{token.token_prefix}…</code>
    </TwoLines>
  ),
  State: ({ state }) => <StateWord state={state} words={tokenWords[state]} />,
  Policy: (token) => (
    <a href={tokensPath({ policy_id: token.policy_id })}>{plainText(token.policy_name)}</a>
  ),
  Uses: {
    isNumber: true,
    cell: (token) => <Uses used={token.use_count} max={token.max_uses} href={usesPath(token)} />,
  },
  Expires: (token) => <Expiry at={token.expires_at} />,
  "Last use": ({ last_used_at: at, last_used_address: address }) => (
    <TimeCell at={at} none="never" second={address} />
  ),
  Created: (token) => <Created of={token} />,
  Refusals: (token) => (
    <a href={auditPath({ action: "collector.enroll", outcome: "failure", target: token.id })}>
      in the audit log
      <span class="visually-hidden">: refusals of the token {token.token_prefix}</span>
    </a>
  ),
};

/** The enrollments that used a token, which their events name in their details. */
const usesPath = ({ id, created_at: since }: ListedToken) =>
  auditPath({ action: "collector.enroll", outcome: "success", since, q: id });

/** The tokens of all policies under the filter of the address, newest first. */
export const Tokens = (props: { counts: EnrollmentReport["tokens"] | undefined }) => {
  const { chips, list } = createListPart(() => ({
    ...ofPage,
    source: "/api/core/collector/tokens",
    anchor: "tokens",
    foreign: ["policy", "q", "policy_cursor"],
    schema: TokenPage,
  }));
  return (
    <RecordList
      {...list()}
      filters={{
        "Tokens by state": chips("state", countedChoices(tokenWords, props.counts), {
          policy_id: null,
        }),
      }}
      label="Bootstrap tokens, newest first"
      columns={tokenColumns}
      noun="token"
      exports={{ csv: "CSV of the tokens" }}
      first={{
        title: "No token has been created",
        says: "A host enrolls with a token, under the rules of its policy. It shows here who used it, and how often it was refused.",
        command: 'svc-admin tokens create --policy "web servers" --ttl 15m --out host.token',
      }}
    />
  );
};

const policyColumns: RecordColumns<ListedPolicy> = {
  Policy: (policy) => (
    <>
      <TwoLines second={policy.description && plainText(policy.description)}>
        <strong>{plainText(policy.name)}</strong>
      </TwoLines>
      <LabelLinks labels={policy.labels} />
    </>
  ),
  State: ({ state, frozen_at: at }) => (
    <TwoLines second={at && <Time at={at} />}>
      <StateWord state={state} words={policyWords[state]} />
    </TwoLines>
  ),
  Allows: (policy) => <List of={policyRules(policy)}>{(rule) => plainText(rule)}</List>,
  Enrolled: {
    isNumber: true,
    cell: (policy) => (
      <Uses
        used={policy.enrollment_count}
        max={policy.max_enrollments}
        href={enrolledPath(policy)}
      />
    ),
  },
  Tokens: (policy) => (
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
  Created: (policy) => <Created of={policy} />,
};

/** The policies under the filter of the address, newest first, with their tokens by state. */
export const Policies = (props: { counts: EnrollmentReport["policies"] | undefined }) => {
  const { chips, list } = createListPart(() => ({
    ...ofPage,
    source: "/api/core/collector/enrollment-policies",
    anchor: "policies",
    foreign: ["state", "policy_id", "cursor"],
    names: { state: "policy", cursor: "policy_cursor" },
    schema: PolicyPage,
  }));
  return (
    <RecordList
      {...list()}
      filters={{
        "Policies by state": chips("state", countedChoices(policyWords, props.counts), {
          q: null,
        }),
      }}
      label="Enrollment policies, newest first"
      columns={policyColumns}
      noun="policy"
      nouns="policies"
      exports={{ csv: "CSV of the policies" }}
      first={{
        title: "No policy has been created",
        says: "A policy says which hosts may enroll, from where, and which labels they get.",
        command: 'svc-admin policies create "web servers" --prefix spiffe://example.com/host/',
      }}
    />
  );
};
