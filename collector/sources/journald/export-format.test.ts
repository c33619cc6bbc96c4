import fc from "fast-check";
import { expect, it } from "vitest";
import {
  createExportParser,
  type JournalEntry,
  journalFieldBytesMax,
  journalMessageBytesMax,
} from "./export-format.ts";

const parseAll = (stream: Buffer, chunkBytes = 65_536): JournalEntry[] => {
  const entries: JournalEntry[] = [];
  const push = createExportParser((entry) => entries.push(entry));
  for (let at = 0; at < stream.length; at += chunkBytes) push(stream.subarray(at, at + chunkBytes));
  return entries;
};

const sized = (name: string, value: Buffer, claimed = BigInt(value.length)) => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(claimed);
  return Buffer.concat([Buffer.from(`${name}\n`), length, value, Buffer.from("\n")]);
};

const entryOf = (cursor: string, ...fields: readonly Buffer[]) =>
  Buffer.concat([Buffer.from(`__CURSOR=${cursor}\n`), ...fields, Buffer.from("\n")]);

const textsOf = ({ fields }: JournalEntry) =>
  Object.fromEntries([...fields].map(([name, value]) => [name, value.toString()]));

it("reads what was written, however the stream is torn", () => {
  const names = fc.constantFrom("MESSAGE", "PRIORITY", "_PID", "APP_ID");
  const entries = fc.array(
    fc.dictionary(names, fc.uint8Array({ maxLength: 300 }), { minKeys: 1 }),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 500 }), (written, chunkBytes) => {
      const stream = Buffer.concat(
        written.map((fields, index) =>
          entryOf(
            `c${index}`,
            ...Object.entries(fields).map(([name, value]) => sized(name, Buffer.from(value))),
          ),
        ),
      );
      const read = parseAll(stream, chunkBytes).map(({ fields, cut, isMalformed }) => [
        Object.fromEntries([...fields].map(([name, value]) => [name, [...value]])),
        cut,
        isMalformed,
      ]);
      expect(read).toEqual(
        written.map((fields, index) => [
          {
            __CURSOR: [...Buffer.from(`c${index}`)],
            ...Object.fromEntries(
              Object.entries(fields).map(([name, value]) => [name, [...value]]),
            ),
          },
          0,
          false,
        ]),
      );
    }),
  );
});

it("reads text with `=`, an empty value, and the first of two values of a name", () => {
  const stream = Buffer.from("__CURSOR=c\nMESSAGE=a=b\nEMPTY=\nPRIORITY=3\nPRIORITY=6\n\n");
  expect(parseAll(stream).map(textsOf)).toEqual([
    { __CURSOR: "c", MESSAGE: "a=b", EMPTY: "", PRIORITY: "3" },
  ]);
});

it.each(["text", "binary"])(
  "cuts %s values of 10 MB, counts them, and keeps little memory",
  (kind) => {
    const value = Buffer.alloc(10_000_000, "x");
    const field = (name: string) =>
      kind === "binary"
        ? sized(name, value)
        : Buffer.concat([Buffer.from(`${name}=`), value, Buffer.from("\n")]);
    const stream = Buffer.concat([
      entryOf("c1", field("MESSAGE"), field("DUMP"), Buffer.from("AFTER=1\n")),
      entryOf("c2"),
    ]);
    const [first, second] = parseAll(stream);
    expect(first?.fields.get("MESSAGE")).toHaveLength(journalMessageBytesMax);
    expect(first?.fields.get("DUMP")).toHaveLength(journalFieldBytesMax);
    expect(first?.fields.get("DUMP")?.buffer.byteLength).toBeLessThan(journalMessageBytesMax / 8);
    expect(first).toMatchObject({ cut: 2, isMalformed: false });
    expect(first?.fields.get("AFTER")?.toString()).toBe("1");
    expect(second).toMatchObject({ cut: 0, isMalformed: false });
  },
);

it("keeps 128 fields of an entry, and counts the others as cut", () => {
  const fields = Array.from({ length: 200 }, (_, index) => Buffer.from(`F${index}=1\n`));
  const [entry] = parseAll(entryOf("c", ...fields));
  expect(entry?.fields.size).toBe(128);
  expect(entry?.cut).toBe(73);
});

it.each([
  ["is larger than any field", 2n ** 63n],
  ["is too short", 3n],
  ["is a little too long", 8n],
])("goes on with the next entry after a length that %s", (_, claimed) => {
  const stream = Buffer.concat([
    entryOf("c1", Buffer.from("MESSAGE=one\n")),
    entryOf("c2", sized("MESSAGE", Buffer.from("two..."), claimed), Buffer.from("A=1\n")),
    entryOf("c3", Buffer.from("MESSAGE=three\n")),
    entryOf("c4", Buffer.from("MESSAGE=four\n")),
  ]);
  const read = parseAll(stream, 7).map((entry) => [
    entry.fields.get("__CURSOR")?.toString(),
    entry.isMalformed,
  ]);
  expect(read.slice(0, 2)).toEqual([
    ["c1", false],
    ["c2", true],
  ]);
  expect(read.at(-1)).toEqual(["c4", false]);
});

it("takes a long line without a name for damage", () => {
  const stream = Buffer.concat([
    entryOf("c1", Buffer.from(`${"x".repeat(300)}\n`), Buffer.from("A=1\n")),
    entryOf("c2"),
  ]);
  expect(parseAll(stream).map(({ isMalformed }) => isMalformed)).toEqual([true, false]);
});
