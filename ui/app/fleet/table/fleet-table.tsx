import { useNavigate } from "@solidjs/router";
import {
  type Component,
  createMemo,
  createSelector,
  createSignal,
  For,
  onCleanup,
  Show,
} from "solid-js";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import { createMedia } from "#ui/app/browser/create-media.ts";
import { Icon, StateMark } from "#ui/app/design/icon.tsx";
import type { TimeZone } from "#ui/app/format/format.ts";
import type { Order } from "../view/view-state.ts";
import { drawAhead, type LiveRow } from "./create-rows.ts";
import type { AgeView, PlainColumn, RowView, Tone } from "./row-view.ts";
import { type ColumnName, columns, phoneMax, type TablePreferences } from "./table-preferences.ts";

const skeletonRows = Array.from({ length: 12 }, (_, index) => index);
/** The skeleton takes as long to draw as the rows, so an answer that arrives within this time needs none. */
const skeletonAfterMs = 200;

interface TableProps {
  rows: readonly LiveRow[] | undefined;
  preferences: TablePreferences;
  sort: FleetSort;
  order: Order;
  zone: TimeZone;
  /** The rows are of another view, or loading. */
  busy: boolean;
  currentId: string | undefined;
  hrefOfRow: (id: string) => string;
  /** Undefined where there is no such order. */
  hrefOfSort: (sort: FleetSort) => string | undefined;
}

/**
 * The collectors of a page; a skeleton of the same dimensions while they load. It scrolls in a region of its own, which takes the focus; wide
 * screens and phones scroll it with the page, under a sticky header.
 */
export const FleetTable = (props: TableProps) => {
  const navigate = useNavigate();
  const hasRoom = columns.map(({ from = phoneMax + 1, isBrief }) =>
    createMedia(isBrief ? `(max-width: ${phoneMax / 16}em)` : `(min-width: ${from / 16}em)`),
  );
  // Other preferences leave it as it is, so that they draw no cells anew.
  const hidden = createMemo(() => props.preferences.hidden);
  const shownColumns = createMemo(() =>
    columns.filter(({ name }, index) => hasRoom[index]?.() && !hidden().includes(name)),
  );
  const isCurrent = createSelector(() => props.currentId);
  const openRow = (event: MouseEvent & { target: Element }) => {
    if (event.target.closest("a") !== null || getSelection()?.isCollapsed === false) return;
    const id = event.target.closest<HTMLElement>("tr[data-id]")?.dataset.id;
    if (id !== undefined) navigate(props.hrefOfRow(id), { scroll: false });
  };
  return (
    // A region that scrolls must be reachable by keyboard (WCAG 2.1.1).
    <section
      class="fleet-scroll"
      data-labels={props.preferences.labels.length > 0 ? "" : undefined}
      aria-label="Hosts"
      tabindex="0"
    >
      <table class="fleet-table" data-density={props.preferences.density} aria-busy={props.busy}>
        <caption class="visually-hidden">
          Hosts, {props.rows === undefined ? "loading" : `${props.rows.length} on this page`}
        </caption>
        <Header {...props} columns={shownColumns()} />
        <Show
          when={props.rows}
          fallback={
            <Skeleton
              columns={[...shownColumns(), ...props.preferences.labels.map(() => labelColumn)]}
            />
          }
        >
          {(rows) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the row's link does the same by keyboard
            <tbody ref={drawAhead} onClick={openRow}>
              <For each={rows()}>
                {(row) => (
                  <Row
                    row={row.view()}
                    href={props.hrefOfRow(row.id)}
                    current={isCurrent(row.id)}
                    columns={shownColumns()}
                    labels={props.preferences.labels}
                  />
                )}
              </For>
            </tbody>
          )}
        </Show>
      </table>
    </section>
  );
};

const labelColumn = { name: "label" };

/** The header of the columns, and of the labels that have one. */
const Header = (props: TableProps & { columns: typeof columns }) => (
  <thead>
    <tr>
      <For each={props.columns}>{(column) => <ColumnHeader {...props} column={column} />}</For>
      <For each={props.preferences.labels}>
        {(key) => (
          <th scope="col" class={cut(key, 14, "column-label")} title={`label ${key}`}>
            {key}
            <span class="column-detail">label</span>
          </th>
        )}
      </For>
    </tr>
  </thead>
);

