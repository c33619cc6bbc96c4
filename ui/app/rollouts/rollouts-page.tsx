import { For, Show } from "solid-js";
import { describeComparison } from "#proto/fleet-health/comparison.ts";
import { type Rollout, RolloutList } from "#proto/rollout/rollout.ts";
import type { RolloutState } from "#proto/rollout/vocabulary.ts";
import { RecordState } from "../design/icon.tsx";
import { RecordList } from "../design/record-list.tsx";
import { type RecordColumns, TwoLines } from "../design/record-table.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { createListPage, PageFrame, TimeCell } from "../shell/page.tsx";
import {
  AppliedFigures,
  FilterOfRollout,
  RolloutFigure,
  RolloutLink,
  TargetBar,
} from "./rollout-parts.tsx";
import { openStates, rolloutStateWords, stoppedBy } from "./rollout-view.ts";

const choices: Readonly<Record<string, readonly RolloutState[]>> = {
  All: [],
  Open: openStates,
  Paused: ["paused"],
  "Rolled back": ["rolling_back", "rolled_back"],
  Aborted: ["aborted"],
  Completed: ["completed"],
};

const columns: RecordColumns<Rollout> = {
  Config: (rollout) => (
    <TwoLines
      second={
        <>
          to <FilterOfRollout rollout={rollout} />
        </>
      }
    >
      <RolloutLink rollout={rollout} />
    </TwoLines>
  ),
  State: (rollout) => (
    <TwoLines second={comparedWords(rollout)}>
      <TwoLines second={rollout.reason && stoppedBy(rollout.reason)}>
        <RecordState of={rolloutStateWords[rollout.state]} />
      </TwoLines>
    </TwoLines>
  ),
  Wave: ({ wave, waves }) => <span class="rollout-wave">{`${wave} of ${waves.length}`}</span>,
  Progress: (rollout) => (
    <>
      <TargetBar counts={rollout} />
      <AppliedFigures rollout={rollout} />
    </>
  ),
  Failed: {
    isNumber: true,
    cell: (rollout) => (
      <Show
        when={rollout.reverted_failed}
        fallback={<RolloutFigure rollout={rollout} figure="failed" of="hosts failed" />}
      >
        {(reverted) => (
          <TwoLines second={`${formatCount(reverted())} of them reverted`}>
            {formatCount(rollout.failed + reverted())}
          </TwoLines>
        )}
      </Show>
    ),
  },
  Started: ({ created_at: at, created_by_name: by }) => <TimeCell at={at} second={plainText(by)} />,
  Ended: ({ ended_at: at }) => <TimeCell at={at} none="not yet" />,
};

/** The filters of other pages' links: what they show, and the record that they name. */
const foreignFilters = [
  { name: "config_id", words: "Rollouts of", path: "/changes/configs/", record: "one config" },
  { name: "identity_id", words: "Rollouts that include", path: "/hosts/", record: "one host" },
] as const;

/** `/changes/rollouts`: the rollouts, those that wait for a decision first, and how far each one is. */
export const RolloutsPage = () => {
  const { page, params, chips, list } = createListPage({
    path: "/changes/rollouts",
    schema: RolloutList,
    intervalMs: 10_000,
    limit: 50,
    sort: "severity",
  });
  return (
    <PageFrame of={page}>
      <For each={foreignFilters}>
        {({ name, words, path, record }) => (
          <Show when={params().get(name)}>
            {(id) => (
              <p>
                {words} <a href={path + id()}>{record}</a>.{" "}
                <a href="/changes/rollouts">Show all rollouts</a>
              </p>
            )}
          </Show>
        )}
      </For>
      <RecordList
        {...list()}
        filters={{ "Rollouts by state": chips("state", choices) }}
        label="Rollouts, worst first"
        columns={columns}
        isFailed={({ state, failed }) => failed > 0 && openStates.includes(state)}
        noun="rollout"
        order="first to last"
        first={{
          title: "No config has been rolled out in waves",
          says: (
            <>
              A rollout gives a config to some hosts first, and stops when they fail. The page of a{" "}
              <a href="/changes/configs">config</a> shows before which hosts would change.
            </>
          ),
          command: "svc-admin rollouts create CONFIG label.env:prod --wave 5%:10m --wave 100%:1h",
        }}
      />
    </PageFrame>
  );
};

/** Describes how the hosts of the newest compared wave compare with unchanged ones; nothing before a comparison. */
const comparedWords = ({ waves }: Rollout) => {
  const wave = waves.findLast(({ comparison }) => comparison !== undefined);
  return wave?.comparison && `Wave ${wave.number}: ${describeComparison(wave.comparison)}`;
};
