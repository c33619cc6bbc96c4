import { Show } from "solid-js";
import {
  AssignmentPage,
  type ConfigAssignment,
} from "../../../proto/fleet-health/config-report.ts";
import type { ConfigProgress } from "../../../proto/fleet-health/vocabulary.ts";
import { createReport, useUpdates } from "../api/live-report.tsx";
import { Chips, HostCell, type RecordColumn, RecordList } from "../design/records.tsx";
import { Section } from "../design/report-parts.tsx";
import { formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createAddressList, Time, TimeCell } from "../shell/page.tsx";

const progressWords: Record<ConfigProgress, string> = {
  running: "runs it",
  drifted: "runs another config",
  failed: "reports it as invalid",
  silent: "silent",
};

const columns: readonly RecordColumn<ConfigAssignment>[] = [
  {
    name: "Host",
    cell: (row) => <HostCell id={row.identity_id} device={row.device_id} identity={row.identity} />,
  },
  { name: "Assigned", cell: (row) => <Time at={row.assigned_at} /> },
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
            ended <Time at={at()} />
          </span>
        )}
      </Show>
    ),
  },
  {
    name: "Applied",
    cell: ({ applied_at: at, ended_at: end }) => (
      <TimeCell at={at} none={end === null ? "not yet" : ""} />
    ),
  },
];

/** The hosts to which a config was assigned, newest first, under the filter of the address. */
export const Assignments = (props: { configId: string }) => {
  const { times } = usePageContext();
  const { params, pathOf, chip, sourcePath, exportPath, list } = createAddressList(() => ({
    path: `/configs/${props.configId}`,
    source: `/api/core/collector/configs/${props.configId}/assignments`,
    limit: 25,
    anchor: "assignments",
    foreign: ["compare", "preview"],
  }));
  const report = createReport({
    schema: AssignmentPage,
    path: sourcePath,
    intervalMs: 15_000,
    paused: useUpdates().paused,
  });
  return (
    <Section id="assignments" title="Assigned hosts">
      <Chips
        label="Assignments by state"
        chips={[
          chip("All", { current: null }),
          chip("Still assigned", { current: "true" }),
          chip("Ended", { current: "false" }),
        ]}
      />
      <Show when={params().get("since")}>
        {(since) => (
          <p>
            Assigned in the minute of {formatTimestamp(since(), times.zone())}.{" "}
            <a href={pathOf({ since: null, until: null, assigned_by: null })}>Show all times</a>
          </p>
        )}
      </Show>
      <RecordList
        {...list()}
        report={report}
        isPart
        label="Assigned hosts, newest first"
        columns={columns}
        noun="assignment"
        downloads={[{ path: exportPath(), words: "CSV" }]}
        empty={<p class="quiet">No assignment matches.</p>}
      />
    </Section>
  );
};
