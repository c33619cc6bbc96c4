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
            <Parts ahead={known()} />
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

/** What runs out of hosts, of enrollment and of core. */
const Parts = (props: AheadProps) => {
  const end = (at: string) => <End at={at} ahead={props.ahead} />;
  return (
    <>
      <Part
        of={props.ahead.certificates}
        items={props.ahead.certificates.first}
        href={`/fleet?${props.ahead.certificates.query}`}
        noun="host"
        does={["loses its certificate", "lose their certificates"]}
        more=": renewal late or failed, or host stale"
        none="No host loses its certificate."
      >
        {(each) => (
          <>
            {host(each)} expires {end(each.expires_at)}
          </>
        )}
      </Part>
      <Part
        of={props.ahead.queues}
        items={props.ahead.queues.fullest}
        href={`/fleet?${props.ahead.queues.query}`}
        noun="queue"
        does={["will be full at its", "will be full at their"]}
        more=" present rate"
        none="No queue will be full."
      >
        {(each) => (
          <>
            {host(each)} {formatBytes(each.bytes)} of {formatBytes(each.max_bytes)},{" "}
            {formatBytes(each.grew_bytes)} more in {formatDuration(each.grew_seconds)}: full{" "}
            {end(each.full_at)}
          </>
        )}
      </Part>
      <Part
        of={props.ahead.tokens}
        items={props.ahead.tokens.items}
        href="/access/enrollment"
        noun="bootstrap token"
        none="No bootstrap token expires."
      >
        {(each) => (
          <>
            {plainName(each.policy_name)} <code>{each.token_prefix}</code> expires{" "}
            {end(each.expires_at)}
          </>
        )}
      </Part>
      <Part
        of={props.ahead.system_certificates}
        items={props.ahead.system_certificates.items}
        href="/system"
        noun="certificate of core"
        nouns="certificates of core"
        none="No certificate of core expires."
      >
        {(each) => (
          <>
            {plainName(each.machine)} {inWords(each.name)} expires {end(each.expires_at)}
          </>
        )}
      </Part>
    </>
  );
};

/** When something ends, and in what time from the report on. */
const End = (props: AheadProps & { at: string }) => {
  const { times } = usePageContext();
  const seconds = () => (Date.parse(props.at) - Date.parse(props.ahead.generated_at)) / 1000;
  return <>{`${times.text(props.at)}, in ${formatDuration(seconds())}`}</>;
};

/** A kind of what runs out: its count, which is a link, and the first of them. */
const Part = <Item,>(props: {
  of: { count: number };
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
  <Show when={props.of.count > 0} fallback={<p class="quiet">{props.none}</p>}>
    <p>
      <a href={props.href}>{formatCountOf(props.of.count, props.noun, props.nouns)}</a>{" "}
      {(props.does ?? ["expires", "expire"])[props.of.count === 1 ? 0 : 1]}
      {props.more}
    </p>
    <List of={props.items}>{props.children}</List>
  </Show>
);