/** A column's name, which sorts by it where that is possible, and its detail. */
const ColumnHeader = (props: TableProps & { column: (typeof columns)[number] }) => {
  const sorted = (): "ascending" | "descending" | undefined => {
    if (props.column.sort === undefined || props.column.sort !== props.sort) return undefined;
    return props.order === "asc" ? "ascending" : "descending";
  };
  return (
    <th scope="col" class={`column-${props.column.name}`} aria-sort={sorted()}>
      <Show
        when={props.column.sort && props.hrefOfSort(props.column.sort)}
        fallback={props.column.label}
      >
        {(href) => (
          <a class="sort" href={href()} noScroll>
            {props.column.label}
            <Icon name={sorted() ?? "sortable"} />
          </a>
        )}
      </Show>
      <Show when={props.column.detail}>
        {(detail) => (
          <span class="column-detail">
            {detail()}
            <Show when={props.column.isTimed}> {props.zone === "utc" ? "UTC" : "local time"}</Show>
          </span>
        )}
      </Show>
    </th>
  );
};

const Skeleton = (props: { columns: readonly { name: string }[] }) => {
  const [shown, setShown] = createSignal(false);
  const timer = setTimeout(() => setShown(true), skeletonAfterMs);
  onCleanup(() => clearTimeout(timer));
  return (
    <Show when={shown()}>
      <tbody class="skeleton" aria-hidden="true">
        <For each={skeletonRows}>
          {() => (
            <tr>
              <For each={props.columns}>
                {({ name }) => (
                  <td class={`column-${name}`}>
                    <span class="skeleton-bar" />
                    <span class="skeleton-bar skeleton-second" />
                  </td>
                )}
              </For>
            </tr>
          )}
        </For>
      </tbody>
    </Show>
  );
};

/** Marks only a text that may not fit as cut: each clip costs time when the browser draws two hundred rows. */
const cut = (text: string, fits: number, name: string) =>
  text.length > fits ? `${name} cut` : name;

/**
 * One collector. Its link opens the drawer; the table handles clicks elsewhere on the row. Nothing here ticks, and texts are properties of
 * few templates: two hundred rows cost no more than their elements, and an update compares their texts once.
 */
const Row = (
  props: Omit<CellProps, "name"> & {
    current: boolean;
    columns: typeof columns;
    labels: readonly string[];
  },
) => (
  <tr
    data-id={props.row.id}
    data-calm={props.row.calm ? "" : undefined}
    aria-current={props.current ? "true" : undefined}
  >
    {props.columns.map(({ name }) => {
      const Cell = cells[name] ?? PlainCell;
      return <Cell name={name} row={props.row} href={props.href} />;
    })}
    <For each={props.labels}>
      {(key) => (
        <CutCell
          name="label"
          text={Object.hasOwn(props.row.labels, key) ? (props.row.labels[key] ?? "") : ""}
          fits={14}
        />
      )}
    </For>
  </tr>
);

interface CellProps {
  name: ColumnName;
  row: RowView;
  href: string;
}

const StateCell = (props: CellProps) => (
  <td class="column-state">
    <StateMark state={props.row.state} />
    <span class={cut(props.row.since, 26, "second")} textContent={props.row.since} />
  </td>
);

const NameCell = (props: CellProps) => (
  <th class={cut(props.row.device, 24, "column-device")} scope="row">
    <a class="row-link" href={props.href} noScroll title={props.row.device}>
      {props.row.device}
    </a>
    {/* Where there is too little room, the middle of the identity is cut. */}
    <span class="second identity" title={props.row.identity}>
      <span
        classList={{ "identity-start": props.row.identity.length > 30 }}
        style={{ "max-inline-size": `calc(100% - ${props.row.identityTail}ch)` }}
        textContent={props.row.identity.slice(0, -props.row.identityTail)}
      />
      <span textContent={props.row.identity.slice(-props.row.identityTail)} />
    </span>
  </th>
);

