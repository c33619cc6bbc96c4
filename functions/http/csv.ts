/** What a cell holds: a number stays a number, null is an empty cell. */
export type CsvCell = string | number | null;

/** One record of RFC 4180, line break included. Text that a spreadsheet would take for a formula is disarmed by a leading `'`. */
export const csvRecord = (cells: readonly CsvCell[]): string => `${cells.map(cellText).join(",")}\r\n`;

/** Tab and CR are skipped by spreadsheets before they look for a formula; the full-width forms are taken for the plain ones by some. */
const formulaStart = /^[=+\-@＝＋－＠\t\r]/;

const cellText = (cell: CsvCell): string => {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const text = formulaStart.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
