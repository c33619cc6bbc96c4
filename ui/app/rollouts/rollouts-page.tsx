import { Show } from "solid-js";
import { describeComparison } from "../../../proto/fleet-health/comparison.ts";
import { type Rollout, RolloutList } from "../../../proto/rollout/rollout.ts";
import type { RolloutState } from "../../../proto/rollout/vocabulary.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { createAddressPage, PageHead, TimeCell } from "../shell/page.tsx";
import { RolloutStateMark, TargetBar, TargetFigure } from "./rollout-parts.tsx";
import { filterWords, openStates, stoppedBy } from "./rollout-view.ts";
import "../design/page.css";
import "./rollouts.css";

const pageRows = 50;

const choices: readonly { words: string; states: readonly RolloutState[] }[] = [
  { words: "All", states: [] },
  { words: "Open", states: openStates },
  { words: "Paused", states: ["paused"] },
  { words: "Rolled back", states: ["rolling_back", "rolled_back"] },
  { words: "Aborted", states: ["aborted"] },
  { words: "Completed", states: ["completed"] },
];

/** `/rollouts`: the rollouts, newest first, and how far each one is. */
export const RolloutsPage = () => {
  const { report, params, pathOf, list, head } = createAddressPage({
    title: "Rollouts",
    path: "/rollouts",
    source: "/api/core/collector/rollouts",
    schema: RolloutList,
    intervalMs: 10_000,
    limit: pageRows,
  });
  const configId = () => params().get("config_id");
  const isFiltered = () =>
    params().has("state") || params().has("config_id") || params().has("identity_id");
  const isChosen = (states: readonly RolloutState[]) => {
    const given = params().getAll("state");
    return given.length === states.length && states.every((state) => given.includes(state));
  };
  const columns: readonly RecordColumn<Rollout>[] = [
    {
      name: "Config",
      cell: (rollout) => (
        <>
          <a class="rollout-name" href={`/rollouts/${rollout.id}`}>
            {plainText(rollout.config.name ?? rollout.config.config_hash.slice(0, 12))}
          </a>
          <span class="second-line">
            to <code>{plainText(filterWords(rollout.filter))}</code>
          </span>
        </>
      ),
    },
    {
      name: "State",
      cell: (rollout) => (
        <>
          <RolloutStateMark state={rollout.state} />
          <Show when={rollout.reason}>
            {(reason) => <span class="second-line">{stoppedBy(reason())}</span>}
          </Show>
          <Show when={comparedWords(rollout)}>
            {(words) => <span class="second-line">{words()}</span>}
          </Show>
        </>
      ),
    },
    {
      name: "Wave",
      cell: ({ wave, waves }) => <span class="rollout-wave">{`${wave} of ${waves.length}`}</span>,
    },
    {
      name: "Progress",
      cell: (rollout) => (
        <>
          <TargetBar counts={rollout} />
          <TargetFigure
            rolloutId={rollout.id}
            counts={rollout}
            figure="applied"
            of="hosts applied it"
          />{" "}
          of{" "}
          <TargetFigure
            rolloutId={rollout.id}
            counts={rollout}
            figure="targets"
            of="hosts in all"
          />{" "}
          applied
        </>
      ),
    },
    {
      name: "Failed",
      isNumber: true,
      cell: (rollout) => (
        <Show
          when={rollout.reverted_failed}
          fallback={
            <TargetFigure
              rolloutId={rollout.id}
              counts={rollout}
              figure="failed"
              of="hosts failed"
            />
          }
        >
          {(reverted) => (
            <>
              {formatCount(rollout.failed + reverted())}
              <span class="second-line">{formatCount(reverted())} of them reverted</span>
            </>
          )}
        </Show>
      ),
    },
    {
      name: "Started",
      cell: ({ created_at: at, created_by_name: by }) => (
        <TimeCell at={at} asOf={report.asOf()} second={plainText(by)} />
      ),
    },
    {
      name: "Ended",
      cell: ({ ended_at: at }) => <TimeCell at={at} asOf={report.asOf()} none="not yet" />,
    },
  ];
  return (
    <div class="page">
      <PageHead {...head()} />
      <Chips
        label="Rollouts by state"
        chips={choices.map(({ words, states }) => ({
          words,
          path: pathOf({ state: states }),
          isChosen: isChosen(states),
        }))}
      />
      <Show when={configId()}>
        {(id) => (
          <p>
            Rollouts of <a href={`/configs/${id()}`}>one config</a>.{" "}
            <a href="/rollouts">Show all rollouts</a>
          </p>
        )}
      </Show>
      <Show when={params().get("identity_id")}>
        {(id) => (
          <p>
            Rollouts that include <a href={`/hosts/${id()}`}>one host</a>.{" "}
            <a href="/rollouts">Show all rollouts</a>
          </p>
        )}
      </Show>
      <RecordList
        {...list()}
        label="Rollouts, newest first"
        columns={columns}
        isFailed={({ state, failed }) => failed > 0 && openStates.includes(state)}
        noun="rollout"
        empty={
          <Show
            when={isFiltered()}
            fallback={
              <section class="notice">
                <h2>No config has been rolled out in waves</h2>
                <p>
                  An administrator starts a rollout with <code>svc-admin rollouts create</code>. The
                  page of a <a href="/configs">config</a> shows before which hosts would change.
                </p>
              </section>
            }
          >
            <section class="notice">
              <h2>No rollout matches</h2>
              <a class="button" href="/rollouts">
                Show all rollouts
              </a>
            </section>
          </Show>
        }
      />
    </div>
  );
};

/** Says how the hosts of the newest compared wave are, against unchanged ones; nothing before a wave is compared. */
const comparedWords = ({ waves }: Rollout): string | undefined => {
  const wave = waves.findLast(({ comparison }) => comparison !== undefined);
  return wave?.comparison && `Wave ${wave.number}: ${describeComparison(wave.comparison)}`;
};
