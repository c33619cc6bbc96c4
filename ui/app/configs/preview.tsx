import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, For, Show } from "solid-js";
import { parseQuery } from "../../../proto/fleet-health/query-language/parse.ts";
import { RolloutPreview } from "../../../proto/rollout/rollout.ts";
import { createReport } from "../api/live-report.tsx";
import { deviceOf } from "../audit/event-view.ts";
import { CopyButton, Icon } from "../design/parts.tsx";
import { Loaded, OldNotice } from "../design/report-parts.tsx";
import { defaultView, viewPath } from "../fleet/view/view-state.ts";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { targetReasonWords } from "../rollouts/rollout-view.ts";
import { usePageContext } from "../session/page-context.tsx";
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
    path: createMemo(() => {
      const filter = query();
      return filter === undefined || faults().length > 0
        ? undefined
        : `/api/core/collector/configs/${encodeURIComponent(props.configId)}/preview?${new URLSearchParams({ filter })}`;
    }),
    intervalMs: 60_000,
  });
  return (
    <section class="panel rollout-part preview" aria-labelledby="preview">
      <h2 id="preview">What would a rollout change?</h2>
      <form
        class="search-form"
        onSubmit={(event) => {
          event.preventDefault();
          const preview = String(new FormData(event.currentTarget).get("preview") ?? "").trim();
          navigate(`/configs/${props.configId}?${new URLSearchParams({ preview })}#preview`);
        }}
      >
        <input
          class="input"
          type="search"
          name="preview"
          value={query() ?? ""}
          maxlength="4096"
          aria-label="Hosts, as a query of the fleet page; empty for every host"
          placeholder="platform:linux label.env:prod"
          autocomplete="off"
          spellcheck={false}
        />
        <button class="button" type="submit">
          Preview
        </button>
      </form>
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
        <OldNotice report={report} what="This preview is" />
        <Loaded report={report} what="preview" value={report.current()}>
          {(known) => <Result preview={known()} />}
        </Loaded>
      </Show>
    </section>
  );
};

const fleetPath = (filter: string, now: number): string =>
  viewPath({ ...defaultView, filter: parseQuery(filter, new Date(now)).filter });

const Result = (props: { preview: RolloutPreview }) => {
  const { coreNow } = usePageContext();
  /** The hash leaves out comments and formatting: collectors read the same from both. */
  const isEqual = (before: { config_hash: string }) =>
    before.config_hash === props.preview.config.config_hash;
  const equal = () =>
    props.preview.from.reduce(
      (sum, { config, hosts }) => sum + (config && isEqual(config) ? hosts : 0),
      0,
    );
  const command = () =>
    `svc-admin rollouts create ${props.preview.config.id}${words(props.preview.filter)}`;
  return (
    <>
      <p>
        <Show when={props.preview.hosts > 0} fallback="The query matches no host.">
          Of{" "}
          <a href={fleetPath(props.preview.filter, coreNow())}>
            {formatCountOf(props.preview.hosts, "host")}
          </a>
          , <strong>{formatCount(props.preview.will_change - equal())} would change</strong>
          <Show when={equal() > 0}>
            , {formatCount(equal())} would get other comments or formatting and nothing that
            collectors read
          </Show>
          , {formatCount(props.preview.unchanged)} {props.preview.unchanged === 1 ? "has" : "have"}{" "}
          it assigned already, and {formatCount(props.preview.skipped)} would be skipped.
        </Show>
      </p>
      <Show when={props.preview.in_other_rollouts.length > 0}>
        <p class="preview-warning">
          <Icon name="warning" />
          <span>
            A rollout to these hosts would be refused, because another one has some of them:{" "}
            <For each={props.preview.in_other_rollouts}>
              {({ rollout_id: id, hosts }, index) => (
                <>
                  {index() === 0 ? "" : ", "}
                  {formatCountOf(hosts, "host")} in <a href={`/rollouts/${id}`}>{id.slice(-12)}</a>
                </>
              )}
            </For>
            .
          </span>
        </p>
      </Show>
      <Show when={props.preview.unparsable.length > 0}>
        <p class="preview-warning">
          <Icon name="warning" />
          <span>These versions have rejected the config:</span>
        </p>
        <ul>
          <For each={props.preview.unparsable}>
            {({ version, hosts, errors }) => (
              <li>
                <code>{plainText(version)}</code>, {formatCountOf(hosts, "host")}:{" "}
                {plainText(errors.join("; "))}
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={props.preview.from.length > 0}>
        <h3>What they have now</h3>
        <ul class="preview-from">
          <For each={props.preview.from}>
            {({ config, hosts, diff }) => (
              <li>
                {formatCountOf(hosts, "host")}:{" "}
                <Show when={config} fallback="no config assigned by core">
                  {(before) => (
                    <>
                      <a href={`/configs/${before().id}`}>{plainText(configName(before()))}</a>{" "}
                      <code title={before().config_hash}>{before().config_hash.slice(0, 6)}</code>
                      {isEqual(before()) ? ", only comments or formatting differ" : ""}
                      <Show
                        when={diff}
                        fallback={
                          <>
                            ,{" "}
                            <a href={`/configs/${props.preview.config.id}?compare=${before().id}`}>
                              compare
                            </a>
                          </>
                        }
                      >
                        {(text) => (
                          <details>
                            <summary>
                              Changes
                              <span class="visually-hidden">
                                {" "}
                                from {plainText(configName(before()))}
                              </span>
                            </summary>
                            <Patch text={text()} />
                          </details>
                        )}
                      </Show>
                    </>
                  )}
                </Show>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={props.preview.refused.length > 0}>
        <details>
          <summary>
            {props.preview.skipped > props.preview.refused.length
              ? `The first ${formatCount(props.preview.refused.length)} of ${formatCount(props.preview.skipped)} hosts that would be skipped`
              : `${formatCountOf(props.preview.skipped, "host")} that would be skipped`}
          </summary>
          <ul>
            <For each={props.preview.refused}>
              {({ identity_id: id, identity, reason }) => (
                <li>
                  <a href={`/hosts/${id}`} title={plainText(identity)}>
                    {plainText(deviceOf(identity))}
                  </a>
                  : {targetReasonWords[reason]}
                </li>
              )}
            </For>
          </ul>
        </details>
      </Show>
      <Show when={props.preview.will_change > 0}>
        <p class="command-line">
          <code>{command()}</code>
          <CopyButton text={command()} what="the command that begins this rollout" />
        </p>
      </Show>
    </>
  );
};

/** Returns a query as a word of a POSIX shell that is no option. */
const words = (query: string): string =>
  query.trim() === ""
    ? " --all"
    : `${query.startsWith("-") ? " --" : ""} '${query.replaceAll("'", `'\\''`)}'`;

const kindOf = (line: string): "added" | "removed" | "skipped" | "same" =>
  line.startsWith("+")
    ? "added"
    : line.startsWith("-")
      ? "removed"
      : line.startsWith("@@")
        ? "skipped"
        : "same";

/** A unified diff, without the names of its files. */
const Patch = (props: { text: string }) => (
  <section class="code" aria-label="Changed lines" tabindex="0">
    <ol class="diff-lines">
      <For
        each={props.text
          .slice(Math.max(0, props.text.indexOf("@@")))
          .trimEnd()
          .split("\n")}
      >
        {(line) => <li data-kind={kindOf(line)}>{plainText(line)}</li>}
      </For>
    </ol>
  </section>
);
