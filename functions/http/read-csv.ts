/** A record of a CSV file: its cells, and its first line, counted from 1. */
export interface ReadRecord {
  line: number;
  cells: string[];
}

/** A fault of a CSV file. */
export class CsvFault extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/** The most cells of a record, which is held in memory. */
const cellsMax = 1000;

/**
 * Yields the records of a CSV file (RFC 4180), including the one with the names of its columns. Lines may also end in LF; skips empty lines
 * and a byte order mark. Throws `CsvFault` for quotes that are not closed or inside of a cell, and over `cellsMax` cells.
 */
export const csvRecords = function* (text: string): Generator<ReadRecord, void, void> {
  let at = text.startsWith("\ufeff") ? 1 : 0;
  let line = 1;
  while (at < text.length) {
    const record: ReadRecord = { line, cells: [] };
    for (let ended = false; !ended; ) {
      const { cell, end } = readCell(text, at, line);
      at = end;
      const after = text[at] ?? "\n";
      if (after !== "," && after !== "\n" && after !== "\r")
        throw new CsvFault(
          line,
          "a cell with quotes must be quoted as a whole, with each quote doubled",
        );
      line += cell.split("\n").length - 1;
      record.cells.push(cell);
      if (record.cells.length > cellsMax)
        throw new CsvFault(line, `has more than ${cellsMax} cells`);
      at += text.startsWith("\r\n", at) ? 2 : 1;
      ended = after !== ",";
    }
    line += 1;
    if (record.cells.length > 1 || record.cells[0] !== "") yield record;
  }
};

/** Reads the cell that begins at `start`. */
const readCell = (text: string, start: number, line: number): { cell: string; end: number } => {
  if (text[start] !== '"') {
    const end = endOfCell(text, start);
    return { cell: text.slice(start, end), end };
  }
  let cell = "";
  for (let at = start; ; ) {
    const quote = text.indexOf('"', at + 1);
    if (quote === -1) throw new CsvFault(line, "a quoted cell does not end");
    cell += text.slice(at + 1, quote);
    at = quote + 1;
    if (text[at] !== '"') return { cell, end: at };
    cell += '"';
  }
};

const cellEnd = /[",\r\n]/g;

const endOfCell = (text: string, from: number) => {
  cellEnd.lastIndex = from;
  return cellEnd.exec(text)?.index ?? text.length;
};
