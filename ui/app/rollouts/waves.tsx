import { For, Show } from "solid-js";
import type { Rollout, RolloutWave } from "../../../proto/rollout/rollout.ts";
import { ComparisonDetails } from "../fleet/changes/comparison-details.tsx";
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

/** The waves of a rollout in order, each with its targets by status. */
export const Waves = (props: { rollout: Rollout }) => {
  const { times } = usePageContext();
  const isCurrent = (wave: RolloutWave) =>
    props.rollout.ended_at === null && wave.number === props.rollout.wave;
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
                      <Show when={figure === "reverted" && hadFailed(wave)}>
                        {(words) => `, ${words()}`}
                      </Show>
                    </span>
                  )}
                </For>
              </p>
              <p class="quiet">
                {waveSentence(wave, props.rollout.state, times.zone())}
                <Show when={wave.completed_at === null}>, {soakWords(wave)}</Show>
              </p>
              <Show when={wave.comparison}>
                {(comparison) => <ComparisonDetails comparison={comparison()} />}
              </Show>
            </li>
          )}
        </For>
      </ol>
    </section>
  );
};
