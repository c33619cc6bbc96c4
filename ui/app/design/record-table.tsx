import { For, type JSX } from "solid-js";
import "./record-table.css";

/** A column of a table of records. */
export interface RecordColumn<Row> {
  name: string;
  cell: (row: Row) => JSX.Element;
  /** Its numbers are aligned at their end. */
  isNumber?: boolean;
}

/**
 * A table of one page of records. On a narrow screen each row is a block whose cells carry their column's name, so nothing scrolls
 * sideways; explicit roles keep it a table for assistive technology.
 */
export const RecordTable = <Row,>(props: {
  label: string;
  columns: readonly RecordColumn<Row>[];
  rows: readonly Row[];
  /** Marks rows that failed or need attention. */
  isFailed?: (row: Row) => boolean;
}) => (
  // biome-ignore-start lint/a11y/noRedundantRoles: a table that is not laid out as one loses its roles
  <table class="record-table" role="table" aria-label={props.label}>
    <thead role="rowgroup">
      <tr role="row">
        <For each={props.columns}>
          {(column) => (
            <th role="columnheader" scope="col" data-number={column.isNumber ? "" : undefined}>
              {column.name}
            </th>
          )}
        </For>
      </tr>
    </thead>
    <tbody role="rowgroup">
      <For each={props.rows}>
        {(row) => (
          <tr role="row" data-failed={props.isFailed?.(row) ? "" : undefined}>
            <For each={props.columns}>
              {(column) => (
                <td
                  role="cell"
                  data-name={column.name}
                  data-number={column.isNumber ? "" : undefined}
                >
                  <div>{column.cell(row)}</div>
                </td>
              )}
            </For>
          </tr>
        )}
      </For>
    </tbody>
  </table>
  // biome-ignore-end lint/a11y/noRedundantRoles: see above
);
