import fc from "fast-check";
import { expect, it } from "vitest";
import { CsvFault, csvRecords } from "./read-csv.ts";

const cellsOf = (text: string) => [...csvRecords(text)].map(({ cells }) => cells);
const faultOf = (text: string) => {
  try {
    return cellsOf(text);
  } catch (error) {
    if (!(error instanceof CsvFault)) throw error;
    return { line: error.line, message: error.message };
  }
};

it("are the cells that were written, quoted where they need it, whatever ends a line", () => {
  const cell = fc.string({
    unit: fc.constantFrom("a", "é", '"', ",", "\n", "\r", " ", "'"),
    maxLength: 6,
  });
  const files = fc.array(fc.array(cell, { minLength: 2, maxLength: 4 }), { maxLength: 5 });
  const property = fc.property(
    files,
    fc.constantFrom("\n", "\r\n"),
    fc.boolean(),
    (records, end, isEnded) => {
      const quoted = (text: string) =>
        /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      const text =
        records.map((cells) => cells.map(quoted).join(",")).join(end) + (isEnded ? end : "");
      expect(cellsOf(text)).toEqual(records);
    },
  );
  fc.assert(property, { numRuns: 300, seed: 20_261_126 });
});

it("count lines, also those inside of cells, and skip empty ones and a byte order mark", () => {
  expect([...csvRecords('\ufeffa,b\n\n"1\n2",3\r\n\r\n4,5')]).toEqual([
    { line: 1, cells: ["a", "b"] },
    { line: 3, cells: ["1\n2", "3"] },
    { line: 6, cells: ["4", "5"] },
  ]);
});

it.each([
  ['a,b\n1,"2', { line: 2, message: "a quoted cell does not end" }],
  [
    'a\n1\nx"y',
    { line: 3, message: "a cell with quotes must be quoted as a whole, with each quote doubled" },
  ],
  [
    '"a"b',
    { line: 1, message: "a cell with quotes must be quoted as a whole, with each quote doubled" },
  ],
])("end at a fault, with its line: %j", (text, fault) => {
  expect(faultOf(text)).toEqual(fault);
});

it("have a bound, so that one line of commas holds up nothing else", () => {
  expect(faultOf(`a\n${",".repeat(1000)}`)).toEqual({
    line: 2,
    message: "has more than 1000 cells",
  });
});
