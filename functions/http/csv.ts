import type * as v from "valibot";
import type { ReadCore } from "../core.ts";
import type { RequestedExport } from "../domain/audit/audited-export.ts";
import type { Operator } from "../domain/operator/authenticate.ts";
import { createDownloads, downloadName } from "./download.ts";
import { scope } from "./resource.ts";
import { type Route, type RouteDefinition, route } from "./route.ts";

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
  const text = (formulaStart.test(cell) ? `'${cell}` : cell).replace(laterStart, "$&'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Larger texts become garbage that only a full collection frees. */
const textLength = 16_384;

/** Yields a CSV file: the names of the columns, then the records of each batch. */
export const csvTexts = async function* <Row>(
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

/** The media type of a CSV file with the names of its columns. */
export const csvType = "text/csv; charset=utf-8; header=present";

/** The documented response of a CSV file. */
export const csvReply = {
  description: "RFC 4180, UTF-8, the first record names the columns",
  type: "text/csv",
};

/** A CSV file: its rows, and the parts of its name. */
interface CsvFile<Row> {
  name: string;
  /** The filter of the request; its query by default. */
  asked?: Readonly<Record<string, unknown>>;
  /** Now by default. */
  at?: Date;
  columns: CsvColumns<Row>;
  batches: AsyncIterable<readonly Row[]>;
}

type Schema = v.GenericSchema | undefined;
type Described = "path" | "operationId" | "summary" | "params" | "query" | "problems";

/** Creates a route that streams a CSV file to operators with the scope `audit`. `open` audits the export. */
export const csvRoute = <Row, Params extends Schema = undefined, Query extends Schema = undefined>(
  core: ReadCore,
  {
    open,
    problems = [],
    ...described
  }: Pick<RouteDefinition<Operator, Params, Query>, Described> & {
    open(
      input: Parameters<RouteDefinition<Operator, Params, Query>["handle"]>[0],
      audit: RequestedExport,
    ): Promise<CsvFile<Row>>;
  },
): Route => {
  const download = createDownloads(core);
  return route<Operator, Params, Query>({
    ...described,
    method: "GET",
    guard: scope(core, "audit"),
    replies: { 200: csvReply },
    problems: [...problems, "too_many_exports"],
    handle: (input) =>
      download(input.caller.userId, async () => {
        const { caller, origin } = input;
        const query = input.query as Readonly<Record<string, unknown>>;
        const file = await open(input, { caller, origin, asked: query });
        const { name, asked = query, at = new Date(core.clock.now()), columns, batches } = file;
        return {
          type: csvType,
          fileName: downloadName(name, asked, at, "csv"),
          texts: csvTexts(columns, batches),
        };
      }),
  });
};
