import { useNavigate } from "@solidjs/router";
import { createSelector, For, Show } from "solid-js";
import type { FleetSort } from "../../../../proto/fleet-health/vocabulary.ts";
import { Icon, StateMark } from "../../design/icon.tsx";
import type { Order } from "../view/view-state.ts";
import type { AgeView, HashView, RowView } from "./row-view.ts";
import { columns, type TablePreferences } from "./table-preferences.ts";

const skeletonRows = Array.from({ length: 12 }, (_, index) => index);

/**
 * The collectors of a page; a skeleton of the same dimensions while they load. Narrow screens scroll it in a region of its own, which
 * takes the focus; wide ones scroll it with the page, under a sticky header.
 */
export const FleetTable = (props: {
  rows: readonly RowView[] | undefined;
  preferences: TablePreferences;
  sort: FleetSort;
  order: Order;
  /** The rows are of another view, or loading. */
  busy: boolean;
  currentId: string | undefined;
  hrefOfRow: (id: string) => string;
  hrefOfSort: (sort: FleetSort) => string;
}) => {
  const navigate = useNavigate();
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
    <section class="fleet-scroll" aria-label="Collectors" tabindex="0">
      <table
        class="fleet-table"
        data-density={props.preferences.density}
        data-hidden={props.preferences.hidden.join(" ")}
        aria-busy={props.busy}
      >
        <caption class="visually-hidden">
          Collectors, {props.rows === undefined ? "loading" : `${props.rows.length} on this page`}
        </caption>
        <thead>
          <tr>
            <For each={columns}>
              {(column) => (
                <th
                  scope="col"
                  class={`column-${column.name}`}
                  aria-sort={sorted("sort" in column ? column.sort : undefined)}
                >
                  <Show when={"sort" in column && column} fallback={column.label}>
                    {(sortable) => (
                      <a class="sort" href={props.hrefOfSort(sortable().sort)} noScroll>
                        {column.label}
                        <Icon name={sorted(sortable().sort) ?? "sortable"} />
                      </a>
                    )}
                  </Show>
                  <Show when={"detail" in column && column.detail}>
                    {(detail) => <span class="column-detail">{detail()}</span>}
                  </Show>
                </th>
              )}
            </For>
          </tr>
        </thead>
        <Show when={props.rows} fallback={<Skeleton />}>
          {(rows) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the row's link does the same by keyboard
            <tbody onClick={openRow}>
              <For each={rows()}>
                {(row) => <Row row={row} href={props.hrefOfRow(row.id)} current={isCurrent(row.id)} />}
              </For>
            </tbody>
          )}
        </Show>
      </table>
    </section>
  );
};

const Skeleton = () => (
  <tbody class="skeleton" aria-hidden="true">
    <For each={skeletonRows}>
      {() => (
        <tr>
          <For each={columns}>
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
);

/**
 * One collector. Its link opens the drawer; the table handles clicks elsewhere on the row. Style alone hides columns, and nothing here
 * ticks, so that two hundred rows cost no more than their texts.
 */
const Row = (props: { row: RowView; href: string; current: boolean }) => (
  <tr data-id={props.row.id} aria-current={props.current ? "true" : undefined}>
    <td class="column-state">
      <StateMark state={props.row.state} />
      <span class="second">{props.row.since}</span>
    </td>
    <th class="column-device" scope="row">
      <RowLink device={props.row.device} href={props.href} />
      <Second text={props.row.identity} />
    </th>
    <td class="column-heartbeat">
      <Age age={props.row.heartbeat} />
    </td>
    <td class="column-forwarding">
      <Age age={props.row.forwarding} />
    </td>
    <td class="column-config">
      <span data-tone={props.row.driftTone}>{props.row.drift}</span>
      <span class="visually-hidden">{props.row.hashesRead}</span>
      <span class="second hashes" aria-hidden="true">
        <Hash hash={props.row.hashes[0]} />
        <Hash hash={props.row.hashes[1]} />
        <Hash hash={props.row.hashes[2]} />
      </span>
    </td>
    <td class="column-queue">
      <span class="queue" data-tone={props.row.queueTone}>
        <svg class="meter" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
          <rect class="meter-track" width="100" height="1" />
          <rect class="meter-fill" width={Math.max(0, props.row.queuePercent)} height="1" />
        </svg>
        {props.row.queue}
      </span>
      <Second text={props.row.queueDetail} />
    </td>
    <td class="column-certificate">
      <span data-tone={props.row.certificateTone} title={props.row.certificateAt}>
        {props.row.certificate}
      </span>
      <span class="second" data-tone={props.row.renewalTone} title={props.row.renewal}>
        {props.row.renewal}
      </span>
    </td>
    <td class="column-version">
      <span class="mono" data-tone={props.row.versionTone} title={props.row.version}>
        {props.row.version}
      </span>
      <Second text={props.row.platform} />
    </td>
  </tr>
);

/** A component of its own, so that another view updates two hundred addresses and nothing else. */
const RowLink = (props: { device: string; href: string }) => (
  <a class="row-link" href={props.href} noScroll title={props.device}>
    {props.device}
  </a>
);

const Second = (props: { text: string }) => (
  <span class="second" title={props.text}>
    {props.text}
  </span>
);

const Age = (props: { age: AgeView }) => (
  <>
    <span class={props.age.never ? "never" : undefined} title={props.age.at}>
      {props.age.text}
    </span>
    <span class="second">{props.age.at.slice(0, 19)}</span>
  </>
);

const Hash = (props: { hash: HashView }) => (
  <span class="hash" data-group={props.hash.group}>
    {props.hash.text}
  </span>
);
