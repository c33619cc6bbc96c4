import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, For, type JSX, Show } from "solid-js";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { RolloutPreview } from "#proto/rollout/rollout.ts";
import { createReport } from "../api/live-report.tsx";
import { deviceOf } from "../audit/event-view.ts";
import { withQuery } from "../browser/with-query.ts";
import { CopiedCommand } from "../design/buttons.tsx";
import { SearchForm } from "../design/filter-form.tsx";
import { Icon } from "../design/icon.tsx";
import { List, Loaded, Section } from "../design/report-parts.tsx";
import { defaultView, viewPath } from "../fleet/view/view-state.ts";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { targetReasonWords } from "../rollouts/rollout-view.ts";
import { usePageContext } from "../session/page-context.tsx";
import { Patch } from "./config-text.tsx";
import { configName } from "./progress-view.ts";
import "../rollouts/rollouts.css";

/** The preview of a rollout: asks for a query of hosts, and shows which of them would change and which could not. */
export const Preview = (props: { configId: string }) => {
  const { coreNow } = usePageContext();
  const location = useLocation();
  const navigate = useNavigate();
  const query = createMemo(() => new URLSearchParams(location.search).get("preview") ?? undefined);
  const faults = () =>
    query() === undefined ? [] : parseQuery(query() ?? "", new Date(coreNow())).faults;
  const report = createReport({
    schema: RolloutPreview,
    path: () => {
      const filter = query();
      return filter === undefined || faults().length > 0
        ? undefined
        : withQuery(`/api/core/collector/configs/${encodeURIComponent(props.configId)}/preview`, {
            filter,
          });
    },
  });
  return (
    <Section class="panel" id="preview" title="What would a rollout change?">
      <SearchForm
        button="Preview"
        onSearch={(preview) =>
          navigate(
            `${withQuery(`/changes/configs/${props.configId}`, { preview: preview ?? "" })}#preview`,
          )
        }
        value={query() ?? ""}
        maxlength={4096}
        aria-label="Hosts, as a query of the fleet page; empty for every host"
        placeholder="platform:linux label.env:prod"
      />
      <p class="quiet">
        A query as on the fleet page, with times in UTC; empty for every host. A preview changes
        nothing.
      </p>
      <Show when={faults().length > 0}>
        <ul class="config-errors" role="alert">
          <For each={faults()}>{({ message }) => <li>{message}</li>}</For>
        </ul>
      </Show>
      <Show when={query() !== undefined && faults().length === 0}>
        <Loaded report={report} what="preview">
          {(known) => <Result preview={known()} />}
        </Loaded>
      </Show>
    </Section>
  );
};

interface PreviewProps {
  preview: RolloutPreview;
}

/** What a rollout would change, why it would be refused, and the command that begins it. */
const Result = (props: PreviewProps) => {
  const command = () =>
    `svc-admin rollouts create ${props.preview.config.id}${words(props.preview.filter)}`;
  return (
    <>
      <Counts preview={props.preview} />
      <Warnings preview={props.preview} />
      <Show when={props.preview.from.length > 0}>
        <h3>Config now</h3>
        <List class="stack" of={props.preview.from}>
          {(before) => (
            <>
              {formatCountOf(before.hosts, "host")}:{" "}
              <Before preview={props.preview} before={before} />
            </>
          )}
        </List>
      </Show>
      <Skipped preview={props.preview} />
      <Show when={props.preview.will_change > 0}>
        <CopiedCommand text={command()} what="the command that begins this rollout" />
      </Show>
    </>
  );
};

/** Reports whether the configs differ only in comments and formatting, which the hash ignores. */
const isEqual = (preview: RolloutPreview, before: { config_hash: string } | null) =>
  before?.config_hash === preview.config.config_hash;

