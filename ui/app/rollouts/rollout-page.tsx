import { useLocation, useParams } from "@solidjs/router";
import { createMemo, createSignal, For, Show } from "solid-js";
import { Rollout } from "../../../proto/rollout/rollout.ts";
import { targetStatuses } from "../../../proto/rollout/vocabulary.ts";
import { createReport } from "../api/create-report.ts";
import { Loaded } from "../design/loaded.tsx";
import { BarKey } from "../design/stacked-bar.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead } from "../shell/page-head.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { Time } from "../shell/time.tsx";
import { Breach } from "./breach.tsx";
import { RolloutCommands } from "./commands.tsx";
import { RolloutEvents } from "./rollout-events.tsx";
import { RolloutStateMark, TargetBar, TargetFigure } from "./rollout-parts.tsx";
import {
  filterWords,
  gateSentence,
  hadFailed,
  parseTargetsView,
  rolloutSentence,
  statusMeanings,
  statusWords,
} from "./rollout-view.ts";
import { Targets } from "./targets.tsx";
import { Waves } from "./waves.tsx";
import "../design/page.css";
import "./rollouts.css";

/** `/rollouts/{id}`: one rollout: where it is and why, its waves, what breached the gate, its hosts, and what happened. */
export const RolloutPage = () => {
  const route = useParams<{ id: string }>();
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  const report = createReport({
    schema: Rollout,
    path: createMemo(() => `/api/core/collector/rollouts/${encodeURIComponent(route.id)}`),
    intervalMs: 10_000,
    paused,
  });
  const rollout = () => report.answer()?.value;
  const named = () => {
    const known = rollout();
    return (
      known && `Rollout of ${plainText(known.config.name ?? known.config.config_hash.slice(0, 12))}`
    );
  };
  createPageTitle(() => named() ?? "Rollout");
  const targets = createMemo(() => parseTargetsView(location.search));
  const view = () => {
    const parsed = targets();
    return "parameter" in parsed ? undefined : parsed;
  };
  const fault = () => {
    const parsed = targets();
    return "parameter" in parsed ? parsed.parameter : undefined;
  };
  return (
    <div class="page">
      <PageHead
        title={named() ?? "Rollout"}
        report={report}
        paused={paused()}
        onPause={setPaused}
      />
      <Loaded
        report={report}
        what="rollout"
        heading
        missing="No such rollout"
        instead={{ href: "/rollouts", words: "Show all rollouts" }}
        value={rollout()}
      >
        {(known) => (
          <>
            <div class="shown rollout-part" data-shown={report.phase()}>
              <Show when={known().ended_at === null}>
                <Outages outages={known().outages?.slice(-1)} asOf={report.asOf()} />
              </Show>
              <Summary rollout={known()} asOf={report.asOf()} />
              <Show when={known().breach}>
                {(breach) => <Breach rollout={known()} breach={breach()} asOf={report.asOf()} />}
              </Show>
              <Waves rollout={known()} />
              <RolloutCommands rollout={known()} />
            </div>
            <RolloutEvents id={known().id} paused={paused()} outages={known().outages} />
            <Show
              when={view()}
              fallback={
                <section class="notice" role="alert">
                  <h2>Hosts</h2>
                  <p>
                    This link has a filter that the page does not understand: <code>{fault()}</code>
                    . No hosts are shown, because others than those it meant could appear.
                  </p>
                  <a class="button" href={`/rollouts/${known().id}`}>
                    Show all hosts
                  </a>
                </section>
              }
            >
              {(shown) => <Targets rollout={known()} view={shown()} paused={paused()} />}
            </Show>
          </>
        )}
      </Loaded>
    </div>
  );
};

/** Where the rollout is, in words and figures, and what it does to whom. */
const Summary = (props: { rollout: Rollout; asOf: number }) => {
  const { times } = usePageContext();
  return (
    <section class="panel rollout-part" aria-labelledby="summary">
      <h2 id="summary">
        <RolloutStateMark state={props.rollout.state} />
      </h2>
      <p>{plainText(rolloutSentence(props.rollout, times.zone()))}</p>
      <TargetBar counts={props.rollout} />
      <dl class="bar-figures">
        <div>
          <dt>Hosts</dt>
          <dd>
            <TargetFigure
              rolloutId={props.rollout.id}
              counts={props.rollout}
              figure="targets"
              of="hosts in all"
            />
            <small>those that the filter matched at the start</small>
          </dd>
        </div>
        <For
          each={targetStatuses.filter(
            (status) => props.rollout[status] > 0 || shownAtZero(props.rollout).has(status),
          )}
        >
          {(status) => (
            <div>
              <dt>
                <BarKey part={status} />
                {capitalised(statusWords[status])}
              </dt>
              <dd>
                <TargetFigure
                  rolloutId={props.rollout.id}
                  counts={props.rollout}
                  figure={status}
                  of={`hosts ${statusWords[status]}`}
                />
                <small>
                  {statusMeanings[status]}
                  <Show when={status === "reverted" && hadFailed(props.rollout)}>
                    {(words) => `; ${words()}`}
                  </Show>
                </small>
              </dd>
            </div>
          )}
        </For>
      </dl>
      <dl class="rollout-facts">
        <dt>Config</dt>
        <dd>
          <a href={`/configs/${props.rollout.config.id}`}>
            {plainText(props.rollout.config.name ?? props.rollout.config.config_hash.slice(0, 12))}
          </a>{" "}
          <code title={props.rollout.config.config_hash}>
            {props.rollout.config.config_hash.slice(0, 12)}
          </code>
        </dd>
        <dt>Filter</dt>
        <dd>
          <code>{plainText(filterWords(props.rollout.filter))}</code>
        </dd>
        <dt>Gate</dt>
        <dd>{gateSentence(props.rollout)}</dd>
        <dt>Started</dt>
        <dd>
          <Time at={props.rollout.created_at} asOf={props.asOf} /> by{" "}
          {plainText(props.rollout.created_by_name)}
        </dd>
        <Show when={props.rollout.ended_at}>
          {(at) => (
            <>
              <dt>Ended</dt>
              <dd>
                <Time at={at()} asOf={props.asOf} />
              </dd>
            </>
          )}
        </Show>
      </dl>
    </section>
  );
};

const capitalised = (word: string) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`;

/** Once hosts are reverted, that none is failed now says nothing. */
const shownAtZero = ({ reverted }: Rollout): ReadonlySet<string> =>
  new Set(["pending", "applied", ...(reverted > 0 ? [] : ["failed"])]);
