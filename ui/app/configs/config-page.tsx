import { useLocation } from "@solidjs/router";
import { createMemo, For, Show } from "solid-js";
import {
  type AssignmentBatch,
  AssignmentPage,
  type ConfigAssignment,
  ConfigDetail,
} from "#proto/fleet-health/config-report.ts";
import type { ConfigProgress } from "#proto/fleet-health/vocabulary.ts";
import { withQuery } from "../browser/with-query.ts";
import { BarFigure } from "../design/bars.tsx";
import { CopyButton } from "../design/buttons.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { RecordList } from "../design/record-list.tsx";
import { CountLink, HostCell, type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { Loading, Section } from "../design/report-parts.tsx";
import { capitalised, formatBytes, formatCount, plainText } from "../format/format.ts";
import { RolloutsOf } from "../rollouts/rollout-parts.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { createListPart, RecordPage, Time, TimeCell } from "../shell/page.tsx";
import { ConfigText } from "./config-text.tsx";
import { Preview } from "./preview.tsx";
import { HostFigure, ProgressBar, ProgressSentence } from "./progress-parts.tsx";
import { barParts, configName, figureMeanings } from "./progress-view.ts";

const progressWords: Record<ConfigProgress, string> = {
  running: "runs it",
  drifted: "runs another config",
  failed: "reports it as invalid",
  silent: "silent",
};

const columns: RecordColumns<ConfigAssignment> = {
  Host: (row) => <HostCell of={row} />,
  Assigned: (row) => <Time at={row.assigned_at} />,
  By: (row) => row.assigned_by_email ?? row.assigned_by,
  Now: (row) => (
    <Show
      when={row.ended_at}
      fallback={
        row.progress === null ? <span class="quiet">revoked</span> : progressWords[row.progress]
      }
    >
      {(at) => (
        <span class="quiet">
          ended <Time at={at()} />
        </span>
      )}
    </Show>
  ),
  Applied: ({ applied_at: at, ended_at: end }) => (
    <TimeCell at={at} none={end === null ? "not yet" : ""} />
  ),
};

/** The hosts to which a config was assigned, newest first, under the filter of the address. */
const Assignments = (props: { configId: string }) => {
  const { times } = usePageContext();
  const { params, pathOf, chips, list } = createListPart(() => ({
    path: `/changes/configs/${props.configId}`,
    limit: 25,
    anchor: "assignments",
    foreign: ["compare", "preview"],
    schema: AssignmentPage,
    intervalMs: 15_000,
  }));
  return (
    <Section id="assignments" title="Assigned hosts">
      <Show when={params().get("since")}>
        {(since) => (
          <p>
            Assigned in the minute of {times.text(since())}.{" "}
            <a href={pathOf({ since: null, until: null, assigned_by: null })}>Show all times</a>
          </p>
        )}
      </Show>
      <RecordList
        {...list()}
        filters={{
          "Assignments by state": chips("current", {
            All: null,
            "Still assigned": "true",
            Ended: "false",
          }),
        }}
        label="Assigned hosts, newest first"
        columns={columns}
        noun="assignment"
        exports={{ csv: "CSV" }}
      />
    </Section>
  );
};

// Loaded on demand: most visits compare nothing.
const ConfigDiff = lazyPart(
  "The comparison",
  async () => (await import("./config-diff-view.tsx")).ConfigDiffView,
  Loading,
);

/** `/changes/configs/{id}`: one published config, how far its hosts are and which are left, its assignments, text and diffs. */
export const ConfigPage = () => {
  const location = useLocation();
  const compared = createMemo(
    () => new URLSearchParams(location.search).get("compare") ?? undefined,
  );
  return (
    <RecordPage
      noun="config"
      allPath="/changes/configs"
      schema={ConfigDetail}
      intervalMs={15_000}
      titleOf={(config) => plainText(configName(config))}
    >
      {(known) => (
        <>
          <ConfigHead config={known()} />
          <Progress config={known()} />
          <Section id="rollouts" title="Rollouts in waves">
            <RolloutsOf
              of="config_id"
              id={known().id}
              what="this config"
              none="This config has not been rolled out in waves."
            />
          </Section>
          <Preview configId={known().id} />
          <Batches config={known()} />
          <Show
            when={compared()}
            fallback={<ConfigText yaml={known().yaml} configId={known().id} />}
          >
            {(other) => <ConfigDiff config={known()} otherId={other()} />}
          </Show>
          <Assignments configId={known().id} />
        </>
      )}
    </RecordPage>
  );
};

/** The hash of the config, and who published it. */
const ConfigHead = (props: { config: ConfigDetail }) => (
  <div class="stack gap-1">
    <p class="copied">
      <code>{props.config.config_hash}</code>
      <CopyButton text={props.config.config_hash} what="the hash" />
    </p>
    <p class="quiet">
      Published <Time at={props.config.created_at} /> by{" "}
      {props.config.created_by_email ?? props.config.created_by} ·{" "}
      {formatBytes(props.config.size_bytes)} · for {props.config.kind} ·{" "}
      <a href={withQuery("/changes/audit", { target: props.config.id })}>audit events</a>
    </p>
  </div>
);

/** The progress of the config: whether all of its hosts run it, and every figure as a link to its hosts. */
const Progress = (props: { config: ConfigDetail }) => {
  const hosts = () => props.config.hosts;
  const figure = (name: Parameters<typeof HostFigure>[0]["figure"], of: string) => (
    <HostFigure config={props.config} figure={name} of={of} />
  );
  return (
    <Section class="panel" id="progress" title="Do all hosts run it?">
      <p>
        <ProgressSentence hosts={hosts()} hash={props.config.config_hash} />
      </p>
      <Show when={hosts().desired > 0}>
        <ProgressBar hosts={hosts()} />
      </Show>
      <dl class="bar-figures">
        <BarFigure name="Desired by" about="hosts that are not revoked">
          {figure("desired", "hosts should run it")}
        </BarFigure>
        <For each={barParts}>
          {(name) => (
            <BarFigure
              name={capitalised(name)}
              part={name}
              about={
                <>
                  {figureMeanings[name]}
                  <Show when={name === "silent" && hosts().silent_running > 0}>
                    {"; "}
                    {figure("silent_running", "silent hosts last reported this config")} last
                    reported this one
                  </Show>
                </>
              }
            >
              {figure(name, `hosts ${name}`)}
            </BarFigure>
          )}
        </For>
        <BarFigure name="Running elsewhere" about="run it and should not">
          {figure("undesired", "hosts run it and should not")}
        </BarFigure>
      </dl>
    </Section>
  );
};

/** When the config was assigned, by whom and to how many hosts. */
const Batches = (props: { config: ConfigDetail }) => {
  const pathOf = ({ from, until, assigned_by }: AssignmentBatch, current?: "true") =>
    `${withQuery(`/changes/configs/${props.config.id}`, { since: from, until, assigned_by, current })}#assignments`;
  const columns: RecordColumns<AssignmentBatch> = {
    Assigned: (batch) => <Time at={batch.from} />,
    By: (batch) => batch.assigned_by_email ?? batch.assigned_by,
    Hosts: {
      isNumber: true,
      cell: (batch) => <a href={pathOf(batch)}>{formatCount(batch.assigned)}</a>,
    },
    "Still assigned": {
      isNumber: true,
      cell: (batch) => <CountLink count={batch.current} href={pathOf(batch, "true")} />,
    },
  };
  return (
    <Section id="history" title="Assignment history">
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
    </Section>
  );
};
