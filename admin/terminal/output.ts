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

type Member<Row> = keyof Row & string;

type Value<Row> = (row: Row) => string | number | boolean | null | undefined;

/** Columns of tables and CSV: a member of the row by its name, or under another title, such as `queue_id as queue`; or values by their titles. */
export type Column<Row> =
  | Member<Row>
  | `${Member<Row>} as ${string}`
  | Readonly<Record<string, Value<Row>>>;

type HasOutput = Pick<Terminal, "out">;

/** Writes rows as a table or CSV of columns, or as the API returned them. */
export const printRows = async <Row>(
  terminal: HasOutput,
  options: OutputOptions,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): Promise<void> => {
  const list = createListPrinter(terminal, options, columns);
  await list.print(rows);
  await list.end();
};

/** Creates a printer of a list page by page, whose output is that of `printRows` for all rows. */
export const createListPrinter = <Row>(
  { out }: HasOutput,
  { format }: OutputOptions,
  columns: readonly Column<Row>[],
) => {
  const all: Row[] = [];
  let printed = 0;
  return {
    print: async (rows: readonly Row[]): Promise<void> => {
      // Not `push(...rows)`: an engine limits the number of arguments.
      if (format === "table") for (const row of rows) all.push(row);
      else if (format === "json")
        rows.forEach((row, index) => {
          const text = jsonOf(row, 2).replaceAll("\n", "\n  ");
          out.write(`${printed + index === 0 ? "[" : ","}\n  ${text}`);
        });
      else if (format === "csv")
        out.write(csvOf(linesOf(columns, rows, { withTitles: printed === 0 })));
      else if (rows.length > 0) out.write(await yamlOf(rows));
      printed += rows.length;
    },
    /** Ends the list. JSON is invalid without it, so that a reader notices a list that failed. */
    end: async (): Promise<void> => {
      if (format === "table")
        out.write(tableOf(linesOf(columns, all, { withTitles: true }), out.columns));
      else if (format === "json") out.write(printed === 0 ? "[]\n" : "\n]\n");
      else if (format === "yaml" && printed === 0) out.write(await yamlOf([]));
    },
  };
};

/** Returns the cells of rows. */
const linesOf = <Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { withTitles }: { withTitles: boolean },
): string[][] => {
  const values = columns.flatMap(valuesOf);
  return [
    ...(withTitles ? [values.map(([title]) => title)] : []),
    ...rows.map((row) => values.map(([, value]) => String(value(row) ?? ""))),
  ];
};

const valuesOf = <Row>(column: Column<Row>): (readonly [title: string, value: Value<Row>])[] => {
  if (typeof column !== "string") return Object.entries(column);
  const [name = "", title = name.replaceAll("_", " ")] = column.split(" as ");
  const value: Value<Row> = (row) => {
    const member: unknown = row[name as keyof Row];
    return Array.isArray(member) ? member.join(" ") : (member as ReturnType<Value<Row>>);
  };
  return [[title, value]];
};

/**
 * Creates a printer of rows that arrive one after another. It prints one header, and JSON as a line for each row, so that a program can read
 * each row when it arrives.
 */
export const createRowPrinter = <Row>(
  { out }: HasOutput,
  { format }: OutputOptions,
  columns: readonly Column<Row>[],
): ((rows: readonly Row[]) => Promise<void>) => {
  let hasHeader = false;
  return async (rows) => {
    if (rows.length === 0) return;
    if (format === "json") out.write(rows.map(jsonLine).join(""));
    else if (format === "yaml") out.write(await yamlOf(rows));
    else {
      const lines = linesOf(columns, rows, { withTitles: !hasHeader });
      out.write(format === "csv" ? csvOf(lines) : tableOf(lines, out.columns));
      hasHeader = true;
    }
  };
};

