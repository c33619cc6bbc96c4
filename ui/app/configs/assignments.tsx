import { useLocation } from "@solidjs/router";
import { createMemo, Show } from "solid-js";
import {
  AssignmentPage,
  type ConfigAssignment,
} from "../../../proto/fleet-health/config-report.ts";
import type { ConfigProgress } from "../../../proto/fleet-health/vocabulary.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { formatTimestamp, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { Time, TimeCell } from "../shell/page.tsx";

const pageRows = 25;

const progressWords: Record<ConfigProgress, string> = {
  running: "runs it",
  drifted: "runs another config",
  failed: "reports it as invalid",
  silent: "silent",
};

/** The parameters of the address that belong to other parts of the page. */
const foreign = ["chat", "compare", "preview"];

/** The hosts to which a config was assigned, newest first, under the filter of the address. */
export const Assignments = (props: { configId: string; paused: boolean }) => {
  const { times } = usePageContext();
  const location = useLocation();
  const params = createMemo(() => {
    const given = new URLSearchParams(location.search);
    for (const name of foreign) given.delete(name);
    return given;
  });
  const listPath = () => `/api/core/collector/configs/${props.configId}/assignments`;
  const report = createReport({
    schema: AssignmentPage,
    path: createMemo(
      () => `${listPath()}?${new URLSearchParams([...params(), ["limit", String(pageRows)]])}`,
    ),
    intervalMs: 15_000,
    paused: () => props.paused,
  });
  /** The address with a change of the filter, on its first page. */
  const pathOf = (change: Readonly<Record<string, string | undefined>>) => {
    const next = new URLSearchParams(params());
    next.delete("cursor");
    for (const [name, value] of Object.entries(change)) {
      if (value === undefined) next.delete(name);
      else next.set(name, value);
    }
    return `${withQuery(`/configs/${props.configId}`, next)}#assignments`;
  };
  const exportPath = () => {
    const filters = new URLSearchParams(params());
    filters.delete("cursor");
    return withQuery(`${listPath()}/export.csv`, filters);
  };
  const current = () => params().get("current") ?? undefined;
  const columns: readonly RecordColumn<ConfigAssignment>[] = [
    {
      name: "Host",
      cell: (row) => (
        <>
          <a class="config-name" href={`/hosts/${row.identity_id}`}>
            {plainText(row.device_id)}
          </a>
          <span class="second-line">{plainText(row.identity)}</span>
        </>
      ),
    },
    { name: "Assigned", cell: (row) => <Time at={row.assigned_at} asOf={report.asOf()} /> },
    { name: "By", cell: (row) => row.assigned_by_email ?? row.assigned_by },
    {
      name: "Now",
      cell: (row) => (
        <Show
          when={row.ended_at}
          fallback={
            row.progress === null ? <span class="quiet">revoked</span> : progressWords[row.progress]
          }
        >
          {(at) => (
            <span class="quiet">
              ended <Time at={at()} asOf={report.asOf()} />
            </span>
          )}
        </Show>
      ),
    },
    {
      name: "Applied",
      cell: ({ applied_at: at, ended_at: end }) => (
        <TimeCell at={at} asOf={report.asOf()} none={end === null ? "not yet" : ""} />
      ),
    },
  ];
  const chips = [
    { words: "All", value: undefined },
    { words: "Still assigned", value: "true" },
    { words: "Ended", value: "false" },
  ];
  return (
    <section class="config-panel" aria-labelledby="assignments">
      <h2 id="assignments">Assigned hosts</h2>
      <Chips
        label="Assignments by state"
        chips={chips.map(({ words, value }) => ({
          words,
          path: pathOf({ current: value }),
          isChosen: current() === value,
        }))}
      />
      <Show when={params().get("since")}>
        {(since) => (
          <p>
            Assigned in the minute of {formatTimestamp(since(), times.zone())}.{" "}
            <a href={pathOf({ since: undefined, until: undefined, assigned_by: undefined })}>
              Show all times
            </a>
          </p>
        )}
      </Show>
      <RecordList
        report={report}
        part={props}
        label="Assigned hosts, newest first"
        columns={columns}
        noun="assignment"
        isContinued={params().has("cursor")}
        pathOf={(cursor) => pathOf({ cursor })}
        allPath={`/configs/${props.configId}`}
        downloads={[{ path: exportPath(), words: "CSV" }]}
        empty={<p class="quiet">No assignment matches.</p>}
      />
    </section>
  );
};
