import { createMemo, For, Show } from "solid-js";
import { type Rollout, type RolloutTarget, RolloutTargetPage } from "../../../proto/rollout/rollout.ts";
import { targetStatuses } from "../../../proto/rollout/vocabulary.ts";
import { createReport } from "../api/create-report.ts";
import { RecordList } from "../design/record-list.tsx";
import type { RecordColumn } from "../design/record-table.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { Time } from "../shell/time.tsx";
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
  const { api } = usePageContext();
  const listPath = () => `/api/core/collector/rollouts/${props.rollout.id}/targets`;
  const report = createReport({
    api,
    schema: RolloutTargetPage,
    path: createMemo(
      () => `${listPath()}?${new URLSearchParams([...targetsParams(props.view), ["limit", String(pageRows)]])}`,
    ),
    intervalMs: 10_000,
    paused: () => props.paused,
  });
  /** The address with another wave or status, on its first page. */
  const pathOf = (change: {
    wave?: number | undefined;
    status?: TargetsView["status"] | undefined;
    cursor?: string | undefined;
  }) => {
    const { wave, status, cursor } = { ...props.view, cursor: undefined, ...change };
    return targetsPath(props.rollout.id, {
      ...(wave === undefined ? {} : { wave }),
      ...(status === undefined ? {} : { status }),
      ...(cursor === undefined ? {} : { cursor }),
    });
  };
  const counts = () => {
    const { wave } = props.view;
    return wave === undefined ? props.rollout : props.rollout.waves.find(({ number }) => number === wave);
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
          <Show when={row.reason}>{(reason) => <span class="second-line">{targetReasonWords[reason()]}</span>}</Show>
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
    { name: "Assigned", cell: (row) => <TimeOrNot at={row.assigned_at} asOf={report.asOf()} not="not yet" /> },
    {
      name: "Applied",
      cell: (row) => (
        <TimeOrNot at={row.applied_at} asOf={report.asOf()} not={row.assigned_at === null ? "" : "not yet"} />
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
              <Show when={row.detail}>{(detail) => <span class="second-line">{plainText(detail())}</span>}</Show>
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
        <nav class="chips" aria-label="Hosts by wave">
          <a
            class="button"
            href={pathOf({ wave: undefined })}
            aria-current={props.view.wave === undefined ? "true" : undefined}
          >
            All waves
          </a>
          <For each={props.rollout.waves}>
            {({ number }) => (
              <a
                class="button"
                href={pathOf({ wave: number })}
                aria-current={props.view.wave === number ? "true" : undefined}
              >
                Wave {number}
              </a>
            )}
          </For>
        </nav>
      </Show>
      <nav class="chips" aria-label="Hosts by status">
        <a
          class="button"
          href={pathOf({ status: undefined })}
          aria-current={props.view.status === undefined ? "true" : undefined}
        >
          All {formatCount(counts()?.targets ?? 0)}
        </a>
        <For each={targetStatuses.filter((status) => (counts()?.[status] ?? 0) > 0 || props.view.status === status)}>
          {(status) => (
            <a
              class="button"
              href={pathOf({ status })}
              aria-current={props.view.status === status ? "true" : undefined}
            >
              {statusWords[status]} {formatCount(counts()?.[status] ?? 0)}
            </a>
          )}
        </For>
      </nav>
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
        downloads={[{ path: `${listPath()}/export.csv${filterText(props.view)}`, words: "CSV" }]}
        empty={<p class="quiet">No host matches.</p>}
      />
    </section>
  );
};

const filterText = ({ cursor: _, ...view }: TargetsView): string => {
  const params = targetsParams(view);
  return params.size === 0 ? "" : `?${params}`;
};

/** A timestamp, or the words for a host that has none. */
const TimeOrNot = (props: { at: string | null; asOf: number; not: string }) => (
  <Show when={props.at} fallback={<span class="quiet">{props.not}</span>}>
    {(at) => <Time at={at()} asOf={props.asOf} />}
  </Show>
);
