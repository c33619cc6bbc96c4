import { Index, type JSX, Show } from "solid-js";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { UpdatesProvider, useUpdates } from "#ui/app/api/live-report.tsx";
import { RecordEvents } from "#ui/app/audit/record-events.tsx";
import { CopiedCommand, CopyButton } from "#ui/app/design/buttons.tsx";
import { StateMark } from "#ui/app/design/icon.tsx";
import { LabelLinks } from "#ui/app/design/record-table.tsx";
import { WithCode } from "#ui/app/design/with-code.tsx";
import {
  evidenceParts,
  formatAgo,
  formatCount,
  formatCountOf,
  formatUntil,
  inWords,
  plainText,
} from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { driftText } from "../table/row-view.ts";
import { Volume } from "../volume/volume.tsx";
import {
  adviceOn,
  configNotes,
  forwarderText,
  forwardingNote,
  hashLines,
  isForwardingWell,
  processFacts,
  promises,
  queueFacts,
  wasRecent,
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
      {props.spelled(props.host.platform)} · {props.spelled(props.host.agent_name ?? "collector")}{" "}
      {props.spelled(props.host.version)}
    </p>
    <Show when={promises(props.host)}>{(text) => <p class="quiet">{text()}</p>}</Show>
  </>
);

interface DetailProps {
  detail: FleetHealthDetail;
}

/** Ages of its parts count to the time of the report, so that a wrong clock of this machine has no effect. */
const AsOfReport = (props: DetailProps & { children: JSX.Element }) => (
  <UpdatesProvider
    value={{ paused: useUpdates().paused, asOf: () => Date.parse(props.detail.generated_at) }}
  >
    {props.children}
  </UpdatesProvider>
);

/**
 * One collector: why it is in its state, its timeline, signals, config, certificate and queue. An update changes texts in place, so
 * that focus and selection stay.
 */
export const Detail = (props: DetailProps) => {
  const item = () => props.detail.item;
  return (
    <AsOfReport detail={props.detail}>
      <Reasons detail={props.detail} />
      <RecordEvents
        id={item().identity_id}
        title="Timeline"
        kind="all"
        until={props.detail.at}
        outages={props.detail.outages}
      />
      <Show when={Object.keys(item().labels).length > 0}>
        <Section title="Labels">
          <LabelLinks labels={item().labels} />
        </Section>
      </Show>
      <Reported detail={props.detail} />
    </AsOfReport>
  );
};

/** Why one collector is in its state. */
export const Reasons = (props: DetailProps) => (
  <AsOfReport detail={props.detail}>
    <Section title="Why">
      <Why detail={props.detail} />
    </Section>
  </AsOfReport>
);

/** What one collector reports of itself: signals, volume, config, certificate and queue. */
export const Reported = (props: DetailProps) => {
  const item = () => props.detail.item;
  return (
    <AsOfReport detail={props.detail}>
      <Section title="Signals">
        <Signals detail={props.detail} />
      </Section>
      <Show when={props.detail.at === undefined && item().agent === "svc-collector"}>
        <Section title="Volume" note="48 hours, by envelopes stored">
          <Volume identityId={item().identity_id} />
        </Section>
      </Show>
      <Section title="Config" note={driftText(item().config)}>
        <Hashes detail={props.detail} />
        <ConfigErrors errors={configNotes(props.detail)} label="Reported by the host" />
        <Show when={props.detail.effective_config}>
          {(yaml) => (
            <details>
              <summary>Effective config</summary>
              <CopiedCommand text={plainText(yaml())} what="effective config" />
            </details>
          )}
        </Show>
      </Section>
      <Section title="Certificate" note={item().certificate.status}>
        <Certificate detail={props.detail} />
      </Section>
      <Section title="Queue, process, core">
        <ReportedFacts detail={props.detail} />
      </Section>
    </AsOfReport>
  );
};

/** What an operator must know about its forwarding, and the conditions that apply. */
const Why = (props: DetailProps) => {
  const { times } = usePageContext();
  const { asOf } = useUpdates();
  const item = () => props.detail.item;
  const note = () => forwardingNote(item(), asOf(), times.zone());
  return (
    <>
      <Show when={note()}>
        {(text) => <p class={item().hold ? "quiet" : "drawer-note-line"}>{text()}</p>}
      </Show>
      <Show
        when={item().conditions.length > 0}
        fallback={
          <p>
            {isForwardingWell(item()) ? "Healthy: no condition applies." : "No condition applies."}
          </p>
        }
      >
        <ol class="conditions">
          <Index each={item().conditions}>
            {(condition) => (
              <li>
                <Condition detail={props.detail} condition={condition()} />
              </li>
            )}
          </Index>
        </ol>
      </Show>
    </>
  );
};

type ConditionView = FleetHealthRow["conditions"][number];

const Condition = (props: DetailProps & { condition: ConditionView }) => (
  <>
    <p>
      <StateMark state={props.condition.state} />
    </p>
    <p>
      <Evidence condition={props.condition} />
    </p>
    <p class="quiet">
      Began <When at={props.condition.since} />
    </p>
    <Show when={props.condition.state === "config_invalid"}>
      <ConfigErrors errors={props.detail.config_errors.slice(1)} label="All errors of the config" />
    </Show>
    <p class="quiet">
      <WithCode text={adviceOn(props.condition.state, props.detail)} />
    </p>
  </>
);

