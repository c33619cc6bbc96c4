import { type JSX, Show } from "solid-js";
import * as v from "valibot";
import { graceMs } from "#proto/completeness/decide-hour.ts";
import { createReport, type LiveReport } from "../api/live-report.tsx";
import { CountLink } from "../design/record-table.tsx";
import { formatBytes, formatCount, formatCountOf } from "../format/format.ts";
import { clockText, hourLengthMs } from "./hour-view.ts";

const Stored = v.object({
  parts: v.number(),
  total: v.object({ envelopes: v.number(), payload_bytes: v.number() }),
});
const Counted = v.object({
  summary: v.object({ enrolled: v.number(), active_recent_heartbeats: v.number() }),
});

/** Figures before the first hour is settled: records stored, hosts that send heartbeats, hosts that report losses. */
export const FirstHour = (props: { settlesAt: string }) => {
  const from = () => new Date(Date.parse(props.settlesAt) - graceMs - hourLengthMs).toISOString();
  const ask = <Schema extends v.GenericSchema>(schema: Schema, path: () => string) =>
    createReport({ schema, path, intervalMs: 10_000 });
  const health = "/api/core/collector/health?limit=1";
  const stored = ask(Stored, () => `/api/core/collector/volume?from=${from()}&limit=1`);
  const hosts = ask(Counted, () => health);
  const losing = ask(Counted, () => `${health}&dropped_more_than=0`);
  return (
    <dl class="facts">
      <dt>Stored since {clockText(from())} UTC</dt>
      <Fact of={stored}>
        {({ parts, total }) => (
          <>
            <a href={`/data/volume?from=${from()}`}>{formatCountOf(total.envelopes, "envelope")}</a>{" "}
            of {formatCountOf(parts, "host")}, {formatBytes(total.payload_bytes)}
          </>
        )}
      </Fact>
      <dt>Hosts that send heartbeats</dt>
      <Fact of={hosts}>
        {({ summary }) => (
          <>
            <CountLink count={summary.active_recent_heartbeats} href="/fleet?heartbeat=recent" /> of{" "}
            {formatCount(summary.enrolled)}
          </>
        )}
      </Fact>
      <dt>Hosts that report lost records</dt>
      <Fact of={losing}>
        {({ summary }) => <CountLink count={summary.enrolled} href="/fleet?dropped_more_than=0" />}
      </Fact>
    </dl>
  );
};

const Fact = <Value,>(props: {
  of: LiveReport<Value>;
  children: (value: Value) => JSX.Element;
}) => (
  <dd>
    <Show when={props.of.value()} fallback={props.of.failure()?.message ?? "…"} keyed>
      {(value) => props.children(value)}
    </Show>
  </dd>
);
