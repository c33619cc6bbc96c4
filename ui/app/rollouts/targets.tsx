import { Show } from "solid-js";
import { type Rollout, type RolloutTarget, RolloutTargetPage } from "#proto/rollout/rollout.ts";
import { targetStatuses } from "#proto/rollout/vocabulary.ts";
import { Chips, HostCell, type RecordColumns, RecordList, TwoLines } from "../design/records.tsx";
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
  const { params, chip, list } = createListPart(() => ({
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
  return (
    <Section id="targets" title="Hosts">
      <Show when={props.rollout.waves.length > 1}>
        <Chips
          label="Hosts by wave"
          chips={[
            chip("All waves", { wave: null }),
            ...props.rollout.waves.map(({ number }) => chip(`Wave ${number}`, { wave: number })),
          ]}
        />
      </Show>
      <Chips
        label="Hosts by status"
        chips={[
          chip(`All ${formatCount(counts()?.targets ?? 0)}`, { status: null }),
          ...targetStatuses
            .filter((status) => counts()?.[status] || params().get("status") === status)
            .map((status) =>
              chip(`${statusWords(status)} ${formatCount(counts()?.[status] ?? 0)}`, { status }),
            ),
        ]}
      />
      <RecordList
        {...list()}
        label="Hosts in the order of the waves"
        columns={columns}
        isFailed={({ status }) => status === "failed"}
        noun="host"
        order="first to last"
        exports={{ csv: "CSV" }}
      />
    </Section>
  );
};
