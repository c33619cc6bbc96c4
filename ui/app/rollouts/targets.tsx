import { Show } from "solid-js";
import { type Rollout, type RolloutTarget, RolloutTargetPage } from "#proto/rollout/rollout.ts";
import { type TargetStatus, targetStatuses } from "#proto/rollout/vocabulary.ts";
import { RecordList } from "../design/record-list.tsx";
import { HostCell, type RecordColumns, TwoLines } from "../design/record-table.tsx";
import { Section } from "../design/report-parts.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { createListPart, Time, TimeCell } from "../shell/page.tsx";
import { conditionWords, statusWords, targetReasonWords } from "./rollout-view.ts";

const columns: RecordColumns<RolloutTarget> = {
  Host: (row) => <HostCell of={row} />,
  Wave: (row) => row.wave,
  Status: (row) => (
    <TwoLines second={row.reverted_at && <Time at={row.reverted_at} />}>
      <TwoLines second={row.reason && targetReasonWords[row.reason]}>
        <strong>{statusWords(row.status)}</strong>
      </TwoLines>
    </TwoLines>
  ),
  Assigned: ({ assigned_at: at }) => <TimeCell at={at} none="not yet" />,
  Applied: ({ applied_at: at, assigned_at: assigned }) => (
    <TimeCell at={at} none={assigned === null ? "" : "not yet"} />
  ),
  Failed: (row) => (
    <Show when={row.condition}>
      {(condition) => (
        <TwoLines second={row.detail && plainText(row.detail)}>
          {conditionWords[condition()]}
          <Show when={row.condition_began_at}>
            {(at) => (
              <>
                {" "}
                since <Time at={at()} />
              </>
            )}
          </Show>
        </TwoLines>
      )}
    </Show>
  ),
};

/** The hosts of a rollout in the order of the waves, under the filter of the address. */
export const Targets = (props: { rollout: Rollout }) => {
  const { params, chips, list } = createListPart(() => ({
    path: `/changes/rollouts/${props.rollout.id}`,
    limit: 100,
    anchor: "targets",
    schema: RolloutTargetPage,
    intervalMs: 10_000,
  }));
  const counts = () =>
    params().has("wave")
      ? props.rollout.waves.find(({ number }) => String(number) === params().get("wave"))
      : props.rollout;
  const waves = () => ({
    "All waves": null,
    ...Object.fromEntries(props.rollout.waves.map(({ number }) => [`Wave ${number}`, number])),
  });
  const count = (of: TargetStatus | "targets") => counts()?.[of] ?? 0;
  const statuses = () => ({
    [`All ${formatCount(count("targets"))}`]: null,
    ...Object.fromEntries(
      targetStatuses
        .filter((status) => count(status) || params().get("status") === status)
        .map((status) => [`${statusWords(status)} ${formatCount(count(status))}`, status]),
    ),
  });
  return (
    <Section id="targets" title="Hosts">
      <RecordList
        {...list()}
        filters={{
          ...(props.rollout.waves.length > 1 && { "Hosts by wave": chips("wave", waves()) }),
          "Hosts by status": chips("status", statuses()),
        }}
        label="Hosts in the order of the waves"
        columns={columns}
        isFailed={({ status }) => status === "failed"}
        noun="host"
        order="first to last"
        exports={{ csv: "CSV of the hosts" }}
      />
    </Section>
  );
};
