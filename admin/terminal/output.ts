import type { Terminal } from "./terminal.ts";

/** The values of `-o`. */
export const usualFormats = ["table", "json", "csv", "yaml"] as const;

/** The values of `-o` of `svc-admin telemetry read`, the first by default. */
export const telemetryFormats = ["text", "json", "otlp"] as const;

/** The values of `-o` of `svc-admin hosts diag`, the first by default. */
export const diagFormats = ["json", "yaml"] as const;

/** The options of a command that say how it prints. */
export interface OutputOptions {
  format: (typeof usualFormats)[number];
}

/** A column of tables and CSV. */
export interface Column<Row> {
  title: string;
  value(row: Row): string | number | boolean | null | undefined;
}

/** Writes rows as a table or CSV of columns, or as the API returned them. */
export const printRows = async <Row>(
  { out }: Pick<Terminal, "out">,
  { format }: OutputOptions,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): Promise<void> => {
  if (format === "json") out.write(`${jsonOf(rows, 2)}\n`);
  else if (format === "yaml") out.write(await yamlOf(rows));
  else {
    const lines = linesOf(columns, rows, true);
    out.write(format === "csv" ? csvOf(lines) : tableOf(lines, out.columns));
  }
};

/** Prints the rows of a list in parts. */
interface ListPrinter<Row> {
  print(rows: readonly Row[]): Promise<void>;
  /** Ends the list: without it, JSON is not valid, so that a reader of a list that failed notices. */
  end(): Promise<void>;
}

/** Creates a printer whose output is that of `printRows` for all rows. */
export const createListPrinter = <Row>(
  terminal: Pick<Terminal, "out">,
  { format }: OutputOptions,
  columns: readonly Column<Row>[],
): ListPrinter<Row> => {
  const { out } = terminal;
  const all: Row[] = [];
  let printed = 0;
  return {
    print: async (rows) => {
      if (format === "table") all.push(...rows);
      else if (format === "json")
        rows.forEach((row, index) => {
          const text = jsonOf(row, 2).replaceAll("\n", "\n  ");
          out.write(`${printed + index === 0 ? "[" : ","}\n  ${text}`);
        });
      else if (format === "csv") out.write(csvOf(linesOf(columns, rows, printed === 0)));
      else if (rows.length > 0) out.write(await yamlOf(rows));
      printed += rows.length;
    },
    end: async () => {
      if (format === "table") await printRows(terminal, { format }, columns, all);
      else if (format === "json") out.write(printed === 0 ? "[]\n" : "\n]\n");
      else if (format === "yaml" && printed === 0) out.write(await yamlOf([]));
    },
  };
};

/** Returns the cells of rows, below the titles of their columns if these are wanted. */
const linesOf = <Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  hasTitles: boolean,
): string[][] => [
  ...(hasTitles ? [columns.map(({ title }) => title)] : []),
  ...rows.map((row) => columns.map((column) => textOf(column, row))),
];

/**
 * Creates a printer of rows that arrive one after another: one header, and JSON as a line for each row, so that a program reads them as
 * they come.
 */
export const createRowPrinter = <Row>(
  { out }: Pick<Terminal, "out">,
  { format }: OutputOptions,
  columns: readonly Column<Row>[],
): ((rows: readonly Row[]) => Promise<void>) => {
  let hasHeader = false;
  return async (rows) => {
    if (rows.length === 0) return;
    if (format === "json") out.write(rows.map(jsonLine).join(""));
    else if (format === "yaml") out.write(await yamlOf(rows));
    else {
      const lines = linesOf(columns, rows, !hasHeader);
      out.write(format === "csv" ? csvOf(lines) : tableOf(lines, out.columns));
      hasHeader = true;
    }
  };
};

/** Writes one object: a line for each member in a table, else as `printRows` does. */
export const printRecord = async (
  { out }: Pick<Terminal, "out">,
  { format }: OutputOptions,
  record: object,
): Promise<void> => {
  if (format === "json") out.write(`${jsonOf(record, 2)}\n`);
  else if (format === "yaml") out.write(await yamlOf(record));
  else {
    const rows = Object.entries(record).map(([name, value]) => ({ name, value: plain(value) }));
    const columns: Column<(typeof rows)[number]>[] = [
      { title: "field", value: ({ name }) => name },
      { title: "value", value: ({ value }) => value },
    ];
    // A value is shown whole, however narrow the terminal is.
    await printRows({ out: { write: (text) => out.write(text) } }, { format }, columns, rows);
  }
};

/** Writes what core answers, as `printRecord` does. */
export const printAnswer = async (
  terminal: Pick<Terminal, "out">,
  options: OutputOptions,
  answer: Promise<{ data: object }>,
): Promise<void> => printRecord(terminal, options, (await answer).data);

const plain = (value: unknown) => {
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return value.join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
};

const textOf = <Row>(column: Column<Row>, row: Row) => String(column.value(row) ?? "");

/**
 * Columns are separated by two spaces; the last one is not padded. Control characters never reach the terminal. A line that is too long for
 * the terminal is cut, and ends with `…`.
 */
const tableOf = (
  lines: readonly (readonly string[])[],
  terminalColumns = Number.POSITIVE_INFINITY,
) => {
  const shown = lines.map((line) => line.map(withoutControls));
  // Not of spread arguments, of which an engine takes a hundred thousand.
  const widths = (shown[0] ?? []).map((_, at) =>
    shown.reduce((most, line) => Math.max(most, (line[at] ?? "").length), 0),
  );
  return shown
    .map((line) => {
      const text = line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd();
      return `${text.length > terminalColumns ? `${text.slice(0, Math.max(0, terminalColumns - 1))}…` : text}\n`;
    })
    .join("");
};

/** Replaces control characters, as text of hosts may hold escape sequences, which would command the terminal, or reorder its line. */
export const withoutControls = (text: string): string =>
  text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, "\ufffd");

/** Replaces control characters in a text, except tabs and the ends of lines. */
export const plainLines = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => line.split("\t").map(withoutControls).join("\t"))
    .join("\n");

/** Writes a text as it is; to a terminal without control characters, by which somebody's text could hide lines of it. */
export const printText = ({ out }: Pick<Terminal, "out">, text: string): void =>
  void out.write(out.columns === undefined ? text : plainLines(text));

/** Characters that command a terminal or reorder its line. Line feeds are the layout's. */
const commanding = /(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
const escaped = (character: string) =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Returns JSON that commands no terminal: `JSON.stringify` leaves the C1 controls, of which U+009B begins an escape sequence, as they are. */
const jsonOf = (value: unknown, indent = 0) =>
  JSON.stringify(value, null, indent).replace(commanding, escaped);

/** Returns a value as one line of JSON. */
export const jsonLine = (value: unknown): string => `${jsonOf(value)}\n`;

/** RFC 4180. A cell that a spreadsheet would evaluate is prefixed with an apostrophe, as in the exports of the page; none commands a terminal. */
const csvOf = (lines: readonly (readonly string[])[]) =>
  lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");

const csvCell = (text: string) => {
  const shown = text.replace(commanding, "\ufffd");
  const safe =
    /^[=+\-@＝＋－＠]/.test(shown) && !/^-?\d+(\.\d+)?$/.test(shown) ? `'${shown}` : shown;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Loads the package when it is asked for: `--help` and tables do without it. */
const yamlOf = async (value: unknown) => {
  const { stringify } = await import("./yaml.ts");
  const text = stringify(value);
  // Only text in double quotes may be escaped.
  return text.search(commanding) < 0
    ? text
    : stringify(value, { defaultStringType: "QUOTE_DOUBLE" }).replace(commanding, escaped);
};
