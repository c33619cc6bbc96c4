import { Show } from "solid-js";
import type { Rollout, RolloutBreach, RolloutEvidence } from "../../../proto/rollout/rollout.ts";
import { deviceOf } from "../audit/event-view.ts";
import { type RecordColumn, RecordTable } from "../design/record-table.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { Time } from "../shell/time.tsx";
import { breachSentence, conditionWords, targetsPath } from "./rollout-view.ts";

/** Why the gate was breached: the share that failed, and the hosts with what they reported. */
export const Breach = (props: { rollout: Rollout; breach: RolloutBreach; asOf: number }) => {
  const columns: readonly RecordColumn<RolloutEvidence>[] = [
    {
      name: "Host",
      cell: (row) => (
        <>
          <a class="rollout-name" href={`/hosts/${row.identity_id}`}>
            {plainText(deviceOf(row.identity))}
          </a>
          <span class="second-line">{plainText(row.identity)}</span>
        </>
      ),
    },
    { name: "Condition", cell: (row) => conditionWords[row.condition] },
    { name: "Began", cell: (row) => <Time at={row.began_at} asOf={props.asOf} /> },
    { name: "Evidence", cell: (row) => plainText(row.detail) },
  ];
  return (
    <section class="panel rollout-part rollout-breach" aria-labelledby="breach">
      <h2 id="breach">Why the gate was breached</h2>
      <p>
        {breachSentence(props.rollout)} Found at <Time at={props.breach.at} asOf={props.asOf} />.
      </p>
      <RecordTable label="Hosts that failed" columns={columns} rows={props.breach.evidence} />
      <p>
        <Show when={props.breach.failed > props.breach.evidence.length}>
          The first {formatCount(props.breach.evidence.length)} of{" "}
          {formatCountOf(props.breach.failed, "host")} that failed.{" "}
        </Show>
        <Show
          when={props.rollout.reverted > 0}
          fallback={
            <a href={targetsPath(props.rollout.id, { wave: props.breach.wave, status: "failed" })}>
              Hosts of wave {props.breach.wave} that are failed now
            </a>
          }
        >
          <a href={targetsPath(props.rollout.id, { wave: props.breach.wave, status: "reverted" })}>
            Hosts of wave {props.breach.wave} that were reverted
          </a>
        </Show>
      </p>
    </section>
  );
};
