import { useLocation, useParams } from "@solidjs/router";
import { createMemo, createSignal, ErrorBoundary, For, lazy, Show, Suspense } from "solid-js";
import { type AssignmentBatch, ConfigDetail } from "../../../proto/fleet-health/config-report.ts";
import { createReport } from "../api/live-report.tsx";
import { CopyButton } from "../design/parts.tsx";
import { type RecordColumn, RecordTable } from "../design/records.tsx";
import { Loaded, PartFailed } from "../design/report-parts.tsx";
import { BarKey } from "../design/stacked-bar.tsx";
import { formatBytes, formatCount, plainText } from "../format/format.ts";
import { RolloutsOf } from "../rollouts/rollouts-of.tsx";
import { PageHead, Time } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { Assignments } from "./assignments.tsx";
import { ConfigText } from "./config-text.tsx";
import { Preview } from "./preview.tsx";
import { HostFigure, ProgressBar, ProgressSentence } from "./progress-parts.tsx";
import { barParts, configName, figureMeanings } from "./progress-view.ts";
import "../design/page.css";

const refreshIntervalMs = 15_000;

// Loaded on demand: most visits compare nothing.
const ConfigDiff = lazy(async () => ({
  default: (await import("./config-diff-view.tsx")).ConfigDiffView,
}));

/** `/configs/{id}`: one published config, how far its hosts are and which are left, its assignments, text and diffs. */
export const ConfigPage = () => {
  const route = useParams<{ id: string }>();
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  const report = createReport({
    schema: ConfigDetail,
    path: createMemo(() => `/api/core/collector/configs/${encodeURIComponent(route.id)}`),
    intervalMs: refreshIntervalMs,
    paused,
  });
  const config = () => report.answer()?.value;
  const named = () => {
    const known = config();
    return known === undefined ? undefined : plainText(configName(known));
  };
  createPageTitle(() => named() ?? "Config");
  const compared = createMemo(
    () => new URLSearchParams(location.search).get("compare") ?? undefined,
  );
  return (
    <div class="page">
      <PageHead title={named() ?? "Config"} report={report} paused={paused()} onPause={setPaused} />
      <Loaded
        report={report}
        what="config"
        heading
        missing="No such config"
        instead={{ href: "/configs", words: "Show all configs" }}
        value={config()}
      >
        {(known) => (
          <>
            <div class="config-head">
              <p class="config-hash">
                <code>{known().config_hash}</code>
                <CopyButton text={known().config_hash} what="the hash" />
              </p>
              <p class="quiet">
                Published <Time at={known().created_at} asOf={report.asOf()} /> by{" "}
                {known().created_by_email ?? known().created_by} · {formatBytes(known().size_bytes)}{" "}
                · <a href={`/audit?${new URLSearchParams({ target: known().id })}`}>audit events</a>
              </p>
            </div>
            <Progress config={known()} />
            <section class="config-panel" aria-labelledby="rollouts">
              <h2 id="rollouts">Rollouts in waves</h2>
              <RolloutsOf
                of="config_id"
                id={known().id}
                what="this config"
                none="This config has not been rolled out in waves."
              />
            </section>
            <Preview configId={known().id} />
            <Batches config={known()} asOf={report.asOf()} />
            <Show
              when={compared()}
              fallback={<ConfigText yaml={known().yaml} configId={known().id} />}
            >
              {(other) => (
                <ErrorBoundary fallback={<PartFailed what="The comparison" />}>
                  <Suspense fallback={<p class="page-loading">Loading</p>}>
                    <ConfigDiff config={known()} otherId={other()} />
                  </Suspense>
                </ErrorBoundary>
              )}
            </Show>
            <Assignments configId={known().id} paused={paused()} />
          </>
        )}
      </Loaded>
    </div>
  );
};

/** The progress of the config: whether all of its hosts run it, and every figure as a link to its hosts. */
const Progress = (props: { config: ConfigDetail }) => {
  const hosts = () => props.config.hosts;
  const figure = (name: Parameters<typeof HostFigure>[0]["figure"], of: string) => (
    <HostFigure hosts={hosts()} figure={name} hash={props.config.config_hash} of={of} />
  );
  return (
    <section class="panel config-panel" aria-labelledby="progress">
      <h2 id="progress">Do all hosts run it?</h2>
      <p>
        <ProgressSentence hosts={hosts()} hash={props.config.config_hash} />
      </p>
      <Show when={hosts().desired > 0}>
        <ProgressBar hosts={hosts()} />
      </Show>
      <dl class="bar-figures">
        <div>
          <dt>Desired by</dt>
          <dd>
            {figure("desired", "hosts should run it")}
            <small>hosts that are not revoked</small>
          </dd>
        </div>
        <For each={barParts}>
          {(name) => (
            <div>
              <dt>
                <BarKey part={name} />
                {`${name.charAt(0).toUpperCase()}${name.slice(1)}`}
              </dt>
              <dd>
                {figure(name, `hosts ${name}`)}
                <small>
                  {figureMeanings[name]}
                  <Show when={name === "silent" && hosts().silent_running > 0}>
                    {"; "}
                    {figure("silent_running", "silent hosts last reported this config")} last
                    reported this one
                  </Show>
                </small>
              </dd>
            </div>
          )}
        </For>
        <div>
          <dt>Running elsewhere</dt>
          <dd>
            {figure("undesired", "hosts run it and should not")}
            <small>run it, and another or none is desired</small>
          </dd>
        </div>
      </dl>
    </section>
  );
};

/** When the config was assigned, by whom and to how many hosts. */
const Batches = (props: { config: ConfigDetail; asOf: number }) => {
  const pathOf = (batch: AssignmentBatch, more: Readonly<Record<string, string>> = {}) =>
    `/configs/${props.config.id}?${new URLSearchParams({ since: batch.from, until: batch.until, assigned_by: batch.assigned_by, ...more })}#assignments`;
  const columns: readonly RecordColumn<AssignmentBatch>[] = [
    { name: "Assigned", cell: (batch) => <Time at={batch.from} asOf={props.asOf} /> },
    { name: "By", cell: (batch) => batch.assigned_by_email ?? batch.assigned_by },
    {
      name: "Hosts",
      isNumber: true,
      cell: (batch) => <a href={pathOf(batch)}>{formatCount(batch.assigned)}</a>,
    },
    {
      name: "Still assigned",
      isNumber: true,
      cell: (batch) => (
        <Show when={batch.current > 0} fallback={<span class="quiet">0</span>}>
          <a href={pathOf(batch, { current: "true" })}>{formatCount(batch.current)}</a>
        </Show>
      ),
    },
  ];
  return (
    <section class="config-panel" aria-labelledby="history">
      <h2 id="history">Assignment history</h2>
      <Show
        when={props.config.batches.length > 0}
        fallback={<p class="quiet">It has not been assigned to any host.</p>}
      >
        <RecordTable
          label="Assignments by minute and person, newest first"
          columns={columns}
          rows={props.config.batches}
        />
      </Show>
    </section>
  );
};
