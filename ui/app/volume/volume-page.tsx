import { createMemo, Show } from "solid-js";
import * as v from "valibot";
import { type Budget, BudgetList } from "#proto/budget.ts";
import { isUnusual, unusualVolume, VolumeReport } from "#proto/volume.ts";
import { createReport } from "../api/live-report.tsx";
import { Chips } from "../design/record-list.tsx";
import { type RecordColumns, RecordTable } from "../design/record-table.tsx";
import { List, Loaded, Notice, Shown } from "../design/report-parts.tsx";
import { Sparkline } from "../design/sparkline.tsx";
import {
  formatBytes,
  formatCount,
  formatCountOf,
  formatPart,
  formatTimestamp,
  plainText,
} from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createListPage, PageFrame } from "../shell/page.tsx";
import "./volume-page.css";

const splits = { "By host": null, "By kind": "kind", "By source": "source" };
const ranges = { "24 hours": null, "7 days": "7d", "30 days": "30d" };

/** What the page needs of the facets of the fleet. */
const LabelKeys = v.object({ labels: v.array(v.object({ key: v.string() })) });
const labelsShown = 6;

type Item = VolumeReport["items"][number];

/** `/data/volume`: what core stored over time, and which hosts, kinds, sources or labels sent the most of it. */
export const VolumePage = () => {
  const { page, report, params, pathOf, chip, chips } = createListPage({
    path: "/data/volume",
    schema: VolumeReport,
  });
  const label = () => /^label:(.*)$/s.exec(params().get("by") ?? "")?.[1];
  const facets = createReport({
    schema: LabelKeys,
    path: () => "/api/core/collector/health/facets",
    intervalMs: 600_000,
    paused: page.paused,
  });
  const budgets = createReport({
    schema: BudgetList,
    path: () => "/api/core/collector/budgets",
    paused: page.paused,
  });
  /** The label of the address first, whether the fleet has it or not. */
  const labelKeys = createMemo(() => {
    const known = facets.value()?.labels.map(({ key }) => key) ?? [];
    return [...new Set([label() ?? [], known].flat())].slice(0, labelsShown);
  });
  const nameOf = () =>
    label() ??
    { host: "Host", kind: "Kind", source: "Kind and source" }[params().get("by") ?? "host"] ??
    "Part";
  return (
    <PageFrame of={page} class="volume-page">
      <Chips
        label="Split by"
        chips={[
          ...chips("by", splits),
          ...labelKeys().map((key) => chip(`By label ${key}`, { by: `label:${key}` })),
        ]}
      />
      <Chips label="Time" chips={chips("from", ranges, { to: null })} />
      <Loaded
        report={report}
        what="volume"
        heading
        instead={{ href: "/data/volume", words: "Show the last 24 hours by host" }}
      >
        {(known) => (
          <Show when={known().items.length > 0} fallback={<NoVolume />}>
            <Shown by={report} class="page">
              <p>{headlineOf(known())}</p>
              <Series report={known()} hrefOf={(from, to) => pathOf({ from, to })} />
              <Show when={known().by === "source"}>
                <p class="quiet">
                  Counted by the hosts, in days of their clocks: what they accepted, not what is
                  stored.
                </p>
              </Show>
              <Parts name={nameOf()} report={known()} />
            </Shown>
          </Show>
        )}
      </Loaded>
      <Budgets items={budgets.value()?.items ?? []} />
    </PageFrame>
  );
};

/** The bytes over time, as bars and as figures; a click shows who sent them. */
const Series = (props: { report: VolumeReport; hrefOf: (from: string, to: string) => string }) => {
  const { times } = usePageContext();
  const bars = () =>
    props.report.series.map(({ from, envelopes, payload_bytes: bytes }) => {
      const at = formatTimestamp(from, props.report.step_seconds < 86_400 ? times.zone() : "utc");
      const words =
        envelopes === 0
          ? "nothing"
          : `${formatBytes(bytes)} in ${formatCountOf(envelopes, "envelope")}`;
      const to = new Date(Date.parse(from) + props.report.step_seconds * 1000).toISOString();
      return { value: bytes, name: `From ${at}: ${words}`, href: props.hrefOf(from, to) };
    });
  return (
    <>
      <figure class="volume-series" aria-label="Bytes over time">
        <Sparkline bars={bars()} />
        <figcaption>
          <span>{times.text(props.report.from)}</span>
          <span>{times.text(props.report.to)}</span>
        </figcaption>
      </figure>
      <details>
        <summary>Figures</summary>
        <List of={bars().toReversed()}>{({ name, href }) => <a href={href}>{name}</a>}</List>
      </details>
    </>
  );
};

