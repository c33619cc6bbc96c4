import type { Terminal } from "./terminal.ts";

/** The forms of `-o`. */
export const formats = ["table", "json", "csv", "yaml"] as const;

/** One of `formats`. */
export type Format = (typeof formats)[number];

/** A column of tables and CSV. */
export interface Column<Row> {
  title: string;
  value(row: Row): string | number | boolean | null | undefined;
}

/** Writes rows as a table or CSV of columns, or as the API returned them. */
export const printRows = async <Row>(
  { out }: Pick<Terminal, "out">,
  { format, columns, rows }: { format: Format; columns: readonly Column<Row>[]; rows: readonly Row[] },
): Promise<void> => {
  if (format === "json") out.write(`${JSON.stringify(rows, null, 2)}\n`);
  else if (format === "yaml") out.write((await import("yaml")).stringify(rows));
  else {
    const lines = [
      columns.map(({ title }) => title),
      ...rows.map((row) => columns.map((column) => textOf(column, row))),
    ];
    out.write(format === "csv" ? csvOf(lines) : tableOf(lines));
  }
};

/** Writes one object: a line for each member in a table, else as `printRows` does. */
export const printRecord = async (
  terminal: Pick<Terminal, "out">,
  { format, record }: { format: Format; record: object },
): Promise<void> => {
  const { out } = terminal;
  if (format === "json") out.write(`${JSON.stringify(record, null, 2)}\n`);
  else if (format === "yaml") out.write((await import("yaml")).stringify(record));
  else {
    const rows = Object.entries(record).map(([name, value]) => ({ name, value: plain(value) }));
    const columns: Column<(typeof rows)[number]>[] = [
      { title: "field", value: ({ name }) => name },
      { title: "value", value: ({ value }) => value },
    ];
    await printRows(terminal, { format, columns, rows });
  }
};

const plain = (value: unknown): string => {
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return value.join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
};

const textOf = <Row>(column: Column<Row>, row: Row): string => String(column.value(row) ?? "");

/** Columns are separated by two spaces; the last one is not padded. Control characters never reach the terminal. */
const tableOf = (lines: readonly (readonly string[])[]): string => {
  const shown = lines.map((line) => line.map(visible));
  const widths = (shown[0] ?? []).map((_, index) => Math.max(...shown.map((line) => (line[index] ?? "").length)));
  return shown
    .map(
      (line) =>
        `${line
          .map((cell, index) => cell.padEnd(widths[index] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
};

/** Text of hosts, such as a hostname, may hold escape sequences, which would command the terminal. */
const visible = (text: string): string => text.replace(/\p{Cc}/gu, "\ufffd");

/** RFC 4180. A cell that a spreadsheet would evaluate is prefixed with an apostrophe, as in the exports of the page. */
const csvOf = (lines: readonly (readonly string[])[]): string =>
  lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");

const csvCell = (text: string): string => {
  const safe = /^[=+\-@＝\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
