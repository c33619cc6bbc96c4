import { useNavigate } from "@solidjs/router";
import { Show } from "solid-js";
import {
  ConfigList as ConfigRows,
  type ListedConfig,
  UnstoredConfigs,
} from "#proto/fleet-health/config-report.ts";
import { agentKinds } from "#proto/values.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { SearchForm } from "../design/filter-form.tsx";
import { RecordList } from "../design/record-list.tsx";
import { type RecordColumns, RecordLink } from "../design/record-table.tsx";
import { List, Loaded, Section } from "../design/report-parts.tsx";
import { capitalised, formatCount, formatCountOf, plainText } from "../format/format.ts";
import { createListPage, PageFrame, TimeCell } from "../shell/page.tsx";
import { HostFigure, ProgressBar, ProgressSentence } from "./progress-parts.tsx";
import { configName, runningPath } from "./progress-view.ts";

const refreshIntervalMs = 15_000;

const columns: RecordColumns<ListedConfig> = {
  Config: (config) => (
    <>
      <RecordLink href={`/changes/configs/${config.id}`}>
        {plainText(configName(config))}
      </RecordLink>
      <Show when={config.name !== null}>
        <span class="second-line mono" title={config.config_hash}>
          {config.config_hash.slice(0, 12)}
        </span>
      </Show>
    </>
  ),
  For: ({ kind }) => kind,
  Published: ({ created_at: at, created_by_email: email, created_by: by }) => (
    <TimeCell at={at} second={email ?? by} />
  ),
  Progress: (config) => (
    <>
      <Show when={config.hosts.desired > 0}>
        <ProgressBar hosts={config.hosts} />
      </Show>
      <ProgressSentence hosts={config.hosts} hash={config.config_hash} />
    </>
  ),
  ...Object.fromEntries(
    (["desired", "running", "drifted", "failed", "silent"] as const).map((figure) => [
      capitalised(figure),
      {
        isNumber: true as const,
        cell: (config: ListedConfig) => (
          <HostFigure
            config={config}
            figure={figure}
            of={`hosts ${figure}, ${plainText(configName(config))}`}
          />
        ),
      },
    ]),
  ),
};

const kinds = { All: null, ...Object.fromEntries(agentKinds.map((kind) => [kind, kind])) };

/** `/changes/configs`: the published configs, newest first, and how far the hosts of each are. */
export const ConfigsPage = () => {
  const navigate = useNavigate();
  const { page, params, chips, list } = createListPage({
    path: "/changes/configs",
    schema: ConfigRows,
    intervalMs: refreshIntervalMs,
    limit: 100,
  });
  return (
    <PageFrame of={page}>
      <SearchForm
        button="Find"
        onSearch={(q) => navigate(withQuery("/changes/configs", { q }))}
        value={params().get("q") ?? ""}
        maxlength={120}
        aria-label="Name, or the beginning of a hash"
        placeholder="Name, or the beginning of a hash"
      />
      <RecordList
        {...list()}
        filters={{ "Configs by agent": chips("kind", kinds) }}
        label="Configs, newest first"
        columns={columns}
        noun="config"
        exports={{ csv: "CSV" }}
        first={{
          title: "No config has been published",
          says: "A published config can be assigned to hosts, and rolled out in waves. Hosts may still run configs of their own, below.",
          command: 'svc-admin configs publish collector.yaml --name "first config"',
        }}
      />
      <Unstored />
    </PageFrame>
  );
};

/** The hashes that hosts run and nobody published. */
const Unstored = () => {
  const report = createReport({
    schema: UnstoredConfigs,
    path: () => "/api/core/collector/configs/unstored",
    intervalMs: refreshIntervalMs,
  });
  return (
    <Section class="panel" id="unstored" title="Running, never published">
      <Loaded report={report} what="hashes">
        {(known) => (
          <Show
            when={known().hashes > 0}
            fallback={
              <p class="quiet">Every config that a host reports has been published here.</p>
            }
          >
            <p>
              {formatCountOf(known().hashes, "hash", "hashes")} that hosts run and core never
              stored: written on the host.
              <Show when={known().hashes > known().items.length}>
                {" "}
                The {formatCount(known().items.length)} with the most hosts:
              </Show>
            </p>
            <List of={known().items}>
              {(item) => (
                <>
                  <a href={runningPath(item.config_hash)}>{formatCountOf(item.running, "host")}</a>{" "}
                  <code title={item.config_hash}>{item.config_hash.slice(0, 12)}</code>
                </>
              )}
            </List>
          </Show>
        )}
      </Loaded>
    </Section>
  );
};
