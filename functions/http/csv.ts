import type * as v from "valibot";
import type { ReadCore } from "../core.ts";
import { type Download, type DownloadDefinition, downloadRoute } from "./download.ts";
import { scope } from "./resource.ts";
import type { Route } from "./route-definition.ts";

/** The value of a cell; null is an empty cell. */
type CsvCell = string | number | null;

/** The columns of a CSV file: the cell of a row, by the name in the first record. */
export type CsvColumns<Row> = Readonly<Record<string, (row: Row) => CsvCell>>;

/** Members of a row that fit in a cell: the items of a list are joined by spaces. */
type Member<Row> = {
  [Name in keyof Row & string]: Row[Name] extends CsvCell | readonly string[] ? Name : never;
}[keyof Row & string];

/** Returns columns with the names and values of members. */
export const memberColumns = <Row>(
  ...names: readonly (Member<Row> & keyof Row)[]
): CsvColumns<Row> =>
  Object.fromEntries(
    names.map((name) => [
      name,
      (row: Row) => {
        const value = row[name] as CsvCell | readonly string[];
        return typeof value === "object" && value !== null ? value.join(" ") : value;
      },
    ]),
  );

/** Returns one record of RFC 4180 with its line break. Puts `'` before text that a spreadsheet would read as a formula. */
export const csvRecord = (cells: readonly CsvCell[]): string =>
  `${cells.map(cellText).join(",")}\r\n`;

/** Spreadsheets skip white space before a formula, and some read full-width forms as plain ones. */
const formulaStart = /^[=+\-@＝＋－＠\t\r\n]/;
/** In a locale that separates cells by `;`, quotes within a line do not enclose a cell. */
const laterStart = /[;\r\n](?=[=+\-@＝＋－＠])/g;

const cellText = (cell: CsvCell) => {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = formulaStart.test(cell) ? `'${cell}` : cell;
  // One look at most cells: these take a sixth of an export's time.
  if (!/[",;\r\n]/.test(text)) return text;
  const safe = text.replace(laterStart, "$&'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Larger texts become garbage that only a full collection frees. */
const textLength = 16_384;

/** Yields a CSV file: the names of the columns, then the records of each batch. */
const csvTexts = async function* <Row>(
  columns: CsvColumns<Row>,
  batches: AsyncIterable<readonly Row[]>,
): AsyncGenerator<string, void, void> {
  const cells = Object.values(columns);
  let text = csvRecord(Object.keys(columns));
  for await (const rows of batches) {
    for (const row of rows) {
      text += csvRecord(cells.map((cell) => cell(row)));
      if (text.length < textLength) continue;
      yield text;
      text = "";
    }
  }
  yield text;
};

/** Yields the views of each batch. */
export const viewsOf = async function* <Row, View>(
  batches: AsyncIterable<readonly Row[]>,
  view: (row: Row) => View,
): AsyncGenerator<View[], void, void> {
  for await (const rows of batches) yield rows.map(view);
};

/** The kind of a CSV file with the names of its columns. */
const csvFile = {
  type: "text/csv; charset=utf-8; header=present",
  extension: "csv",
  description: "RFC 4180, UTF-8, the first record names the columns",
};

/** A CSV file: the parts of its name, and its rows. */
interface CsvFile<Row> extends Omit<Download, "texts"> {
  columns: CsvColumns<Row>;
  batches: AsyncIterable<readonly Row[]>;
}

type Schema = v.GenericSchema | undefined;

/** Creates a route that streams a CSV file to operators with the scope `audit`. */
export const csvRoute = <Row, Params extends Schema = undefined, Query extends Schema = undefined>(
  core: ReadCore,
  { open, ...described }: DownloadDefinition<CsvFile<Row>, Params, Query>,
): Route =>
  downloadRoute<Params, Query>(core, {
    ...described,
    guard: scope(core, "audit"),
    file: csvFile,
    open: async (input, audit) => {
      const { columns, batches, ...named } = await open(input, audit);
      return { ...named, texts: csvTexts(columns, batches) };
    },
  });
