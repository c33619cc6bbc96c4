import { useNavigate } from "@solidjs/router";
import { createSelector, createSignal, For, onCleanup, Show } from "solid-js";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import { createMedia } from "#ui/app/browser/create-media.ts";
import { Icon, StateMark } from "#ui/app/design/icon.tsx";
import type { TimeZone } from "#ui/app/format/format.ts";
import type { Order } from "../view/view-state.ts";
import { drawAhead, type LiveRow } from "./create-rows.ts";
import { type AgeView, plainColumns, type RowView, type Tone } from "./row-view.ts";
import { columns, type TableColumn, type TablePreferences } from "./table-preferences.ts";

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
 * The collectors of a page; a skeleton of the same dimensions while they load. Narrow screens scroll it in a region of its own, which
 * takes the focus; wide ones scroll it with the page, under a sticky header.
 */
export const FleetTable = (props: TableProps) => {
  const navigate = useNavigate();
  const wide = createMedia("(min-width: 2000px)");
  const shownColumns = () => columns.filter((column) => wide() || !("wide" in column));
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
      <table
        class="fleet-table"
        data-density={props.preferences.density}
        data-hidden={props.preferences.hidden.join(" ")}
        aria-busy={props.busy}
      >
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
                    wide={wide()}
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
const Header = (props: TableProps & { columns: readonly TableColumn[] }) => (
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
const ColumnHeader = (props: TableProps & { column: TableColumn }) => {
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
            <Show when={props.column.timed}> {props.zone === "utc" ? "UTC" : "local time"}</Show>
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
 * One collector. Its link opens the drawer; the table handles clicks elsewhere on the row. Style alone hides columns, nothing here ticks,
 * and texts are properties of few templates: two hundred rows cost no more than their elements, and an update compares their texts once.
 */
const Row = (props: {
  row: RowView;
  href: string;
  current: boolean;
  wide: boolean;
  labels: readonly string[];
}) => (
  <tr
    data-id={props.row.id}
    data-calm={props.row.calm ? "" : undefined}
    aria-current={props.current ? "true" : undefined}
  >
    <td class="column-state">
      <StateMark state={props.row.state} />
      <span class={cut(props.row.since, 26, "second")} textContent={props.row.since} />
    </td>
    <NameCell row={props.row} href={props.href} />
    <Show when={props.wide}>
      <td class={cut(props.row.why, 36, "column-why")} title={props.row.why}>
        {props.row.why}
      </td>
    </Show>
    <AgeCell name="heartbeat" age={props.row.heartbeat} />
    <AgeCell name="forwarding" age={props.row.forwarding} />
    <Show when={props.wide}>
      {plainColumns.map(({ name }) => (
        <td
          class={`column-${name}`}
          data-tone={props.row.plain[name].tone}
          textContent={props.row.plain[name].text}
        />
      ))}
    </Show>
    <ConfigCell row={props.row} />
    <FactCells row={props.row} />
    <Show when={props.wide}>
      <td class={cut(props.row.hostname, 20, "column-hostname")}>
        <bdi title={props.row.hostname}>{props.row.hostname}</bdi>
      </td>
      <LinesCell
        class={cut(props.row.core, 20, "column-core")}
        text={props.row.core}
        title={props.row.core}
        second={props.row.subnet}
      />
    </Show>
    <For each={props.labels}>
      {(key) => (
        <LabelCell
          value={Object.hasOwn(props.row.labels, key) ? (props.row.labels[key] ?? "") : ""}
        />
      )}
    </For>
  </tr>
);

const NameCell = (props: { row: RowView; href: string }) => (
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

const ConfigCell = (props: { row: RowView }) => (
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

/** Queue, certificate and version. */
const FactCells = (props: { row: RowView }) => (
  <>
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
    <LinesCell
      class="column-certificate"
      text={props.row.certificate}
      tone={props.row.certificateTone}
      title={props.row.certificateAt}
      second={props.row.renewal}
      secondTone={props.row.renewalTone}
      fits={22}
    />
    <LinesCell
      class={cut(props.row.version, 14, "column-version")}
      textClass="mono"
      text={props.row.version}
      tone={props.row.versionTone}
      title={props.row.version}
      second={props.row.platform}
      fits={18}
    />
  </>
);

const LabelCell = (props: { value: string }) => (
  <td class={cut(props.value, 14, "column-label")} title={props.value} textContent={props.value} />
);
