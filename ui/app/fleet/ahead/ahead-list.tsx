import { type JSX, Show } from "solid-js";
import { FleetAhead } from "#proto/fleet-health/ahead.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { List, Loaded } from "#ui/app/design/report-parts.tsx";
import {
  formatBytes,
  formatCountOf,
  formatDuration,
  inWords,
  plainName,
} from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import "./ahead.css";

/** What runs out by then and what it is computed from; each count leads to what it counts. */
export const AheadList = () => {
  const { times } = usePageContext();
  const report = createReport({
    schema: FleetAhead,
    path: () => "/api/core/collector/health/ahead",
    showsAge: true,
  });
  return (
    <>
      <h2>Next 72 hours</h2>
      <Loaded report={report} what="list">
        {(known) => (
          <>
            <p class="quiet">Unless somebody acts, by {times.text(known().until)}:</p>
            <HostParts ahead={known()} />
            <OtherParts ahead={known()} />
            <Show when={known().telemetry}>
              {(stored) => (
                <p>
                  <a href="/system">Telemetry</a>: {formatBytes(stored().bytes)} of {stored().days}{" "}
                  days; then {formatBytes(stored().bytes_then)}, with {stored().retention_days} days
                  kept. Core cannot see the free disk space.
                </p>
              )}
            </Show>
          </>
        )}
      </Loaded>
    </>
  );
};

interface AheadProps {
  ahead: FleetAhead;
}

const host = (each: { identity_id: string; device_id: string }) => (
  <a href={`/hosts/${each.identity_id}`}>{plainName(each.device_id)}</a>
);

/** Certificates and queues of hosts. */
const HostParts = (props: AheadProps) => (
  <>
    <Part
      count={props.ahead.certificates.count}
      href={`/fleet?${props.ahead.certificates.query}`}
      noun="host"
      does={["loses its certificate", "lose their certificates"]}
      more=": renewal late or failed, or host stale"
      none="No host loses its certificate."
      items={props.ahead.certificates.first}
    >
      {(each) => (
        <>
          {host(each)} expires <End at={each.expires_at} ahead={props.ahead} />
        </>
      )}
    </Part>
    <Part
      count={props.ahead.queues.count}
      href={`/fleet?${props.ahead.queues.query}`}
      noun="queue"
      does={["will be full at its", "will be full at their"]}
      more=" present rate"
      none="No queue will be full."
      items={props.ahead.queues.fullest}
    >
      {(each) => (
        <>
          {host(each)} {formatBytes(each.bytes)} of {formatBytes(each.max_bytes)},{" "}
          {formatBytes(each.grew_bytes)} more in {formatDuration(each.grew_seconds)}: full{" "}
          <End at={each.full_at} ahead={props.ahead} />
        </>
      )}
    </Part>
  </>
);

/** Bootstrap tokens, and certificates of core. */
const OtherParts = (props: AheadProps) => (
  <>
    <Part
      count={props.ahead.tokens.count}
      href="/access/enrollment"
      noun="bootstrap token"
      none="No bootstrap token expires."
      items={props.ahead.tokens.items}
    >
      {(each) => (
        <>
          {plainName(each.policy_name)} <code>{each.token_prefix}</code> expires{" "}
          <End at={each.expires_at} ahead={props.ahead} />
        </>
      )}
    </Part>
    <Part
      count={props.ahead.system_certificates.count}
      href="/system"
      noun="certificate of core"
      nouns="certificates of core"
      none="No certificate of core expires."
      items={props.ahead.system_certificates.items}
    >
      {(each) => (
        <>
          {plainName(each.machine)} {inWords(each.name)} expires{" "}
          <End at={each.expires_at} ahead={props.ahead} />
        </>
      )}
    </Part>
  </>
);

/** When something ends, and in what time from the report on. */
const End = (props: AheadProps & { at: string }) => {
  const { times } = usePageContext();
  const seconds = () => (Date.parse(props.at) - Date.parse(props.ahead.generated_at)) / 1000;
  return <>{`${times.text(props.at)}, in ${formatDuration(seconds())}`}</>;
};

/** A kind of what runs out: its count, which is a link, and the first of them. */
const Part = <Item,>(props: {
  count: number;
  href: string;
  noun: string;
  nouns?: string;
  /** The verb of one of them, and of several; "expires" and "expire" by default. */
  does?: readonly [one: string, several: string];
  more?: string;
  none: string;
  items: readonly Item[];
  children: (item: Item) => JSX.Element;
}) => (
  <Show when={props.count > 0} fallback={<p class="quiet">{props.none}</p>}>
    <p>
      <a href={props.href}>{formatCountOf(props.count, props.noun, props.nouns)}</a>{" "}
      {(props.does ?? ["expires", "expire"])[props.count === 1 ? 0 : 1]}
      {props.more}
    </p>
    <List of={props.items}>{props.children}</List>
  </Show>
);