/** A text, and a second one below it, which is cut where it does not fit. */
const LinesCell = (props: {
  class: string;
  text: string;
  textClass?: string | undefined;
  tone?: Tone;
  title?: string;
  second: string;
  secondTone?: Tone;
  fits?: number;
}) => (
  <td class={props.class}>
    <span
      class={props.textClass}
      data-tone={props.tone}
      title={props.title}
      textContent={props.text}
    />
    <span
      class={cut(props.second, props.fits ?? Number.POSITIVE_INFINITY, "second")}
      data-tone={props.secondTone}
      title={props.fits === undefined ? undefined : props.second}
      textContent={props.second}
    />
  </td>
);

const AgeCell = (props: { name: string; age: AgeView }) => (
  <LinesCell
    class={`column-${props.name}`}
    text={props.age.text}
    textClass={props.age.never ? "never" : undefined}
    title={props.age.at}
    second={props.age.short}
  />
);

/** A text that is cut where it does not fit. */
const CutCell = (props: { name: string; text: string; fits: number }) => (
  <td
    class={cut(props.text, props.fits, `column-${props.name}`)}
    title={props.text}
    textContent={props.text}
  />
);

/** A column of one text. */
const PlainCell = (props: CellProps) => {
  const cell = () => props.row.plain[props.name as PlainColumn];
  return <td class={`column-${props.name}`} data-tone={cell().tone} textContent={cell().text} />;
};

const ConfigCell = (props: CellProps) => (
  <td class="column-config">
    <span data-tone={props.row.driftTone} textContent={props.row.drift} />
    <span class="second hashes" role="img" aria-label={props.row.hashesRead}>
      {([0, 1, 2] as const).map((index) => (
        <span
          class="hash"
          data-group={props.row.hashes[index]?.group}
          textContent={props.row.hashes[index]?.text ?? ""}
        />
      ))}
    </span>
  </td>
);

const QueueCell = (props: CellProps) => (
  <td class="column-queue">
    <span class="queue" data-tone={props.row.queueTone}>
      <span class="meter" style={{ "--fill": `${Math.max(0, props.row.queuePercent)}%` }} />
      <span textContent={props.row.queue} />
    </span>
    <span
      class={cut(props.row.queueDetail, 22, "second")}
      title={props.row.queueDetail}
      textContent={props.row.queueDetail}
    />
  </td>
);

/** The cells of the columns that are more than one text. */
const cells: Readonly<Partial<Record<ColumnName, Component<CellProps>>>> = {
  state: StateCell,
  device: NameCell,
  why: (props) => <CutCell name="why" text={props.row.why} fits={36} />,
  brief: (props) => (
    <LinesCell class="column-brief" text={props.row.why} second={props.row.lastHeartbeat} />
  ),
  heartbeat: (props) => <AgeCell name="heartbeat" age={props.row.heartbeat} />,
  forwarding: (props) => <AgeCell name="forwarding" age={props.row.forwarding} />,
  config: ConfigCell,
  queue: QueueCell,
  certificate: (props) => (
    <LinesCell
      class="column-certificate"
      text={props.row.certificate}
      tone={props.row.certificateTone}
      title={props.row.certificateAt}
      second={props.row.renewal}
      secondTone={props.row.renewalTone}
      fits={22}
    />
  ),
  version: (props) => (
    <LinesCell
      class={cut(props.row.version, 14, "column-version")}
      textClass="mono"
      text={props.row.version}
      tone={props.row.versionTone}
      title={props.row.version}
      second={props.row.platform}
      fits={18}
    />
  ),
  hostname: (props) => <CutCell name="hostname" text={props.row.hostname} fits={20} />,
  core: (props) => (
    <LinesCell
      class={cut(props.row.core, 20, "column-core")}
      text={props.row.core}
      title={props.row.core}
      second={props.row.subnet}
    />
  ),
} satisfies Readonly<Record<Exclude<ColumnName, PlainColumn>, Component<CellProps>>>;
