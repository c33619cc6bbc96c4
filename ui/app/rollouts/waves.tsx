import { For, Show } from "solid-js";
import {
  type ComparisonVerdict,
  describeComparison,
  describeMeasure,
  describeVolume,
} from "../../../proto/fleet-health/comparison.ts";
import type { Rollout, RolloutWave } from "../../../proto/rollout/rollout.ts";
import { formatCountOf } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { TargetBar, TargetFigure } from "./rollout-parts.tsx";
import { hadFailed, reachOf, soakWords, wavePhase, waveSentence } from "./rollout-view.ts";

const figures = [
  { figure: "applied", word: "applied" },
  { figure: "failed", word: "failed" },
  { figure: "assigned", word: "assigned" },
  { figure: "reverted", word: "reverted" },
  { figure: "skipped", word: "skipped" },
] as const;

const verdictWords: Readonly<Record<ComparisonVerdict, string>> = {
  worse: "worse",
  better: "better",
  same: "no difference that matters",
  unclear: "not clear",
  too_few: "too few hosts",
};

/** The waves of a rollout in order, each with its targets by status. */
export const Waves = (props: { rollout: Rollout }) => {
  const { times } = usePageContext();
  const isCurrent = (wave: RolloutWave) => props.rollout.ended_at === null && wave.number === props.rollout.wave;
  return (
    <section class="rollout-part" aria-labelledby="waves">
      <h2 id="waves">Waves</h2>
      <ol class="waves">
        <For each={props.rollout.waves}>
          {(wave) => (
            <li data-phase={wavePhase(wave)} aria-current={isCurrent(wave) ? "step" : undefined}>
              <h3>
                Wave {wave.number} <span>to {reachOf(wave)}</span>
              </h3>
              <TargetBar counts={wave} />
              <p class="wave-figures">
                <span>
                  <TargetFigure
                    rolloutId={props.rollout.id}
                    counts={wave}
                    figure="targets"
                    wave={wave.number}
                    of={`hosts in wave ${wave.number}`}
                  />{" "}
                  {wave.targets === 1 ? "host" : "hosts"}
                </span>
                <For each={figures.filter(({ figure }) => wave[figure] > 0)}>
                  {({ figure, word }) => (
                    <span>
                      <TargetFigure
                        rolloutId={props.rollout.id}
                        counts={wave}
                        figure={figure}
                        wave={wave.number}
                        of={`hosts in wave ${wave.number}`}
                      />{" "}
                      {word}
                      <Show when={figure === "reverted" && hadFailed(wave)}>{(words) => `, ${words()}`}</Show>
                    </span>
                  )}
                </For>
              </p>
              <p class="quiet">
                {waveSentence(wave, props.rollout.state, times.zone())}
                <Show when={wave.completed_at === null}>, {soakWords(wave)}</Show>
              </p>
              <Show when={wave.comparison}>
                {(comparison) => (
                  <details class="wave-comparison" data-verdict={comparison().verdict}>
                    <summary>{describeComparison(comparison())}</summary>
                    <ul>
                      <For each={comparison().measures}>
                        {(result) => (
                          <li>
                            {describeMeasure(result)}
                            <Show when={result.difference}>, {verdictWords[result.verdict]}</Show>
                          </li>
                        )}
                      </For>
                      <For each={comparison().volume}>{(result) => <li>{describeVolume(result)}</li>}</For>
                    </ul>
                    <p class="quiet">
                      Alike in {comparison().matched_by.join(", ")}
                      <Show when={comparison().unmatched > 0}>
                        ; {formatCountOf(comparison().unmatched, "host")} of the wave without a counterpart
                      </Show>
                      . In brackets, what the figures allow.
                    </p>
                  </details>
                )}
              </Show>
            </li>
          )}
        </For>
      </ol>
    </section>
  );
};