/** How many hosts would change, and how many would not. */
const Counts = (props: PreviewProps) => {
  const { coreNow } = usePageContext();
  const fleetPath = () => {
    const { filter } = parseQuery(props.preview.filter, new Date(coreNow()));
    return viewPath({ ...defaultView, filter });
  };
  const equal = () =>
    props.preview.from.reduce(
      (sum, { config, hosts }) => sum + (isEqual(props.preview, config) ? hosts : 0),
      0,
    );
  return (
    <p>
      <Show when={props.preview.hosts > 0} fallback="The query matches no host.">
        Of <a href={fleetPath()}>{formatCountOf(props.preview.hosts, "host")}</a>,{" "}
        <strong>{formatCount(props.preview.will_change - equal())} would change</strong>
        <Show when={equal() > 0}>
          , {formatCount(equal())} would get other comments or formatting only
        </Show>
        , {formatCount(props.preview.unchanged)} {props.preview.unchanged === 1 ? "has" : "have"} it
        assigned already, and {formatCount(props.preview.skipped)} would be skipped.
      </Show>
    </p>
  );
};

const Warning = (props: { children: JSX.Element }) => (
  <p class="preview-warning">
    <Icon name="warning" />
    <span>{props.children}</span>
  </p>
);

/** Why a rollout would be refused, or hosts would not apply the config. */
const Warnings = (props: PreviewProps) => (
  <>
    <Show when={props.preview.in_other_rollouts.length > 0}>
      <Warning>
        A rollout would be refused. In other rollouts already:{" "}
        <For each={props.preview.in_other_rollouts}>
          {({ rollout_id: id, hosts }, index) => (
            <>
              {index() === 0 ? "" : ", "}
              {formatCountOf(hosts, "host")} in{" "}
              <a href={`/changes/rollouts/${id}`}>{id.slice(-12)}</a>
            </>
          )}
        </For>
        .
      </Warning>
    </Show>
    <Show when={props.preview.unparsable.length > 0}>
      <Warning>These versions reject the config:</Warning>
      <List of={props.preview.unparsable}>
        {({ version, hosts, errors }) => (
          <>
            <code>{plainText(version)}</code>, {formatCountOf(hosts, "host")}:{" "}
            {plainText(errors.join("; "))}
          </>
        )}
      </List>
    </Show>
  </>
);

/** A config that hosts have now, and what the rollout would change of it. */
const Before = (props: PreviewProps & { before: RolloutPreview["from"][number] }) => (
  <Show when={props.before.config} fallback="no config assigned by core">
    {(config) => (
      <>
        <a href={`/changes/configs/${config().id}`}>{plainText(configName(config()))}</a>{" "}
        <code title={config().config_hash}>{config().config_hash.slice(0, 6)}</code>
        {isEqual(props.preview, config()) ? ", only comments or formatting differ" : ""}
        {(props.before.rules ?? []).map(({ rule, change }) => `, rule ${rule} ${change}`)}
        <Show
          when={props.before.diff}
          fallback={
            <>
              ,{" "}
              <a
                href={withQuery(`/changes/configs/${props.preview.config.id}`, {
                  compare: config().id,
                })}
              >
                compare
              </a>
            </>
          }
        >
          {(text) => (
            <details>
              <summary>
                Changes
                <span class="visually-hidden"> from {plainText(configName(config()))}</span>
              </summary>
              <Patch text={text()} />
            </details>
          )}
        </Show>
      </>
    )}
  </Show>
);

/** The first of the hosts that would be skipped, and why. */
const Skipped = (props: PreviewProps) => (
  <Show when={props.preview.refused.length > 0}>
    <details>
      <summary>
        {props.preview.skipped > props.preview.refused.length
          ? `The first ${formatCount(props.preview.refused.length)} of ${formatCount(props.preview.skipped)} hosts that would be skipped`
          : `${formatCountOf(props.preview.skipped, "host")} that would be skipped`}
      </summary>
      <List of={props.preview.refused}>
        {({ identity_id: id, identity, reason }) => (
          <>
            <a href={`/hosts/${id}`} title={plainText(identity)}>
              {plainText(deviceOf(identity))}
            </a>
            : {targetReasonWords[reason]}
          </>
        )}
      </List>
    </details>
  </Show>
);

/** Returns a query as a word of a POSIX shell that is no option. */
const words = (query: string) =>
  query.trim() === ""
    ? " --all"
    : `${query.startsWith("-") ? " --" : ""} '${query.replaceAll("'", `'\\''`)}'`;
