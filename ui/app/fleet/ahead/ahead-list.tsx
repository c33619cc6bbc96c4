import { For, type JSX, Show } from "solid-js";
import { FleetAhead } from "../../../../proto/fleet-health/ahead.ts";
import { createReport } from "../../api/live-report.tsx";
import {
  formatBytes,
  formatCountOf,
  formatDuration,
  formatTimestamp,
  plainName,
} from "../../format/format.ts";
import { usePageContext } from "../../session/page-context.tsx";
import "./ahead.css";

/** What runs out by then and what it is computed from; each count leads to what it counts. */
export const AheadList = () => {
  const { times } = usePageContext();
  const report = createReport({
    schema: FleetAhead,
    path: () => "/api/core/collector/health/ahead",
    intervalMs: 60_000,
    showsAge: true,
  });
  const at = (time: string) => formatTimestamp(time, times.zone());
  const ends = (time: string, known: FleetAhead) => `${at(time)}, in ${untilWords(time, known)}`;
  const host = (each: { identity_id: string; device_id: string }) => (
    <a href={`/hosts/${each.identity_id}`}>{plainName(each.device_id)}</a>
  );
  return (
    <>
      <h2>What runs out in the next 72 hours</h2>
      <Show
        when={report.current()}
        fallback={<p role="status">{report.state().problem?.message ?? "Loading"}</p>}
      >
        {(known) => (
          <>
            <p class="quiet">Unless somebody acts, by {at(known().until)}:</p>
            <Part
              count={known().certificates.count}
              href={`/fleet?${known().certificates.query}`}
              words={formatCountOf(known().certificates.count, "host")}
              rest={`${known().certificates.count === 1 ? "loses its certificate" : "lose their certificates"}: late to renew, failed or silent`}
              none="No host loses its certificate."
              items={known().certificates.first}
            >
              {(each) => (
                <>
                  {host(each)} expires {ends(each.expires_at, known())}
                </>
              )}
            </Part>
            <Part
              count={known().queues.count}
              href={`/fleet?${known().queues.query}`}
              words={formatCountOf(known().queues.count, "queue")}
              rest={`will be full at ${known().queues.count === 1 ? "its" : "their"} rate since the oldest record`}
              none="No queue will be full."
              items={known().queues.fullest}
            >
              {(each) => (
                <>
                  {host(each)} {formatBytes(each.bytes)} of {formatBytes(each.max_bytes)} in{" "}
                  {formatDuration(each.oldest_record_age_seconds)}: full{" "}
                  {ends(each.full_at, known())}
                </>
              )}
            </Part>
            <Part
              count={known().tokens.count}
              href="/enrollment"
              words={formatCountOf(known().tokens.count, "bootstrap token")}
              rest={known().tokens.count === 1 ? "expires" : "expire"}
              none="No bootstrap token expires."
              items={known().tokens.items}
            >
              {(each) => (
                <>
                  {plainName(each.policy_name)} <code>{each.token_prefix}</code> expires{" "}
                  {ends(each.expires_at, known())}
                </>
              )}
            </Part>
            <Part
              count={known().system_certificates.count}
              href="/system"
              words={formatCountOf(
                known().system_certificates.count,
                "certificate of core",
                "certificates of core",
              )}
              rest={known().system_certificates.count === 1 ? "expires" : "expire"}
              none="No certificate of core expires."
              items={known().system_certificates.items}
            >
              {(each) => (
                <>
                  {plainName(each.machine)} {each.name.replaceAll("_", " ")} expires{" "}
                  {ends(each.expires_at, known())}
                </>
              )}
            </Part>
            <Show when={known().telemetry}>
              {(stored) => (
                <p>
                  <a href="/system">Telemetry</a>: {formatBytes(stored().bytes)} of {stored().days}{" "}
                  days; then {formatBytes(stored().bytes_then)}, with {stored().retention_days} days
                  kept. Core does not see the room of the database's disk.
                </p>
              )}
            </Show>
          </>
        )}
      </Show>
    </>
  );
};

const untilWords = (time: string, { generated_at }: FleetAhead): string =>
  formatDuration((Date.parse(time) - Date.parse(generated_at)) / 1000);

/** A kind of what runs out: its count, which is a link, and the first of them. */
const Part = <Item,>(props: {
  count: number;
  href: string;
  words: string;
  rest: string;
  none: string;
  items: readonly Item[];
  children: (item: Item) => JSX.Element;
}) => (
  <Show when={props.count > 0} fallback={<p class="quiet">{props.none}</p>}>
    <p>
      <a href={props.href}>{props.words}</a> {props.rest}
    </p>
    <ul>
      <For each={props.items}>{(item) => <li>{props.children(item)}</li>}</For>
    </ul>
  </Show>
);
