import fc from "fast-check";
import { expect, it } from "vitest";
import type { JournalEntry } from "./export-format.ts";
import { createJournalReading } from "./journal-reading.ts";

/** An entry of a file; `id` is the same in a copy. */
interface Stored {
  readonly id: number;
  readonly line: string;
  readonly number: number;
  readonly time: number;
  readonly hash: number;
}

/** Orders entries as libsystemd does: by number within a line, else by time and hash. */
const compare = (one: Stored, other: Stored): number =>
  one.line === other.line
    ? one.number - other.number
    : one.time - other.time || one.hash - other.hash;

const hex = (number: number) => number.toString(16);
const printed = ({ id, line, number, time, hash }: Stored): JournalEntry => {
  const cursor = `s=${line};i=${hex(number)};b=b1;m=${hex(time)};t=${hex(time)};x=${hex(hash)}`;
  const fields = new Map([
    ["__CURSOR", Buffer.from(cursor)],
    ["MESSAGE", Buffer.from(`${id}`)],
  ]);
  return { fields, cut: 0, isMalformed: false };
};

/** A run of `journalctl --merge --follow --cursor` over files that change while it runs. */
const createRun = (cursor: string) => {
  const [, line = "", number = "", time = ""] = /s=(.*?);i=(.*?);b.*?;m=(.*?);/.exec(cursor) ?? [];
  const start = { line, number: Number.parseInt(number, 16), time: Number.parseInt(time, 16) };
  const places = new Map<string, number>();
  let location: Stored | undefined;
  const isBehind = (entry: Stored): boolean => {
    if (location) return compare(entry, location) <= 0;
    if (cursor === "") return false;
    return entry.line === start.line ? entry.number < start.number : entry.time < start.time;
  };
  return (files: readonly (readonly Stored[])[]): Stored | undefined => {
    let next: Stored | undefined;
    for (const file of files) {
      const name = file[0]?.line ?? "";
      let place = places.get(name) ?? 0;
      for (let entry = file[place]; entry && isBehind(entry); entry = file[place]) place += 1;
      places.set(name, place);
      const entry = file[place];
      if (entry && (!next || compare(entry, next) < 0)) next = entry;
    }
    location = next ?? location;
    return next;
  };
};

const groups = fc.array(fc.array(fc.nat(5), { minLength: 1, maxLength: 4 }), { minLength: 1 });
const step = fc.constantFrom("print", "print", "print", "copy", "move", "restart");

it("takes each entry once while journald moves them to disk, wherever journalctl and the source begin again", () => {
  const property = fc.property(groups, fc.nat(40), fc.array(step), (hashes, written, steps) => {
    let id = 0;
    const runtime = [...hashes, [0]].flatMap((ofTime, time) =>
      ofTime.map((hash) => ({ id: ++id, line: "a", number: id, time: time + 1, hash })),
    );
    const last = runtime.pop();
    const copies = runtime.map((entry) => ({
      ...entry,
      line: "c",
      number: entry.number + written,
    }));
    const disk: Stored[] = [];
    const taken: string[] = [];
    let isMoved = false;
    let cursor = "";
    let read = createJournalReading(cursor);
    let run = createRun(cursor);
    const begin = (moved?: string) => {
      read = createJournalReading(cursor, moved);
      run = createRun(cursor);
    };
    const move = () => {
      disk.push(...copies.splice(0));
      isMoved = true;
    };
    const print = (): boolean => {
      const next = run(isMoved ? [disk] : [runtime, disk]);
      if (next === undefined) return false;
      const batch = read([printed(next)]);
      cursor = batch.cursor;
      taken.push(...batch.entries.map(({ fields }) => `${fields.get("MESSAGE")}`));
      expect(batch.gaps).toEqual([]);
      if (batch.moved !== undefined) begin(batch.moved);
      return true;
    };
    for (const each of steps)
      if (each === "print") print();
      else if (each === "copy") disk.push(...copies.splice(0, 1));
      else if (each === "move") move();
      else begin();
    move();
    if (last) disk.push({ ...last, line: "c", number: last.number + written });
    while (print());
    expect(taken).toEqual(Array.from({ length: id }, (_, index) => `${index + 1}`));
  });
  fc.assert(property, { numRuns: 2_000 });
});

it("reports a gap of unknown size where a move does not end", () => {
  const entries = [
    { id: 1, line: "a", number: 1, time: 1, hash: 1 },
    { id: 3, line: "c", number: 9, time: 1, hash: 1 },
    { id: 4, line: "c", number: 10, time: 1, hash: 2 },
    { id: 5, line: "a", number: 5, time: 2, hash: 1 },
  ].map(printed);
  const [first = ""] = entries.map((entry) => `${entry.fields.get("__CURSOR")}`);
  const { entries: taken, gaps, repeated } = createJournalReading(first, null)(entries);
  expect(taken).toEqual(entries.slice(2));
  expect(gaps).toMatchObject([{ entries: undefined }, { entries: 3 }]);
  expect(repeated).toBe(0);
});