const NoVolume = () => (
  <Notice title="Nothing was stored in this time" href="/fleet" link="See which hosts forward">
    <p>Here stands how much core stores over time, and which hosts sent the most of it.</p>
  </Notice>
);

/** The parts with the most bytes. */
const Parts = (props: { name: string; report: VolumeReport }) => (
  <>
    <RecordTable
      label="Most bytes first"
      columns={columnsOf(props.name, props.report)}
      rows={props.report.items}
      isFailed={({ day }) => day !== undefined && isUnusual(day)}
    />
    <Show when={props.report.parts > props.report.items.length}>
      <p class="quiet">
        The first {formatCount(props.report.items.length)} of {formatCount(props.report.parts)}.{" "}
        <code>svc-admin volume --limit 1000</code> lists more.
      </p>
    </Show>
  </>
);

/** How much core stores of each host in an hour, and how many hosts each budget holds; nothing without one. */
const Budgets = (props: { items: readonly Budget[] }) => (
  <Show when={props.items.length > 0}>
    <section aria-label="Budgets">
      <h2>Budgets</h2>
      <List of={props.items}>
        {({ name, filter, bytes_per_hour: bytes, held_hosts: held }) => (
          <>
            {plainText(name)}: {formatBytes(bytes)} an hour for each host{" "}
            <Show when={filter !== ""} fallback="of the fleet">
              of <code>{plainText(filter)}</code>
            </Show>
            <Show when={held > 0}>
              , <a href="/fleet?budget=held">{formatCountOf(held, "host")} held</a>
            </Show>
          </>
        )}
      </List>
    </section>
  </Show>
);

const columnsOf = (
  name: string,
  { total, items, disk_bytes: disk, by }: VolumeReport,
): RecordColumns<Item> => ({
  [name]: (item) => <Name item={item} />,
  Bytes: { isNumber: true, cell: ({ payload_bytes: bytes }) => formatBytes(bytes) },
  Share: {
    isNumber: true,
    cell: ({ payload_bytes: bytes }) => (
      <Share of={bytes} most={items[0]?.payload_bytes ?? bytes} total={total.payload_bytes} />
    ),
  },
  Envelopes: { isNumber: true, cell: ({ envelopes }) => formatCount(envelopes) },
  ...(disk === null
    ? {}
    : {
        "On disk": {
          isNumber: true,
          cell: ({ disk_bytes: bytes }: Item) => (bytes === null ? "" : formatBytes(bytes)),
        },
      }),
  ...(by !== "host"
    ? {}
    : {
        "A usual day": {
          isNumber: true,
          cell: ({ day }: Item) =>
            day == null || day.usual_bytes === null ? (
              <span class="quiet">not known yet</span>
            ) : (
              formatBytes(day.usual_bytes)
            ),
        },
      }),
});

const Name = (props: { item: Item }) => (
  <>
    <Show
      when={props.item.identity_id}
      fallback={plainText(props.item.name ?? "without this label")}
    >
      {(id) => (
        <a href={`/hosts/${id()}`}>{plainText(props.item.device_id ?? props.item.name ?? "")}</a>
      )}
    </Show>
    <Show when={props.item.day && isUnusual(props.item.day)}>
      {" "}
      <strong class="volume-mark">{unusualVolume.times}× its usual</strong>
    </Show>
  </>
);

/** A share as its figure, and as a bar beside the longest of all parts. */
const Share = (props: { of: number; most: number; total: number }) => (
  <span class="state-mark volume-share">
    <span
      class="volume-bar"
      style={{ "--share": `${(props.of / Math.max(1, props.most)) * 100}%` }}
    />
    <span class="volume-percent">{formatPart(props.of, props.total)}</span>
  </span>
);

const headlineOf = ({ total, parts, by, retention_days: days, disk_bytes: disk }: VolumeReport) => {
  const hosts = by === "host" ? ` of ${formatCountOf(parts, "host")}` : "";
  const sent = `${formatBytes(total.payload_bytes)} in ${formatCountOf(total.envelopes, "envelope")}${hosts}`;
  return disk === null || days === null
    ? `${sent}.`
    : `${sent}. At this rate ${formatCountOf(days, "day")} of retention take ${formatBytes(disk)} on disk.`;
};
