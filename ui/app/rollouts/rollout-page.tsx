import { useLocation, useParams } from "@solidjs/router";
import { createMemo, createSignal, For, Show } from "solid-js";
import { AuditEventPage } from "../../../proto/audit-event.ts";
import type { OutageView } from "../../../proto/fleet-health/outage.ts";
import {
  Rollout,
  type RolloutBreach,
  type RolloutEvidence,
  type RolloutWave,
} from "../../../proto/rollout/rollout.ts";
import { targetStatuses } from "../../../proto/rollout/vocabulary.ts";
import { createReport } from "../api/live-report.tsx";
import { type AuditView, auditExportPath, auditPath, eventsPath } from "../audit/audit-view.ts";
import { EventTimeline } from "../audit/event-timeline.tsx";
import { deviceOf } from "../audit/event-view.ts";
import { CopyButton, Icon } from "../design/parts.tsx";
import { type RecordColumn, RecordTable } from "../design/records.tsx";
import { Loaded, OldNotice } from "../design/report-parts.tsx";
import { BarKey } from "../design/stacked-bar.tsx";
import { ComparisonDetails } from "../fleet/changes/comparison-details.tsx";
import { Outages, withOutages } from "../fleet/summary/outages.tsx";
import { formatCount, formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead, Time } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { RolloutStateMark, TargetBar, TargetFigure } from "./rollout-parts.tsx";
import {
  breachSentence,
  commandsOf,
  conditionWords,
  filterWords,
  gateSentence,
  hadFailed,
  parseTargetsView,
  reachOf,
  rolloutSentence,
  soakWords,
  statusMeanings,
  statusWords,
  targetsPath,
  wavePhase,
  waveSentence,
} from "./rollout-view.ts";
import { Targets } from "./targets.tsx";
import "../fleet/drawer/drawer.css";
import "../design/page.css";
import "./rollouts.css";

/** Why the gate was breached: the share that failed, and the hosts with what they reported. */
const Breach = (props: { rollout: Rollout; breach: RolloutBreach; asOf: number }) => {
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

/** The commands that change the rollout, to copy: this page changes nothing. */
const RolloutCommands = (props: { rollout: Rollout }) => (
  <Show when={commandsOf(props.rollout).length > 0}>
    <section class="panel rollout-part" aria-labelledby="commands">
      <h2 id="commands">To change it</h2>
      <p class="quiet">
        This page changes nothing. An administrator runs one of these in a terminal:
      </p>
      <ul class="commands">
        <For each={commandsOf(props.rollout)}>
          {({ command, about }) => (
            <li>
              <span class="command-line">
                <code>{command}</code>
                <CopyButton text={command} what={`the command that ${about}`} />
              </span>
              <span class="quiet">{about}</span>
            </li>
          )}
        </For>
      </ul>
    </section>
  </Show>
);

/** What happened to a rollout, newest first: the newest page of its audit events, and the outages of core between them. */
const RolloutEvents = (props: {
  id: string;
  paused: boolean;
  outages: readonly OutageView[] | undefined;
}) => {
  const view = (): AuditView => ({ actions: [], target: props.id });
  const report = createReport({
    schema: AuditEventPage,
    path: createMemo(() => eventsPath(view())),
    intervalMs: 15_000,
    paused: () => props.paused,
  });
  const page = report.current;
  const entriesOf = ({ items, next_cursor }: AuditEventPage) =>
    withOutages(items, props.outages, {
      timeOf: ({ occurred_at }) => occurred_at,
      isLast: next_cursor === null,
    });
  return (
    <section class="rollout-part" aria-labelledby="timeline">
      <div class="page-tools">
        <h2 id="timeline">Timeline</h2>
        <div class="page-tools-end">
          <a class="button" href={auditPath(view())}>
            Show in audit
          </a>
          <a class="button" href={auditExportPath("csv", view())} download="">
            <Icon name="export" /> CSV of the events
          </a>
        </div>
      </div>
      <OldNotice report={report} what="These events are" paused={props.paused} />
      <Loaded report={report} what="events" value={page()}>
        {(known) => (
          <Show
            when={entriesOf(known()).length > 0}
            fallback={<p class="quiet">No events recorded.</p>}
          >
            <EventTimeline
              entries={entriesOf(known())}
              names={known().names}
              asOf={report.asOf()}
            />
            <Show when={known().next_cursor}>
              <a href={auditPath(view())}>Older events</a>
            </Show>
          </Show>
        )}
      </Loaded>
    </section>
  );
};

const figures = [
  { figure: "applied", word: "applied" },
  { figure: "failed", word: "failed" },
  { figure: "assigned", word: "assigned" },
  { figure: "reverted", word: "reverted" },
  { figure: "skipped", word: "skipped" },
] as const;

/** The waves of a rollout in order, each with its targets by status. */
const Waves = (props: { rollout: Rollout }) => {
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
