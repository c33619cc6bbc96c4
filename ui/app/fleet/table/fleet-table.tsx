import { useNavigate } from "@solidjs/router";
import { createSelector, createSignal, For, onCleanup, Show } from "solid-js";
import type { FleetSort } from "../../../../proto/fleet-health/vocabulary.ts";
import { createMedia } from "../../browser/create-media.ts";
import { Icon, StateMark } from "../../design/parts.tsx";
import type { TimeZone } from "../../format/format.ts";
import type { Order } from "../view/view-state.ts";
import { drawAhead, type LiveRow } from "./create-rows.ts";
import { plainColumns, type RowView } from "./row-view.ts";
import { columns, type TablePreferences } from "./table-preferences.ts";

const skeletonRows = Array.from({ length: 12 }, (_, index) => index);
/** An answer that arrives before needs no skeleton, which takes as long to draw as its rows. */
const skeletonAfterMs = 200;

/**
 * The collectors of a page; a skeleton of the same dimensions while they load. Narrow screens scroll it in a region of its own, which
 * takes the focus; wide ones scroll it with the page, under a sticky header.
 */
export const FleetTable = (props: {
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
}) => {
  const navigate = useNavigate();
  const wide = createMedia("(min-width: 2000px)");
  const shownColumns = () => columns.filter((column) => wide() || !("wide" in column));
  const isCurrent = createSelector(() => props.currentId);
  const openRow = (event: MouseEvent & { target: Element }) => {
    if (event.target.closest("a") !== null || getSelection()?.isCollapsed === false) return;
    const id = event.target.closest<HTMLElement>("tr[data-id]")?.dataset.id;
    if (id !== undefined) navigate(props.hrefOfRow(id), { scroll: false });
  };
  const sorted = (sort: FleetSort | undefined): "ascending" | "descending" | undefined => {
    if (sort === undefined || sort !== props.sort) return undefined;
    return props.order === "asc" ? "ascending" : "descending";
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
        <thead>
          <tr>
            <For each={shownColumns()}>
              {(column) => (
                <th
                  scope="col"
                  class={`column-${column.name}`}
                  aria-sort={sorted("sort" in column ? column.sort : undefined)}
                >
                  <Show
                    when={"sort" in column && props.hrefOfSort(column.sort)}
                    fallback={column.label}
                  >
                    {(href) => (
                      <a class="sort" href={href()} noScroll>
                        {column.label}
                        <Icon
                          name={sorted("sort" in column ? column.sort : undefined) ?? "sortable"}
                        />
                      </a>
                    )}
                  </Show>
                  <Show when={"detail" in column && column.detail}>
                    {(detail) => (
                      <span class="column-detail">
                        {detail()}
                        <Show when={"timed" in column}>
                          {" "}
                          {props.zone === "utc" ? "UTC" : "local time"}
                        </Show>
                      </span>
                    )}
                  </Show>
                </th>
              )}
            </For>
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
        <Show
          when={props.rows}
          fallback={
            <Skeleton
              columns={[
                ...shownColumns(),
                ...props.preferences.labels.map(() => ({ name: "label" })),
              ]}
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

/** Only a text that may not fit is cut: each clip costs when the browser draws two hundred rows. */
const cut = (text: string, fits: number, name: string): string =>
  text.length > fits ? `${name} cut` : name;

/**
 * One collector. Its link opens the drawer; the table handles clicks elsewhere on the row. Style alone hides columns, nothing here ticks,
 * and texts are properties of one template: two hundred rows cost no more than their elements, and an update compares their texts once.
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
    <Show when={props.wide}>
      <td class={cut(props.row.why, 36, "column-why")} title={props.row.why}>
        {props.row.why}
      </td>
    </Show>
    <td class="column-heartbeat">
      <span
        classList={{ never: props.row.heartbeat.never }}
        title={props.row.heartbeat.at}
        textContent={props.row.heartbeat.text}
      />
      <span class="second" textContent={props.row.heartbeat.short} />
    </td>
    <td class="column-forwarding">
      <span
        classList={{ never: props.row.forwarding.never }}
        title={props.row.forwarding.at}
        textContent={props.row.forwarding.text}
      />
      <span class="second" textContent={props.row.forwarding.short} />
    </td>
    <Show when={props.wide}>
      {plainColumns.map(({ name }) => (
        <td
          class={`column-${name}`}
          data-tone={props.row.plain[name].tone}
          textContent={props.row.plain[name].text}
        />
      ))}
    </Show>
    <td class="column-config">
      <span data-tone={props.row.driftTone} textContent={props.row.drift} />
      <span class="second hashes" role="img" aria-label={props.row.hashesRead}>
        <span
          class="hash"
          data-group={props.row.hashes[0].group}
          textContent={props.row.hashes[0].text}
        />
        <span
          class="hash"
          data-group={props.row.hashes[1].group}
          textContent={props.row.hashes[1].text}
        />
        <span
          class="hash"
          data-group={props.row.hashes[2].group}
          textContent={props.row.hashes[2].text}
        />
      </span>
    </td>
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
    <td class="column-certificate">
      <span
        data-tone={props.row.certificateTone}
        title={props.row.certificateAt}
        textContent={props.row.certificate}
      />
      <span
        class={cut(props.row.renewal, 22, "second")}
        data-tone={props.row.renewalTone}
        title={props.row.renewal}
        textContent={props.row.renewal}
      />
    </td>
    <td class={cut(props.row.version, 14, "column-version")}>
      <span
        class="mono"
        data-tone={props.row.versionTone}
        title={props.row.version}
        textContent={props.row.version}
      />
      <span
        class={cut(props.row.platform, 18, "second")}
        title={props.row.platform}
        textContent={props.row.platform}
      />
    </td>
    <Show when={props.wide}>
      <td class={cut(props.row.hostname, 20, "column-hostname")}>
        <bdi title={props.row.hostname}>{props.row.hostname}</bdi>
      </td>
      <td class={cut(props.row.core, 20, "column-core")}>
        <span title={props.row.core} textContent={props.row.core} />
        <span class="second" textContent={props.row.subnet} />
      </td>
    </Show>
    <For each={props.labels}>
      {(key) => {
        const value = () =>
          Object.hasOwn(props.row.labels, key) ? (props.row.labels[key] ?? "") : "";
        return (
          <td class={cut(value(), 14, "column-label")} title={value()} textContent={value()} />
        );
      }}
    </For>
  </tr>
);