/** What a host reports of its config; nothing without an entry. */
const ConfigErrors = (props: { errors: readonly string[]; label: string }) => (
  <Show when={props.errors.length > 0}>
    <ul class="config-errors" aria-label={props.label}>
      <Index each={props.errors}>{(error) => <li>{plainText(error())}</li>}</Index>
    </ul>
  </Show>
);

/** When it was last heard of, what it said of its connection, and what was lost. */
const Signals = (props: DetailProps) => {
  const item = () => props.detail.item;
  return (
    <dl class="facts">
      <dt>Last heartbeat</dt>
      <dd>
        <When at={item().last_heartbeat_at} signalOf={props.detail} />
      </dd>
      <Show when={item().agent === "svc-collector"}>
        <dt>Last forwarded</dt>
        <dd>
          <When at={item().last_envelope_at} signalOf={props.detail} />
        </dd>
        <dt>Forwarder</dt>
        <dd>
          {forwarderText(item().forwarder)}
          <Show when={item().forwarder?.last_ack_at}>
            {(at) => (
              <p class="quiet">
                last acknowledged <When at={at()} />
              </p>
            )}
          </Show>
        </dd>
      </Show>
      <dt>Last auth failure</dt>
      <dd>
        <Show when={item().last_auth_failure} fallback={props.detail.at ? "not kept" : "none"}>
          {(failure) => (
            <>
              <code>{failure().reason}</code>, <When at={failure().at} />
            </>
          )}
        </Show>
      </dd>
      <Losses detail={props.detail} />
      <dt>Enrolled</dt>
      <dd>
        <When at={item().enrolled_at} />
      </dd>
    </dl>
  );
};

/** What a database restore lost, and what an export did. */
const Losses = (props: DetailProps) => (
  <>
    <Show when={props.detail.item.ingest_gap}>
      {(gap) => (
        <>
          <dt>Lost by the store, or in a restore</dt>
          <dd>
            up to {formatCount(gap().records_max)} records, <When at={gap().last_at} />
          </dd>
        </>
      )}
    </Show>
    <Index each={props.detail.export_losses}>
      {(loss) => (
        <>
          <dt>Lost in export {loss().export}</dt>
          <dd>
            {formatCountOf(loss().envelopes, "envelope")}, last <When at={loss().last_at} />
            <p class="quiet">{loss().reason}</p>
          </dd>
        </>
      )}
    </Index>
  </>
);

/** The hashes of its config, equal ones once. */
const Hashes = (props: DetailProps) => (
  <dl class="facts">
    <Index each={hashLines(props.detail.item.config)}>
      {(line) => (
        <>
          <dt>{line().label}</dt>
          <dd>
            <Show when={line().hash} fallback={<span class="quiet">none</span>}>
              {(hash) => (
                <span class="copied">
                  <code class="drawer-hash">{hash()}</code>
                  <CopyButton text={hash()} what={`${line().label} hash`} />
                </span>
              )}
            </Show>
          </dd>
        </>
      )}
    </Index>
  </dl>
);

/** When its certificate expires and how its renewal is. */
const Certificate = (props: DetailProps) => {
  const item = () => props.detail.item;
  return (
    <dl class="facts">
      <dt>Expires</dt>
      <dd>
        <When due at={item().certificate.not_after} />
      </dd>
      <dt>Renewal due</dt>
      <dd>
        <When due at={item().certificate.renew_after} />
      </dd>
      <dt>Renewal</dt>
      <dd>
        {item().agent === "otelcol"
          ? "by a timer on the host"
          : inWords(item().renewal.status ?? "not reported")}
        <Show when={item().renewal.last_error}>
          {(error) => <p class="quiet">{plainText(error())}</p>}
        </Show>
      </dd>
      <dt>Successor</dt>
      <dd>
        <Show when={item().successor} fallback="none">
          {(successor) => (
            <>
              issued, not used yet; expires <When due at={successor().not_after} />
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
  );
};

const ReportedFacts = (props: DetailProps) => {
  const facts = () => [...queueFacts(props.detail.item), ...processFacts(props.detail.item)];
  return (
    <Show when={facts().length > 0} fallback={<p class="quiet">Not reported.</p>}>
      <dl class="facts">
        <Index each={facts()}>
          {(fact) => (
            <>
              <dt>{fact()[0]}</dt>
              <dd>{fact()[1]}</dd>
            </>
          )}
        </Index>
      </dl>
    </Show>
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
const Evidence = (props: { condition: ConditionView }) => (
  <Index each={evidenceParts(props.condition)}>
    {(part) => (
      <Show when={part().exact} fallback={plainText(part().text)}>
        {(exact) => <span title={exact()}>{part().text}</span>}
      </Show>
    )}
  </Index>
);

/** A time, relative and absolute; `never` without one. */
const When = (props: {
  at: string | null;
  /** It may be ahead. */
  due?: boolean;
  /** It is the last signal of this host. */
  signalOf?: FleetHealthDetail;
}) => {
  const { times } = usePageContext();
  const { asOf } = useUpdates();
  const relative = (at: string) => {
    if (props.signalOf && wasRecent(at, props.signalOf)) return "recent";
    return props.due ? formatUntil(at, asOf()) : formatAgo(at, asOf());
  };
  return (
    <Show when={props.at} fallback={<span class="never">never</span>}>
      {(at) => (
        <time datetime={at()}>
          {relative(at())} <span class="quiet">· {times.text(at())}</span>
        </time>
      )}
    </Show>
  );
};
