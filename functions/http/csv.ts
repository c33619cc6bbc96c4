/** The value of a cell; null is an empty cell. */
export type CsvCell = string | number | null;

/** A column of a CSV file: its name in the first record, and its cell of a row. */
export type CsvColumn<Row> = readonly [name: string, cell: (row: Row) => CsvCell];

/** Returns one record of RFC 4180 with its line break. Text that a spreadsheet would read as a formula gets a leading `'`. */
export const csvRecord = (cells: readonly CsvCell[]): string => `${cells.map(cellText).join(",")}\r\n`;

/** Spreadsheets skip tab and CR before a formula, and some read the full-width forms as the plain ones. */
const formulaStart = /^[=+\-@＝＋－＠\t\r]/;

const cellText = (cell: CsvCell): string => {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = formulaStart.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Larger texts are garbage that only a full collection frees. */
const textLength = 16_384;

/** Yields a CSV file: the names of the columns, then the records of each batch. */
export const csvTexts = async function* <Row>(
  columns: readonly CsvColumn<Row>[],
  batches: AsyncIterable<readonly Row[]>,
): AsyncGenerator<string, void, void> {
  let text = csvRecord(columns.map(([name]) => name));
  for await (const rows of batches) {
    for (const row of rows) {
      text += csvRecord(columns.map(([, cell]) => cell(row)));
      if (text.length < textLength) continue;
      yield text;
      text = "";
    }
  }
  yield text;
};
