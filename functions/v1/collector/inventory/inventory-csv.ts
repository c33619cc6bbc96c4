import * as v from "valibot";
import { CsvFault, csvRecords, type ReadRecord } from "#functions/http/read-csv.ts";
import { fieldErrors } from "#functions/http/route.ts";
import { Problem } from "#functions/problems.ts";
import type { FieldError } from "#kit/problem.ts";
import { InventoryHost, inventoryHostsMax } from "#proto/inventory/inventory.ts";
import { isLabelKey } from "#proto/labels.ts";

const errorsMax = 32;
const labelPrefix = "label.";

/**
 * Parses the inventory of a CSV file, whose first line names the columns: `name`, and optionally `owner` and `label.KEY`. An empty cell is
 * no owner or no label. Throws 422 `inventory_invalid` with the line of each fault, and never quotes a value.
 */
export const readInventoryCsv = (text: string): { hosts: InventoryHost[] } => {
  try {
    return { hosts: hostsOf(csvRecords(text)) };
  } catch (error) {
    if (error instanceof CsvFault)
      throw invalid([{ path: "", line: error.line, message: error.message }]);
    throw error;
  }
};

const hostsOf = (records: Generator<ReadRecord, void, void>): InventoryHost[] => {
  const first = records.next();
  if (first.done) throw invalid([{ path: "", line: 1, message: "must name the columns" }]);
  const columns = columnsOf(first.value);
  const lineOf = new Map<string, number>();
  const hosts: InventoryHost[] = [];
  const errors: FieldError[] = [];
  for (const record of records) {
    if (errors.length >= errorsMax) break;
    const { line } = record;
    if (hosts.length === inventoryHostsMax)
      throw invalid([{ path: "", line, message: `must have at most ${inventoryHostsMax} hosts` }]);
    const host = parseHost(columns, record);
    if ("faults" in host) {
      errors.push(...host.faults);
      continue;
    }
    const before = lineOf.get(host.name);
    if (before === undefined) lineOf.set(host.name, line);
    else errors.push({ path: "name", line, message: `is the name of line ${before} too` });
    hosts.push(host);
  }
  if (errors.length > 0) throw invalid(errors.slice(0, errorsMax));
  return hosts;
};

const parseHost = (
  columns: readonly string[],
  { line, cells }: ReadRecord,
): InventoryHost | { faults: FieldError[] } => {
  if (cells.length !== columns.length) {
    const message = `has ${cells.length} cells under ${columns.length} columns`;
    return { faults: [{ path: "", line, message }] };
  }
  const result = v.safeParse(InventoryHost, hostOf(columns, cells), { abortPipeEarly: true });
  return result.success
    ? result.output
    : { faults: fieldErrors(result.issues).map((error) => ({ ...error, line })) };
};

const columnsOf = ({ line, cells }: ReadRecord): string[] => {
  const names = cells.map((cell) => cell.trim());
  const errors = names.flatMap((name, index): FieldError[] => {
    const isKnown =
      name === "name" ||
      name === "owner" ||
      (name.startsWith(labelPrefix) && isLabelKey(name.slice(labelPrefix.length)));
    const column = index + 1;
    if (!isKnown) return [{ path: "", line, column, message: "must be name, owner or label.KEY" }];
    return names.indexOf(name) < index
      ? [{ path: "", line, column, message: "is there twice" }]
      : [];
  });
  if (!names.includes("name"))
    errors.push({ path: "", line, message: "must have the column name" });
  if (errors.length > 0) throw invalid(errors.slice(0, errorsMax));
  return names;
};

const hostOf = (columns: readonly string[], cells: readonly string[]): Record<string, unknown> => {
  const labels: Record<string, string> = {};
  const host: Record<string, unknown> = { labels };
  for (const [index, column] of columns.entries()) {
    const cell = (cells[index] ?? "").trim();
    if (column.startsWith(labelPrefix)) {
      if (cell !== "") labels[column.slice(labelPrefix.length)] = cell;
    } else host[column] = column === "owner" && cell === "" ? null : cell;
  }
  return host;
};

const invalid = (errors: readonly FieldError[]): Problem =>
  new Problem("inventory_invalid", { errors });
