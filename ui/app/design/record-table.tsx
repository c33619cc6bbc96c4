import { createMemo, For, Index, type JSX, Show } from "solid-js";
import { filterToParams } from "#proto/fleet-health/filter.ts";
import { formatCount, plainText } from "../format/format.ts";
import "./record-table.css";
import "./label-links.css";

type Cell<Row> = (row: Row) => JSX.Element;

/** The cells of a table of records, by the names of their columns. Numbers are aligned at their end. */
export type RecordColumns<Row> = Readonly<
  Record<string, Cell<Row> | { isNumber: true; cell: Cell<Row> }>
>;

/**
 * A table of one page of records. On a narrow screen each row is a block whose cells carry their column's name, so nothing scrolls
 * sideways; explicit roles keep it a table for assistive technology. Without a record it says so.
 */
export const RecordTable = <Row,>(props: {
  label: string;
  columns: RecordColumns<Row>;
  rows: readonly Row[];
  /** The heading above the rows that have the same one. */
  headingOf?: ((row: Row) => string) | undefined;
  /** Marks rows that failed or need attention. */
  isFailed?: (row: Row) => boolean;
}) => {
  const columns = createMemo(() =>
    Object.entries(props.columns).map(([name, column]) =>
      typeof column === "function"
        ? { name, cell: column, number: undefined }
        : { name, cell: column.cell, number: "" },
    ),
  );
  const headingAt = (index: number) => {
    const [before, row] = [props.rows[index - 1], props.rows[index]].map(
      (one) => one && props.headingOf?.(one),
    );
    return row === before ? undefined : row;
  };
  return (
    // biome-ignore-start lint/a11y/noRedundantRoles: a table that is not laid out as one loses its roles
    <Show when={props.rows.length > 0} fallback={<p class="quiet">None.</p>}>
      <table class="record-table" role="table" aria-label={props.label}>
        <thead role="rowgroup">
          <tr role="row">
            <For each={columns()}>
              {(column) => (
                <th role="columnheader" scope="col" data-number={column.number}>
                  {column.name}
                </th>
              )}
            </For>
          </tr>
        </thead>
        <tbody role="rowgroup">
          <For each={props.rows}>
            {(row, index) => (
              <>
                <Show when={headingAt(index())}>
                  {(words) => (
                    <tr role="row" class="record-heading">
                      <td role="cell" colspan={columns().length}>
                        <h2>{words()}</h2>
                      </td>
                    </tr>
                  )}
                </Show>
                <tr role="row" data-failed={props.isFailed?.(row) ? "" : undefined}>
                  <For each={columns()}>
                    {(column) => (
                      <td role="cell" data-name={column.name} data-number={column.number}>
                        <div>{column.cell(row)}</div>
                      </td>
                    )}
                  </For>
                </tr>
              </>
            )}
          </For>
        </tbody>
      </table>
    </Show>
    // biome-ignore-end lint/a11y/noRedundantRoles: see above
  );
};

/** Labels, each a link to the hosts that have it; nothing without any. */
export const LabelLinks = (props: { labels: Readonly<Record<string, string>> }) => (
  <Show when={Object.keys(props.labels).length > 0}>
    <ul class="label-links" aria-label="Labels">
      <Index each={Object.entries(props.labels)}>
        {(label) => (
          <li>
            <a
              href={`/fleet?${filterToParams({ label: [label().join(":")] })}`}
              title="Hosts with this label"
            >
              {label().map(plainText).join(": ")}
            </a>
          </li>
        )}
      </Index>
    </ul>
  </Show>
);

/** A count as a link to exactly what it counts; zero is plain text. */
export const CountLink = (props: {
  count: number;
  href: string;
  /** What is counted, for whoever hears the link alone. */
  of?: string;
}) => (
  <Show when={props.count > 0} fallback={<span class="quiet">0</span>}>
    <a href={props.href}>
      {formatCount(props.count)}
      <Show when={props.of}>
        <span class="visually-hidden"> {props.of}</span>
      </Show>
    </a>
  </Show>
);

/** A value, with a second line below it. */
export const TwoLines = (props: { second: JSX.Element; children: JSX.Element }) => (
  <>
    {props.children}
    <Show when={props.second}>
      <span class="second-line">{props.second}</span>
    </Show>
  </>
);

/** The name of a record as a link to its page. */
export const RecordLink = (props: { href: string; children: JSX.Element }) => (
  <a class="record-name" href={props.href}>
    {props.children}
  </a>
);

/** A host as a link to its page, with its identity. */
export const HostCell = (props: {
  of: { identity_id: string; device_id: string; identity: string };
}) => (
  <TwoLines second={plainText(props.of.identity)}>
    <RecordLink href={`/hosts/${props.of.identity_id}`}>{plainText(props.of.device_id)}</RecordLink>
  </TwoLines>
);
