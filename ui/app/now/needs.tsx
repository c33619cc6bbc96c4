import { useLocation } from "@solidjs/router";
import { createEffect, createMemo, For, on, Show } from "solid-js";
import { isHeld, type NowLine, NowReport, type NowStrip } from "#proto/now/report.ts";
import { createReport, type LiveReport } from "../api/live-report.tsx";
import { decoded } from "../browser/decoded.ts";
import { Button, CopyButton } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { Loaded } from "../design/report-parts.tsx";
import { Sparkline } from "../design/sparkline.tsx";
import {
  formatAgo,
  formatBytes,
  formatCount,
  formatCountOf,
  formatShortTimestamp,
} from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { ClaimDialog, type Claims, createClaims } from "./claims.tsx";
import { keepLook } from "./last-look.ts";
import {
  ageText,
  claimText,
  type EarlierLook,
  faceOf,
  figureText,
  firstSentence,
  foldedWords,
  groupLines,
  handoverText,
  tabTitle,
  unfoldedMax,
} from "./now-view.ts";
import { Sentence } from "./sentence.tsx";

const Outages = lazyPart(
  "The outage of core",
  async () => (await import("../fleet/summary/outages.tsx")).Outages,
);

const intervalMs = 10_000;

/** One sentence, three figures over 24 hours, and a line for each cause that needs a person, worst first. */
export const Needs = () => {
  const report = createReport({
    schema: NowReport,
    path: () => "/api/core/now",
    intervalMs,
    // The title of the tab is read while it is not in view.
    inBackground: true,
  });
  const earlier = createEarlierLook(report);
  const claims = createClaims(() => report.value()?.lines ?? [], report.refresh);
  createPageTitle(() => tabTitle(report.value(), report.phase() === "stale"));
  return (
    <>
      <h1 class="visually-hidden">Now</h1>
      <Loaded report={report} what="lines" heading>
        {(known) => (
          <>
            <Lead report={report} known={known()} earlier={earlier()} />
            <Show when={known().held_by}>{(outage) => <Outages outages={[outage()]} />}</Show>
            <Show when={known().hosts !== 0}>
              <Strip of={known().strip} />
            </Show>
            <ClaimDialog claims={claims} />
            <Lines of={known()} earlier={earlier()} claims={claims} />
          </>
        )}
      </Loaded>
    </>
  );
};

/** Returns what the person saw before, and keeps what they see; a tab in the background is not seen. */
const createEarlierLook = (report: LiveReport<NowReport>) => {
  const { session } = usePageContext();
  return createMemo<EarlierLook | undefined>((before) => {
    const known = report.value();
    const person = session()?.user.user_id;
    if (!known || !person || document.visibilityState === "hidden") return before;
    return keepLook(person, known.lines, report.asOf());
  });
};

/** The first sentence, how old it is, and the page as text to copy. */
const Lead = (props: {
  report: LiveReport<NowReport>;
  known: NowReport;
  earlier: EarlierLook | undefined;
}) => {
  const { session, times } = usePageContext();
  const isOld = () => props.report.phase() === "stale";
  const age = () => ageText(props.known, props.report.asOf(), props.report.ageSeconds());
  const face = () => (isOld() ? (["info", "muted"] as const) : faceOf(props.known));
  return (
    <div class="now-lead">
      <p class="now-first" data-tone={face()[1]}>
        <Icon name={face()[0]} />
        <strong role="status">
          {isOld()
            ? "This list is old: new lines may be missing."
            : firstSentence(props.known, props.earlier)}
        </strong>
      </p>
      <Show when={props.known.hosts === 0}>
        <Show
          when={session()?.scopes.includes("admin")}
          fallback={
            <p>
              Ask somebody with the scope <code>admin</code> to enroll the first host.{" "}
              <a href="/fleet">See what is missing</a>
            </p>
          }
        >
          <a class="button button-primary" href="/fleet">
            Enroll the first host
          </a>
        </Show>
      </Show>
      <div class="now-checked">
        {/* One text: the end of a text beside others moves with each second. */}
        <span class="quiet">{`Last checked ${age()} ago.`}</span>
        <CopyButton
          what="handover"
          label="Copy handover"
          text={handoverText(props.known, { origin: location.origin, zone: times.zone() })}
        />
      </div>
    </div>
  );
};

/** A figure for each question, with its last 24 hours. */
const Strip = (props: { of: readonly NowStrip[] }) => {
  const { times } = usePageContext();
  const barsOf = ({ points, until, step_seconds, unit }: NowStrip) => {
    const end = Date.parse(until);
    const wordsOf = (point: number) =>
      unit === "bytes" ? formatBytes(point) : formatCountOf(point, unit.slice(0, -1));
    const timeOf = (index: number) =>
      formatShortTimestamp(end - (points.length - index) * step_seconds * 1000, end, times.zone());
    return points.map((point, index) => ({
      value: point ?? 0,
      name: `${timeOf(index)} to ${timeOf(index + 1)}: ${point === null ? "not recorded" : wordsOf(point)}`,
    }));
  };
  return (
    <ul class="now-strip" aria-label="The last 24 hours">
      <For each={props.of}>
        {(figure) => (
          <li class="panel">
            <a href={figure.path}>
              <b>{figureText(figure.present, figure.unit)}</b> {figure.label}
            </a>
            <Sparkline bars={barsOf(figure)} />
          </li>
        )}
      </For>
    </ul>
  );
};

