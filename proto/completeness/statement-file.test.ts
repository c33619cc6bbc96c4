import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hourStates } from "./hour-state.ts";
import {
  formatFileCertificate,
  formatFileEnd,
  formatFileLine,
  parseStatementFile,
  StatementFileMalformed,
} from "./statement-file.ts";
import { compareHosts, formatEntry, formatLine, lineCounts, parseEntry, parseLine } from "./statement-line.ts";

const hour = fc.integer({ min: 400_000, max: 600_000 }).map((hours) => hours * 3_600_000);
const hash = fc.uint8Array({ minLength: 32, maxLength: 32 });
const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const shortText = fc.string({ unit: "binary", maxLength: 4 });
const line = fc.record({
  host: name,
  state: fc.constantFrom(...hourStates),
  correctedMs: fc.option(hour),
  counts: fc.dictionary(fc.constantFrom(...lineCounts), fc.integer({ min: 1, max: 2 ** 52 })),
  short: fc.uniqueArray(fc.constantFrom("dropped", "account_refused:signature_invalid", "missing")),
  isClockAhead: fc.boolean(),
  sinks: fc.constantFrom([], ["nats"]),
  delivered: fc.uniqueArray(name, { maxLength: 3 }),
  of: fc.option(hash),
});

describe("lines of a statement", () => {
  it("are read as they were written, on one line without spaces in a field", () => {
    fc.assert(
      fc.property(line, (given) => {
        const text = formatLine(given);
        expect(text).not.toMatch(/[\n\r]|\s\s/);
        const read = parseLine(text);
        expect(read && { ...read, counts: { ...read.counts } }).toEqual({ ...given, counts: { ...given.counts } });
      }),
    );
  });

  it("are rejected in any other spelling, so that no two lines say the same", () => {
    const good = "https://fleet.example.test/a complete accepted=3 stored=3 delivered=a,b";
    expect(parseLine(good)).toMatchObject({ host: "https://fleet.example.test/a", counts: { accepted: 3, stored: 3 } });
    for (const bad of [
      good.replace("accepted=3 stored=3", "stored=3 accepted=3"),
      good.replace("accepted=3", "accepted=03"),
      good.replace("accepted=3", "accepted=3 accepted=3"),
      good.replace("accepted=3", "accepted=3 lost=0"),
      good.replace("accepted=3", "accepted=3 unknown=1"),
      good.replace("complete", "perfect"),
      good.replace("complete", "complete hour=2026-11-25T10:00:00.000Z"),
      good.replace("fleet", "%66leet"),
      `${good} of=AAAA`,
      `${good} `,
      good.replace("fleet", "%ff"),
      "",
    ])
      expect(parseLine(bad), bad).toBeUndefined();
  });

  it("are sorted by the bytes of the host", () => {
    fc.assert(
      fc.property(shortText, shortText, (a, b) => {
        expect(Math.sign(compareHosts(a, b))).toBe(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
      }),
    );
  });

  it("have an entry that is read as it was written, and in no other spelling", () => {
    fc.assert(
      fc.property(fc.record({ hourMs: hour, lines: fc.nat(), root: hash }), (entry) => {
        const text = formatEntry(entry);
        expect(parseEntry(text)).toEqual(entry);
        for (const bad of [`${text} `, text.replace("Z ", ".000Z "), text.replace("-v1", "-v2"), text.slice(0, -4)])
          expect(parseEntry(bad)).toBeUndefined();
      }),
    );
  });
});

describe("files of a statement", () => {
  const sequence = fc.bigInt({ min: 0n, max: 2n ** 60n });
  const bytes = fc.uint8Array({ maxLength: 40 }).map((each) => Uint8Array.from(each));
  const block = fc.record({ firstSequence: sequence, lastSequence: sequence, rawBytes: fc.nat(), digest: hash });
  const account = fc.record({
    ...{ body: bytes, signature: bytes },
    rangeDigest: fc.option(hash),
    refused: fc.option(fc.constantFrom("malformed", "number_used")),
    blocks: fc.array(block, { maxLength: 2 }),
  });
  const file = fc.record({
    entry: fc.constant("an entry"),
    lines: fc.array(
      fc.record({
        index: fc.nat(),
        text: line.map(formatLine),
        proof: fc.option(fc.array(hash, { maxLength: 3 })),
        accounts: fc.array(account, { maxLength: 2 }),
      }),
      { maxLength: 4 },
    ),
    certificates: fc.array(
      fc.uint8Array({ minLength: 1 }).map((each) => Uint8Array.from(each)),
      { maxLength: 2 },
    ),
    consistency: fc.array(fc.record({ size: fc.nat(), proof: fc.array(hash, { maxLength: 3 }) }), { maxLength: 2 }),
    index: fc.nat(),
    proof: fc.array(hash, { maxLength: 3 }),
    note: fc.constant("origin\n1\nroot\n\n— origin AAAA\n"),
  });
  const format = (given: ReturnType<typeof parseStatementFile>): string =>
    [
      `${given.entry}\n`,
      ...given.certificates.map(formatFileCertificate),
      ...given.lines.map(formatFileLine),
      formatFileEnd(given),
    ].join("");

  it("are read as they were written", () => {
    fc.assert(
      fc.property(file, (given) => {
        expect(parseStatementFile(format(given))).toEqual(given);
      }),
    );
  });

  it("are rejected, by the line, when something else is in them", () => {
    fc.assert(
      fc.property(file, (given) => {
        const text = format(given);
        for (const bad of [
          text.replace("an entry\n", "an entry\nsomething 1\n"),
          text.replace("an entry\n", "an entry\nblock 1 1 1 AAAA\n"),
          text.replace("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2"),
          text.replace("\nindex ", "\nindex 0"),
          text.replaceAll("\n\n", "\n"),
          "",
        ])
          expect(() => parseStatementFile(bad)).toThrow(StatementFileMalformed);
      }),
    );
  });
});
