import { For, Show } from "solid-js";
import { type ChannelTrust, SystemTrust } from "#proto/system/trust.ts";
import { createReport } from "../api/live-report.tsx";
import { Icon } from "../design/icon.tsx";
import { type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { List, Loaded, Section } from "../design/report-parts.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { Time, TimeCell } from "../shell/page.tsx";
import { PartMark } from "./part-mark.tsx";

type Lacking = ChannelTrust["lacking"][number];

const columns: RecordColumns<Lacking> = {
  Host: ({ identity_id: id, identity }) => <a href={`/hosts/${id}`}>{plainText(identity)}</a>,
  Bundle: ({ number, is_pinned: isPinned }) => number ?? (isPinned ? "pinned" : "none"),
  "Last heartbeat": ({ last_heartbeat_at: at, is_silent: isSilent }) => (
    <TimeCell
      at={at}
      none="never"
      second={isSilent && <PartMark state="not_ready" words="silent" />}
    />
  ),
};

const countWords: Readonly<Record<keyof ChannelTrust["hosts"], string>> = {
  newest: "with it",
  older: "with an older one",
  ahead: "with a higher number, as after a restore",
  none: "without one",
  pinned: "pinned to a file of their own",
  unreported: "that do not report it",
};

/** The roots that hosts have, which hosts lack the newest, and when an old one may go. */
export const Trust = () => {
  const report = createReport({
    schema: SystemTrust,
    path: () => "/api/core/system/trust",
    intervalMs: 30_000,
  });
  return (
    <Section id="system-trust" title="Roots that hosts trust">
      <Loaded report={report} what="trust of hosts">
        {(known) => (
          <For each={known().channels}>
            {(channel) => <Channel of={channel} away={known().away} />}
          </For>
        )}
      </Loaded>
    </Section>
  );
};

const Channel = (props: { of: ChannelTrust; away: string }) => (
  <div class="stack gap-3">
    <h3>{props.of.channel}</h3>
    <p class="state-mark">
      <Show when={props.of.lacking.length > 0}>
        <Icon name="warning" />
      </Show>
      <span>{props.of.advice}</span>
    </p>
    <Show when={props.of.bundle}>
      {(bundle) => (
        <>
          <p>
            Bundle {bundle().number}, published <Time at={bundle().published_at} />,{" "}
            <code title={bundle().sha256}>{bundle().sha256.slice(0, 12)}</code>
          </p>
          <List class="stack gap-1" of={bundle().roots}>
            {(root) => (
              <>
                {plainText(root.subject)}, until <Time at={root.ends_at} />
              </>
            )}
          </List>
          <p>{countsOf(props.of.hosts)}</p>
        </>
      )}
    </Show>
    <Show when={props.of.lacking.length > 0}>
      <RecordTable
        label={`Hosts without the newest bundle of ${props.of.channel}, longest silent first`}
        columns={columns}
        rows={props.of.lacking}
        isFailed={({ is_silent: isSilent }) => isSilent}
      />
      <p>
        On a host that was away for the whole change: <code>{props.away}</code>
      </p>
    </Show>
  </div>
);

const countsOf = (hosts: ChannelTrust["hosts"]) => {
  const counted = Object.entries(countWords)
    .map(([name, words]) => ({ count: hosts[name as keyof typeof hosts], words }))
    .filter(({ count }) => count > 0);
  return counted.length === 0
    ? "No host is enrolled."
    : `Hosts: ${counted.map(({ count, words }) => `${formatCount(count)} ${words}`).join(", ")}.`;
};
