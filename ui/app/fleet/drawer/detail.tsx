import { Index, type JSX, Show } from "solid-js";
import type {
  FleetHealthDetail,
  FleetHistoryEvent,
} from "../../../../proto/fleet-health/report.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { CopyButton, StateMark } from "../../design/parts.tsx";
import { LabelLinks } from "../../design/records.tsx";
import { evidenceParts } from "../../format/evidence.ts";
import { formatCount, formatCountOf, plainText } from "../../format/format.ts";
import { usePageContext } from "../../session/page-context.tsx";
import { OutageEntry, withOutages } from "../summary/outages.tsx";
import { driftNames } from "../table/row-view.ts";
import { Volume } from "../volume/volume.tsx";
import {
  adviceOn,
  dueView,
  eventTitle,
  forwarderText,
  forwardingNote,
  hashLines,
  historyFacts,
  isForwardingWell,
  pastView,
  processFacts,
  queueFacts,
  signalView,
  type TimestampView,
} from "./detail-view.ts";

/** The identity of a host to copy, its hostname, platform and version. */
export const HostName = (props: { host: FleetHealthRow; spelled: (text: string) => string }) => (
  <>
    <p class="copied">
      <code class="drawer-hash">{props.spelled(props.host.identity)}</code>
      <CopyButton text={props.host.identity} what="identity" />
    </p>
    <p class="quiet">
      <Show when={props.host.hostname}>
        {(hostname) => (
          <>
            <bdi>{props.spelled(hostname())}</bdi> ·{" "}
          </>
        )}
      </Show>
      {props.spelled(props.host.platform)} · collector {props.spelled(props.host.version)}
    </p>
  </>
);

/**
 * One collector: why it is in its state, its signals, config, certificate, queue and timeline. An update changes texts in place, so
 * that focus and selection stay.
 */
export const Detail = (props: { detail: FleetHealthDetail; withoutTimeline?: boolean }) => {
  const item = () => props.detail.item;
  // Ages count to the time of the report, so that a wrong clock of this machine has no effect.
  const asOf = () => Date.parse(props.detail.generated_at);
  const reportedFacts = () => [...queueFacts(item()), ...processFacts(item())];
  const { times } = usePageContext();
  const past = (at: string | null) => pastView(at, asOf(), times.zone());
  const signal = (at: string | null) => signalView(past(at), props.detail);
  const timeline = () =>
    withOutages(props.detail.history, props.detail.outages, { timeOf: ({ at }) => at });
  const due = (at: string) => dueView(at, asOf(), times.zone());
  const note = () => forwardingNote(item(), asOf(), times.zone());
  return (
    <>
      <Section title="Why">
        <Show when={note()}>
          {(text) => <p class={item().hold ? "quiet" : "drawer-note-line"}>{text()}</p>}
        </Show>
        <Show
          when={item().conditions.length > 0}
          fallback={
            <p>
              {isForwardingWell(item())
                ? "Healthy: no condition applies."
                : "No condition applies."}
            </p>
          }
        >
          <ol class="conditions">
            <Index each={item().conditions}>
              {(condition) => (
                <li>
                  <p>
                    <StateMark state={condition().state} />
                  </p>
                  <p>
                    <Evidence condition={condition()} />
                  </p>
                  <p class="quiet">
                    Began <When at={past(condition().since)} />
                  </p>
                  <Show
                    when={
                      condition().state === "config_invalid" &&
                      props.detail.config_errors.length > 1
                    }
                  >
                    <ul class="config-errors" aria-label="All errors of the config">
                      <Index each={props.detail.config_errors.slice(1)}>
                        {(error) => <li>{plainText(error())}</li>}
                      </Index>
                    </ul>
                  </Show>
                  <p class="quiet">{adviceOn(condition().state, props.detail)}</p>
                </li>
              )}
            </Index>
          </ol>
        </Show>
      </Section>

      <Show when={!props.withoutTimeline}>
        <Section title="Timeline">
          <Show when={timeline().length > 0} fallback={<p class="quiet">No events recorded.</p>}>
            <ol class="timeline">
              <Index each={timeline()}>
                {(entry) => (
                  <>
                    <Show when={entry().event}>
                      {(event) => <TimelineEvent event={event()} at={past(event().at)} />}
                    </Show>
                    <Show when={entry().outage}>
                      {(outage) => (
                        <OutageEntry outage={outage()} at={<When at={past(outage().began_at)} />} />
                      )}
                    </Show>
                  </>
                )}
              </Index>
            </ol>
          </Show>
        </Section>
      </Show>

      {/* The page of a host shows them at its top. */}
      <Show when={!props.withoutTimeline && Object.keys(item().labels).length > 0}>
        <Section title="Labels">
          <LabelLinks labels={item().labels} />
        </Section>
      </Show>

      <Section title="Signals">
        <dl class="facts">
          <TimestampFact name="Last heartbeat" at={signal(item().last_heartbeat_at)} />
          <TimestampFact name="Last forwarded" at={signal(item().last_envelope_at)} />
          <dt>Forwarder</dt>
          <dd>
            {forwarderText(item().forwarder)}
            <Show when={item().forwarder?.last_ack_at}>
              {(at) => (
                <p class="quiet">
                  last acknowledged <When at={past(at())} />
                </p>
              )}
            </Show>
          </dd>
          <dt>Last auth failure</dt>
          <dd>
            <Show when={item().last_auth_failure} fallback={props.detail.at ? "not kept" : "none"}>
              {(failure) => (
                <>
                  <code>{failure().reason}</code>, <When at={past(failure().at)} />
                </>
              )}
            </Show>
          </dd>
          <Show when={item().ingest_gap}>
            {(gap) => (
              <>
                <dt>Lost by a database restore</dt>
                <dd>
                  up to {formatCount(gap().records_max)} records, <When at={past(gap().last_at)} />
                </dd>
              </>
            )}
          </Show>
          <Index each={props.detail.export_losses}>
            {(loss) => (
              <>
                <dt>Lost in export {loss().export}</dt>
                <dd>
                  {formatCountOf(loss().envelopes, "envelope")}, last{" "}
                  <When at={past(loss().last_at)} />
                  <p class="quiet">{loss().reason}</p>
                </dd>
              </>
            )}
          </Index>
          <TimestampFact name="Enrolled" at={past(item().enrolled_at)} />
        </dl>
      </Section>

      <Show when={props.detail.at === undefined}>
        <Section title="Volume" note="48 hours, by envelopes stored">
          <Volume identityId={item().identity_id} />
        </Section>
      </Show>

      <Section title="Config" note={driftNames[item().config.drift]}>
        <dl class="facts">
          <Index each={hashLines(item().config)}>
            {(line) => (
              <>
                <dt>{line().label}</dt>
                <dd>
                  <Show when={line().hash} fallback={<span class="quiet">none</span>}>
                    {(hash) => (
                      <span class="copied">
                        <span>
                          <code class="drawer-hash">{hash()}</code>
                          <Show when={line().same}>
                            <span class="quiet"> same as {line().same}</span>
                          </Show>
                        </span>
                        <CopyButton text={hash()} what={`${line().label} hash`} />
                      </span>
                    )}
                  </Show>
                </dd>
              </>
            )}
          </Index>
        </dl>
      </Section>

      <Section title="Certificate" note={item().certificate.status}>
        <dl class="facts">
          <TimestampFact name="Expires" at={due(item().certificate.not_after)} />
          <TimestampFact name="Renewal due" at={due(item().certificate.renew_after)} />
          <dt>Renewal</dt>
          <dd>
            {item().renewal.status?.replaceAll("_", " ") ?? "not reported"}
            <Show when={item().renewal.last_error}>
              {(error) => <p class="quiet">{plainText(error())}</p>}
            </Show>
          </dd>
          <dt>Successor</dt>
          <dd>
            <Show when={item().successor} fallback="none">
              {(successor) => (
                <>
                  issued, not used yet; expires <When at={due(successor().not_after)} />
                </>
              )}
            </Show>
          </dd>
          <dt>Certificate id</dt>
          <dd class="copied">
            <code class="drawer-hash">{item().certificate.id}</code>
            <CopyButton text={item().certificate.id} what="certificate id" />
          </dd>
        </dl>
      </Section>

      <Section title="Queue, process, core">
        <Show when={reportedFacts().length > 0} fallback={<p class="quiet">Not reported yet.</p>}>
          <dl class="facts">
            <Index each={reportedFacts()}>
              {(fact) => (
                <>
                  <dt>{fact()[0]}</dt>
                  <dd>{fact()[1]}</dd>
                </>
              )}
            </Index>
          </dl>
        </Show>
      </Section>
    </>
  );
};