interface LinesProps {
  of: NowReport;
  earlier: EarlierLook | undefined;
  claims: Claims;
}

/** The lines; many of a kind are folded, but the one that the address names is shown. */
const Lines = (props: LinesProps) => {
  const location = useLocation();
  const groups = createMemo(() => groupLines(props.of.lines));
  const named = () => decoded(location.hash.slice(1));
  const isGone = () => /^\w+:/.test(named()) && props.of.lines.every(({ key }) => key !== named());
  createEffect(
    on(named, (key) => {
      const line = document.getElementById(key);
      line?.closest("details")?.setAttribute("open", "");
      line?.scrollIntoView({ block: "center" });
    }),
  );
  return (
    <>
      <Show when={isGone()}>
        <p class="banner" role="status">
          The line of this link is gone: it has ended, is silenced, or another line explains it.
        </p>
      </Show>
      <ol class="now-lines">
        <For each={[...groups().keys()]}>
          {(name) => {
            const lines = () => groups().get(name) ?? [];
            const folded = () => lines().slice(unfoldedMax);
            return (
              <>
                <LineItems {...props} lines={lines().slice(0, unfoldedMax)} named={named()} />
                <Show when={folded().length > 0}>
                  <li>
                    <details>
                      <summary>{foldedWords(folded(), props.earlier)}</summary>
                      <ol class="now-lines">
                        <LineItems {...props} lines={folded()} named={named()} />
                      </ol>
                    </details>
                  </li>
                </Show>
              </>
            );
          }}
        </For>
      </ol>
      <Show when={props.of.lines_other > 0}>
        <p>And {formatCount(props.of.lines_other)} more, less urgent than these.</p>
      </Show>
      <Show when={props.of.silenced}>
        <a class="quiet" href="/watches">
          <Sentence text={props.of.silenced ?? ""} />
        </a>
      </Show>
    </>
  );
};

/** Some lines by their keys, so that each keeps its place and its focus while its words change. */
const LineItems = (props: LinesProps & { lines: readonly NowLine[]; named: string }) => {
  const byKey = createMemo(() => new Map(props.lines.map((line) => [line.key, line])));
  return (
    <For each={[...byKey().keys()]}>
      {(key) => {
        const line = createMemo<NowLine | undefined>((before) => byKey().get(key) ?? before);
        return (
          <Show when={line()}>
            {(known) => (
              <Line
                of={known()}
                asOf={Date.parse(props.of.generated_at)}
                isNew={props.earlier?.isNew(known()) ?? false}
                isNamed={key === props.named}
                claims={props.claims}
              />
            )}
          </Show>
        );
      }}
    </For>
  );
};

/** One cause: what it is, since when, what most of it has in common, and who has taken it. */
const Line = (props: {
  of: NowLine;
  asOf: number;
  isNew: boolean;
  isNamed: boolean;
  claims: Claims;
}) => {
  const { times } = usePageContext();
  const isCritical = () => props.of.severity === "critical";
  return (
    <li
      id={props.of.key}
      aria-current={props.isNamed ? "true" : undefined}
      data-taken={isHeld(props.of) ? "" : undefined}
    >
      <div class="now-mark">
        <span class="state-mark" data-tone={isCritical() ? "crit" : "warn"}>
          <Icon name={isCritical() ? "warning" : "info"} />
          {isCritical() ? "Critical" : "Warning"}
        </span>
        <Show when={props.isNew}>
          <span class="now-new">New</span>
        </Show>
      </div>
      <div class="now-what">
        <a href={props.of.path}>
          <Sentence text={props.of.sentence} />
        </a>
        <p class="quiet">
          <Show when={props.of.since}>
            {(since) => (
              <>
                <time datetime={since()} title={times.text(since())}>
                  {`Began ${formatAgo(since(), props.asOf)}.`}
                </time>{" "}
              </>
            )}
          </Show>
          <Sentence text={props.of.evidence ?? ""} />
        </p>
      </div>
      <Claim of={props.of} asOf={props.asOf} claims={props.claims} />
    </li>
  );
};

/** Who has taken a line, and the button that takes or releases it. */
const Claim = (props: { of: NowLine; asOf: number; claims: Claims }) => {
  const { session, times } = usePageContext();
  const held = () => (isHeld(props.of) ? props.of.taken : null);
  const change = () => {
    const claim = held();
    if (claim) void props.claims.release(claim);
    else props.claims.open(props.of);
  };
  return (
    <div class="now-claim">
      <Show when={props.of.taken}>
        {(taken) => (
          <p title={times.text(taken().at)}>
            {claimText(taken(), (at) =>
              formatShortTimestamp(at, props.asOf, times.zone()).replace(/:\d\d$/, ""),
            )}
          </p>
        )}
      </Show>
      <Show when={session()?.scopes.includes("admin")}>
        <Button onClick={change}>{held() ? "Release" : "Take"}</Button>
      </Show>
    </div>
  );
};