/** Writes one object: a line for each member in a table, else as `printRows` does. */
export const printRecord = async (
  { out }: HasOutput,
  { format }: OutputOptions,
  record: object,
): Promise<void> => {
  if (format === "json") out.write(`${jsonOf(record, 2)}\n`);
  else if (format === "yaml") out.write(await yamlOf(record));
  else {
    const rows = Object.entries(record).map(([name, value]) => ({ name, value: plain(value) }));
    // A value is shown whole, however narrow the terminal is.
    const whole = { out: { write: (text: string) => out.write(text) } };
    await printRows(whole, { format }, ["name as field", "value"], rows);
  }
};

/** Writes core's response, as `printRecord` does. */
export const printAnswer = async (
  terminal: HasOutput,
  options: OutputOptions,
  answer: Promise<{ data: object }>,
): Promise<void> => printRecord(terminal, options, (await answer).data);

const plain = (value: unknown) => {
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return value.join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
};

/**
 * Formats a table: two spaces separate its columns, and the last one is not padded. Replaces control characters. Cuts a line that is too long
 * for the terminal, and ends it with `…`.
 */
const tableOf = (
  lines: readonly (readonly string[])[],
  terminalColumns = Number.POSITIVE_INFINITY,
) => {
  const shown = lines.map((line) => line.map(withoutControls));
  // `Math.max` of spread arguments would throw: an engine limits their number.
  const widths = (shown[0] ?? []).map((_, column) =>
    shown.reduce((widest, line) => Math.max(widest, (line[column] ?? "").length), 0),
  );
  const cut = (text: string): string =>
    text.length > terminalColumns ? `${text.slice(0, Math.max(0, terminalColumns - 1))}…` : text;
  return shown
    .map((line) => {
      const text = line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd();
      return `${cut(text)}\n`;
    })
    .join("");
};

/** Replaces control characters: text of hosts may contain escape sequences, which would control the terminal or reorder its line. */
export const withoutControls = (text: string): string =>
  text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, "\ufffd");

/** Replaces control characters in a text, except tabs and the ends of lines. */
export const plainLines = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => line.split("\t").map(withoutControls).join("\t"))
    .join("\n");

/** Names the first three of `all`, and how many more there are: `a, b, c and 4 more`. */
export const firstNames = (names: readonly string[], all = names.length): string => {
  const first = names.slice(0, 3);
  return `${first.join(", ")}${all > first.length ? ` and ${all - first.length} more` : ""}`;
};

/** Writes a text unchanged to a file; to a terminal without control characters, which could hide lines. */
export const printText = ({ out }: HasOutput, text: string): void =>
  void out.write(out.columns === undefined ? text : plainLines(text));

/** Characters that control a terminal or reorder its line, except line feeds, which are layout. */
const controlCharacters = /(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
const escaped = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Returns JSON that cannot control a terminal: `JSON.stringify` does not escape C1 controls, and U+009B begins an escape sequence. */
const jsonOf = (value: unknown, indent = 0): string =>
  JSON.stringify(value, null, indent).replace(controlCharacters, escaped);

/** Returns a value as one line of JSON. */
export const jsonLine = (value: unknown): string => `${jsonOf(value)}\n`;

/** Formats CSV (RFC 4180). Prefixes a cell that a spreadsheet would evaluate with an apostrophe, and replaces control characters. */
const csvOf = (lines: readonly (readonly string[])[]): string =>
  lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");

const csvCell = (text: string): string => {
  const shown = text.replace(controlCharacters, "\ufffd");
  const safe =
    /^[=+\-@＝＋－＠]/.test(shown) && !/^-?\d+(\.\d+)?$/.test(shown) ? `'${shown}` : shown;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Formats YAML. Loads the package on demand, because `--help` and tables do not need it. */
const yamlOf = async (value: unknown): Promise<string> => {
  const { stringify } = await import("./yaml.ts");
  const text = stringify(value);
  // Only text in double quotes may be escaped.
  return text.search(controlCharacters) < 0
    ? text
    : stringify(value, { defaultStringType: "QUOTE_DOUBLE" }).replace(controlCharacters, escaped);
};