const Section = (props: { title: string; note?: string; children: JSX.Element }) => (
  <section class="page-section">
    <h3>
      {props.title}
      <Show when={props.note}>{(note) => <span class="drawer-note">{note()}</span>}</Show>
    </h3>
    {props.children}
  </section>
);

/** The evidence of a condition, with exact figures on hover. */
const Evidence = (props: { condition: FleetHealthRow["conditions"][number] }) => (
  <Index each={evidenceParts(props.condition)}>
    {(part) => (
      <Show when={part().exact} fallback={plainText(part().text)}>
        {(exact) => <span title={exact()}>{part().text}</span>}
      </Show>
    )}
  </Index>
);

const TimestampFact = (props: { name: string; at: TimestampView | undefined }) => (
  <>
    <dt>{props.name}</dt>
    <dd>
      <When at={props.at} />
    </dd>
  </>
);

/** A timestamp, relative and absolute; `never` without one. */
const When = (props: { at: TimestampView | undefined }) => (
  <Show when={props.at} fallback={<span class="never">never</span>}>
    {(at) => (
      <time datetime={at().iso}>
        {at().relative} <span class="quiet">· {at().absolute}</span>
      </time>
    )}
  </Show>
);

const TimelineEvent = (props: { event: FleetHistoryEvent; at: TimestampView | undefined }) => (
  <li data-failed={props.event.outcome === "failure" ? "" : undefined}>
    <p>
      <b>{eventTitle(props.event)}</b> by {props.event.actor.display}
      <Show when={props.event.actor.type !== "operator"}>
        <span class="quiet">
          {" "}
          ({props.event.actor.type === "collector" ? "host" : props.event.actor.type})
        </span>
      </Show>
    </p>
    <p class="quiet">
      <When at={props.at} />
    </p>
    <Index each={historyFacts(props.event)}>
      {(fact) => (
        <p class="quiet timeline-fact">
          {fact()[0]}:{" "}
          <Show when={fact()[2]} fallback={fact()[1]}>
            {(href) => <a href={href()}>{fact()[1]}</a>}
          </Show>
        </p>
      )}
    </Index>
  </li>
);
