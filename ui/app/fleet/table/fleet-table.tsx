import { useNavigate } from "@solidjs/router";
import { createSelector, For, Show } from "solid-js";
import type { FleetSort } from "../../../../proto/fleet-health/vocabulary.ts";
import { Icon } from "../../icons/icon.tsx";
import type { Order } from "../view/view-state.ts";
import { columns, type TableLook } from "./columns.ts";
import { FleetRow } from "./fleet-row.tsx";
import type { RowView } from "./row-view.ts";

const skeletonRows = Array.from({ length: 12 }, (_, index) => index);

/**
 * The collectors of a page. Without rows yet, a skeleton of the same dimensions. Narrow screens scroll it in a region of its own,
 * which takes the focus; wide ones with the page, under a header that stays.
 */
export const FleetTable = (props: {
  rows: readonly RowView[] | undefined;
  look: TableLook;
  sort: FleetSort;
  order: Order;
  /** The rows are of another view, or older than they should be. */
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
        data-density={props.look.density}
        data-hidden={props.look.hidden.join(" ")}
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
                        <Show when={sorted(sortable().sort)} fallback={<Icon name="sortable" />}>
                          {(direction) => <Icon name={direction()} />}
                        </Show>
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
        <Show
          when={props.rows}
          fallback={
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
          }
        >
          {(rows) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the row's link does the same by keyboard
            <tbody onClick={openRow}>
              <For each={rows()}>
                {(row) => <FleetRow row={row} href={props.hrefOfRow(row.id)} current={isCurrent(row.id)} />}
              </For>
            </tbody>
          )}
        </Show>
      </table>
    </section>
  );
};
