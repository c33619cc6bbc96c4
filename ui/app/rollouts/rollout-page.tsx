import { For, Show } from "solid-js";
import {
  Rollout,
  type RolloutBreach,
  type RolloutEvidence,
  type RolloutWave,
} from "#proto/rollout/rollout.ts";
import { targetStatuses } from "#proto/rollout/vocabulary.ts";
import { deviceOf } from "../audit/event-view.ts";
import { RecordEvents } from "../audit/record-events.tsx";
import { BarFigure } from "../design/bars.tsx";
import { CopiedCommand } from "../design/buttons.tsx";
import { RecordState } from "../design/icon.tsx";
import { HostCell, type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { List, Section, Shown } from "../design/report-parts.tsx";
import { ComparisonDetails } from "../fleet/changes/comparison-details.tsx";
import { Outages } from "../fleet/summary/outages.tsx";
import { capitalised, formatCount, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { RecordPage, Time } from "../shell/page.tsx";
import { FilterOfRollout, RolloutFigure, TargetBar, TargetFigure } from "./rollout-parts.tsx";
import {
  breachSentence,
  commandsOf,
  conditionWords,
  configOf,
  gateSentence,
  hadFailed,
  reachOf,
  rolloutSentence,
  rolloutStateWords,
  soakWords,
  statusMeanings,
  statusWords,
  targetsPath,
  wavePhase,
  waveSentence,
} from "./rollout-view.ts";
import { Targets } from "./targets.tsx";
import "../fleet/drawer/drawer.css";

/** `/changes/rollouts/{id}`: one rollout: where it is and why, its waves, what breached the gate, its hosts, and what happened. */
export const RolloutPage = () => (
  <RecordPage
    noun="rollout"
    allPath="/changes/rollouts"
    schema={Rollout}
    intervalMs={10_000}
    titleOf={(rollout) => `Rollout of ${configOf(rollout)}`}
  >
    {(known, report) => (
      <>
        <Shown by={report} class="stack gap-3">
          <Show when={known().ended_at === null}>
            <Outages outages={known().outages?.slice(-1)} />
          </Show>
          <Summary rollout={known()} />
          <Show when={known().breach}>
            {(breach) => <Breach rollout={known()} breach={breach()} />}
          </Show>
          <Waves rollout={known()} />
          <Commands rollout={known()} />
        </Shown>
        <RecordEvents
          id={known().id}
          title="Timeline"
          kind="all"
          level="h2"
          outages={known().outages}
        />
        <Targets rollout={known()} />
      </>
    )}
  </RecordPage>
);

/** Where the rollout is, in words and figures, and what it does to whom. */
const Summary = (props: { rollout: Rollout }) => {
  const { times } = usePageContext();
  return (
    <Section
      class="panel"
      id="summary"
      title={<RecordState of={rolloutStateWords[props.rollout.state]} />}
    >
      <p>{plainText(rolloutSentence(props.rollout, times.zone()))}</p>
      <TargetBar counts={props.rollout} />
      <Figures rollout={props.rollout} />
      <Facts rollout={props.rollout} />
    </Section>
  );
};

const Figures = (props: { rollout: Rollout }) => (
  <dl class="bar-figures">
    <BarFigure name="Hosts" about="those that the filter matched at the start">
      <RolloutFigure rollout={props.rollout} figure="targets" of="hosts in all" />
    </BarFigure>
    <For
      each={targetStatuses.filter(
        (status) => props.rollout[status] > 0 || shownAtZero(props.rollout).has(status),
      )}
    >
      {(status) => (
        <BarFigure
          name={capitalised(statusWords(status))}
          part={status}
          about={[statusMeanings[status], status === "reverted" && hadFailed(props.rollout)]
            .filter(Boolean)
            .join("; ")}
        >
          <RolloutFigure
            rollout={props.rollout}
            figure={status}
            of={`hosts ${statusWords(status)}`}
          />
        </BarFigure>
      )}
    </For>
  </dl>
);

const Facts = (props: { rollout: Rollout }) => (
  <dl class="facts rollout-facts">
    <dt>Config</dt>
    <dd>
      <a href={`/changes/configs/${props.rollout.config.id}`}>{configOf(props.rollout)}</a>{" "}
      <code title={props.rollout.config.config_hash}>
        {props.rollout.config.config_hash.slice(0, 12)}
      </code>
    </dd>
    <dt>Filter</dt>
    <dd>
      <FilterOfRollout rollout={props.rollout} />
    </dd>
    <dt>Gate</dt>
    <dd>{gateSentence(props.rollout)}</dd>
    <dt>Started</dt>
    <dd>
      <Time at={props.rollout.created_at} /> by {plainText(props.rollout.created_by_name)}
    </dd>
    <Show when={props.rollout.ended_at}>
      {(at) => (
        <>
          <dt>Ended</dt>
          <dd>
            <Time at={at()} />
          </dd>
        </>
      )}
    </Show>
  </dl>
);

/** Returns the statuses to show with a count of 0. After a revert, `failed` at 0 means nothing. */
const shownAtZero = ({ reverted }: Rollout): ReadonlySet<string> =>
  new Set(["pending", "applied", ...(reverted > 0 ? [] : ["failed"])]);

const breachColumns: RecordColumns<RolloutEvidence> = {
  Host: (row) => <HostCell of={{ ...row, device_id: deviceOf(row.identity) }} />,
  Condition: (row) => conditionWords[row.condition],
  Began: (row) => <Time at={row.began_at} />,
  Evidence: (row) => plainText(row.detail),
};

/** Why the gate was breached: the share that failed, and the hosts with what they reported. */
const Breach = (props: { rollout: Rollout; breach: RolloutBreach }) => {
  const status = () => (props.rollout.reverted > 0 ? "reverted" : "failed");
  return (
    <Section class="panel rollout-breach" id="breach" title="Why the gate was breached">
      <p>
        {breachSentence(props.rollout)} Found at <Time at={props.breach.at} />.
      </p>
      <RecordTable label="Hosts that failed" columns={breachColumns} rows={props.breach.evidence} />
      <p>
        <Show when={props.breach.failed > props.breach.evidence.length}>
          The first {formatCount(props.breach.evidence.length)} of{" "}
          {formatCountOf(props.breach.failed, "host")} that failed.{" "}
        </Show>
        <a href={targetsPath(props.rollout.id, { wave: props.breach.wave, status: status() })}>
          Hosts of wave {props.breach.wave} that{" "}
          {status() === "reverted" ? "were reverted" : "are failed now"}
        </a>
      </p>
    </Section>
  );
};

/** The waves of a rollout in order, each with its targets by status. */
const Waves = (props: { rollout: Rollout }) => {
  const isCurrent = (wave: RolloutWave) =>
    props.rollout.ended_at === null && wave.number === props.rollout.wave;
  return (
    <Section id="waves" title="Waves">
      <ol class="waves">
        <For each={props.rollout.waves}>
          {(wave) => (
            <li data-phase={wavePhase(wave)} aria-current={isCurrent(wave) ? "step" : undefined}>
              <Wave rollout={props.rollout} wave={wave} />
            </li>
          )}
        </For>
      </ol>
    </Section>
  );
};

const waveFigures = ["applied", "failed", "assigned", "reverted", "skipped"] as const;

const Wave = (props: { rollout: Rollout; wave: RolloutWave }) => {
  const { times } = usePageContext();
  const figure = (of: (typeof waveFigures)[number] | "targets") => (
    <TargetFigure
      rolloutId={props.rollout.id}
      counts={props.wave}
      figure={of}
      wave={props.wave.number}
      of={`hosts in wave ${props.wave.number}`}
    />
  );
  return (
    <>
      <h3>
        Wave {props.wave.number} <span>to {reachOf(props.wave)}</span>
      </h3>
      <TargetBar counts={props.wave} />
      <p class="inline-list">
        <span>
          {figure("targets")} {props.wave.targets === 1 ? "host" : "hosts"}
        </span>
        <For each={waveFigures.filter((of) => props.wave[of] > 0)}>
          {(of) => (
            <span>
              {figure(of)} {of}
              <Show when={of === "reverted" && hadFailed(props.wave)}>
                {(words) => `, ${words()}`}
              </Show>
            </span>
          )}
        </For>
      </p>
      <p class="quiet">
        {waveSentence(props.wave, props.rollout.state, times.zone())}
        <Show when={props.wave.completed_at === null}>, {soakWords(props.wave)}</Show>
      </p>
      <Show when={props.wave.comparison}>
        {(comparison) => <ComparisonDetails comparison={comparison()} />}
      </Show>
    </>
  );
};

/** The commands that change the rollout, to copy: this page changes nothing. */
const Commands = (props: { rollout: Rollout }) => (
  <Show when={commandsOf(props.rollout).length > 0}>
    <Section class="panel" id="commands" title="To change it">
      <p class="quiet">
        This page changes nothing. An administrator runs one of these in a terminal:
      </p>
      <List class="stack" of={commandsOf(props.rollout)}>
        {({ command, about }) => (
          <>
            <CopiedCommand text={command} what={`the command that ${about}`} />
            <span class="quiet">{about}</span>
          </>
        )}
      </List>
    </Section>
  </Show>
);
