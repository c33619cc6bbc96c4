import { createMemo, Show } from "solid-js";
import {
  type Rollout,
  type RolloutTarget,
  RolloutTargetPage,
} from "../../../proto/rollout/rollout.ts";
import { targetStatuses } from "../../../proto/rollout/vocabulary.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/page.tsx";
import {
  conditionWords,
  statusWords,
  type TargetsView,
  targetReasonWords,
  targetsParams,
  targetsPath,
} from "./rollout-view.ts";

const pageRows = 100;

/** The hosts of a rollout in the order of the waves, under the filter of the address. */
export const Targets = (props: { rollout: Rollout; view: TargetsView; paused: boolean }) => {
  const listPath = () => `/api/core/collector/rollouts/${props.rollout.id}/targets`;
  const report = createReport({
    schema: RolloutTargetPage,
    path: createMemo(
      () =>
        `${listPath()}?${new URLSearchParams([...targetsParams(props.view), ["limit", String(pageRows)]])}`,
    ),
    intervalMs: 10_000,
    paused: () => props.paused,
  });
  /** The address with another wave or status, on its first page. */
  const pathOf = (change: TargetsView) =>
    targetsPath(props.rollout.id, { ...props.view, cursor: undefined, ...change });
  const counts = () => {
    const { wave } = props.view;
    return wave === undefined
      ? props.rollout
      : props.rollout.waves.find(({ number }) => number === wave);
  };
  const columns: readonly RecordColumn<RolloutTarget>[] = [
    {
      name: "Host",
      cell: (row) => (
        <>
          <a class="rollout-name" href={`/hosts/${row.identity_id}`}>
            {plainText(row.device_id)}
          </a>
          <span class="second-line">{plainText(row.identity)}</span>
        </>
      ),
    },
    { name: "Wave", cell: (row) => row.wave },
    {
      name: "Status",
      cell: (row) => (
        <>
          <strong>{statusWords[row.status]}</strong>
          <Show when={row.reason}>
            {(reason) => <span class="second-line">{targetReasonWords[reason()]}</span>}
          </Show>
          <Show when={row.reverted_at}>
            {(at) => (
              <span class="second-line">
                <Time at={at()} asOf={report.asOf()} />
              </span>
            )}
          </Show>
        </>
      ),
    },
    {
      name: "Assigned",
      cell: (row) => <TimeCell at={row.assigned_at} asOf={report.asOf()} none="not yet" />,
    },
    {
      name: "Applied",
      cell: (row) => (
        <TimeCell
          at={row.applied_at}
          asOf={report.asOf()}
          none={row.assigned_at === null ? "" : "not yet"}
        />
      ),
    },
    {
      name: "Failed",
      cell: (row) => (
        <Show when={row.condition}>
          {(condition) => (
            <>
              {conditionWords[condition()]}
              <Show when={row.condition_began_at}>
                {(at) => (
                  <>
                    {" "}
                    since <Time at={at()} asOf={report.asOf()} />
                  </>
                )}
              </Show>
              <Show when={row.detail}>
                {(detail) => <span class="second-line">{plainText(detail())}</span>}
              </Show>
            </>
          )}
        </Show>
      ),
    },
  ];
  return (
    <section class="rollout-part" aria-labelledby="targets">
      <h2 id="targets">Hosts</h2>
      <Show when={props.rollout.waves.length > 1}>
        <Chips
          label="Hosts by wave"
          chips={[undefined, ...props.rollout.waves.map(({ number }) => number)].map((wave) => ({
            words: wave === undefined ? "All waves" : `Wave ${wave}`,
            path: pathOf({ wave }),
            isChosen: props.view.wave === wave,
          }))}
        />
      </Show>
      <Chips
        label="Hosts by status"
        chips={[
          {
            words: `All ${formatCount(counts()?.targets ?? 0)}`,
            path: pathOf({ status: undefined }),
            isChosen: props.view.status === undefined,
          },
          ...targetStatuses
            .filter((status) => (counts()?.[status] ?? 0) > 0 || props.view.status === status)
            .map((status) => ({
              words: `${statusWords[status]} ${formatCount(counts()?.[status] ?? 0)}`,
              path: pathOf({ status }),
              isChosen: props.view.status === status,
            })),
        ]}
      />
      <RecordList
        report={report}
        part={props}
        label="Hosts in the order of the waves"
        columns={columns}
        isFailed={({ status }) => status === "failed"}
        noun="host"
        order="first to last"
        isContinued={props.view.cursor !== undefined}
        pathOf={(cursor) => pathOf({ cursor })}
        allPath={`/rollouts/${props.rollout.id}`}
        downloads={[
          {
            path: withQuery(
              `${listPath()}/export.csv`,
              targetsParams({ ...props.view, cursor: undefined }),
            ),
            words: "CSV",
          },
        ]}
        empty={<p class="quiet">No host matches.</p>}
      />
    </section>
  );
};
