import { useNavigate } from "@solidjs/router";
import { For, Show } from "solid-js";
import {
  ConfigList as ConfigRows,
  type ListedConfig,
  UnstoredConfigs,
} from "../../../proto/fleet-health/config-report.ts";
import { createReport } from "../api/live-report.tsx";
import { Icon } from "../design/parts.tsx";
import { type RecordColumn, RecordList } from "../design/records.tsx";
import { Loaded, OldNotice } from "../design/report-parts.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { createAddressPage, PageHead, TimeCell } from "../shell/page.tsx";
import { HostFigure, ProgressBar, ProgressSentence } from "./progress-parts.tsx";
import { configName, runningPath } from "./progress-view.ts";
import "../design/page.css";

const pageRows = 100;
const refreshIntervalMs = 15_000;

/** `/configs`: the published configs, newest first, and how far the hosts of each are. */
export const ConfigsPage = () => {
  const navigate = useNavigate();
  const { report, params, csvPath, paused, list, head } = createAddressPage({
    title: "Configs",
    path: "/configs",
    source: "/api/core/collector/configs",
    schema: ConfigRows,
    intervalMs: refreshIntervalMs,
    limit: pageRows,
  });
  const text = () => params().get("q") ?? "";
  const columns: readonly RecordColumn<ListedConfig>[] = [
    {
      name: "Config",
      cell: (config) => (
        <>
          <a class="config-name" href={`/configs/${config.id}`}>
            {plainText(configName(config))}
          </a>
          <Show when={config.name !== null}>
            <span class="second-line mono" title={config.config_hash}>
              {config.config_hash.slice(0, 12)}
            </span>
          </Show>
        </>
      ),
    },
    {
      name: "Published",
      cell: (config) => (
        <TimeCell
          at={config.created_at}
          asOf={report.asOf()}
          second={config.created_by_email ?? config.created_by}
        />
      ),
    },
    {
      name: "Progress",
      cell: (config) => (
        <>
          <Show when={config.hosts.desired > 0}>
            <ProgressBar hosts={config.hosts} />
          </Show>
          <ProgressSentence hosts={config.hosts} hash={config.config_hash} />
        </>
      ),
    },
    ...(["desired", "running", "drifted", "failed", "silent"] as const).map(
      (figure): RecordColumn<ListedConfig> => ({
        name: `${figure.charAt(0).toUpperCase()}${figure.slice(1)}`,
        isNumber: true,
        cell: (config) => (
          <HostFigure
            hosts={config.hosts}
            figure={figure}
            hash={config.config_hash}
            of={`hosts ${figure}, ${plainText(configName(config))}`}
          />
        ),
      }),
    ),
  ];
  return (
    <div class="page">
      <PageHead {...head()} />
      <form
        class="search-form"
        onSubmit={(event) => {
          event.preventDefault();
          const wanted = String(new FormData(event.currentTarget).get("q") ?? "").trim();
          navigate(wanted === "" ? "/configs" : `/configs?${new URLSearchParams({ q: wanted })}`);
        }}
      >
        <input
          class="input"
          type="search"
          name="q"
          value={text()}
          maxlength="120"
          aria-label="Name, or the beginning of a hash"
          placeholder="Name, or the beginning of a hash"
          autocomplete="off"
        />
        <button class="button" type="submit">
          <Icon name="search" /> Find
        </button>
      </form>
      <RecordList
        {...list()}
        label="Configs, newest first"
        columns={columns}
        noun="config"
        downloads={[{ path: csvPath(), words: "CSV" }]}
        empty={
          <section class="notice">
            <h2>{text() === "" ? "No config has been published" : "No config matches"}</h2>
            <p>
              {text() === ""
                ? "An administrator publishes configs through the API. Hosts may still run configs of their own, below."
                : "Search for a part of the name, or for the first characters of the hash."}
            </p>
            <Show when={text() !== ""}>
              <a class="button" href="/configs">
                Show all configs
              </a>
            </Show>
          </section>
        }
      />
      <Unstored paused={paused()} />
    </div>
  );
};

/** The hashes that hosts run and nobody published. */
const Unstored = (props: { paused: boolean }) => {
  const report = createReport({
    schema: UnstoredConfigs,
    path: () => "/api/core/collector/configs/unstored",
    intervalMs: refreshIntervalMs,
    paused: () => props.paused,
  });
  const found = () => report.answer()?.value;
  return (
    <section class="panel config-panel" aria-labelledby="unstored">
      <h2 id="unstored">Running, never published</h2>
      <OldNotice report={report} what="These hashes are" paused={props.paused} />
      <Loaded report={report} what="hashes" value={found()}>
        {(known) => (
          <Show
            when={known().hashes > 0}
            fallback={
              <p class="quiet">Every config that a host reports has been published here.</p>
            }
          >
            <p>
              {formatCountOf(known().hashes, "hash", "hashes")} that hosts run and core never
              stored: configs that were written on the host.
              <Show when={known().hashes > known().items.length}>
                {" "}
                The {formatCount(known().items.length)} with the most hosts:
              </Show>
            </p>
            <ul>
              <For each={known().items}>
                {(item) => (
                  <li>
                    <a href={runningPath(item.config_hash)}>
                      {formatCountOf(item.running, "host")}
                    </a>{" "}
                    <code title={item.config_hash}>{item.config_hash.slice(0, 12)}</code>
                  </li>
                )}
              </For>
            </ul>
          </Show>
        )}
      </Loaded>
    </section>
  );
};
