import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hourStates } from "./hour-state.ts";
import {
  formatFileCertificate,
  formatFileEnd,
  formatFileLine,
  formatFileOnly,
  parseStatementFile,
  StatementFileMalformed,
} from "./statement-file.ts";
import {
  compareHosts,
  formatEntry,
  formatLine,
  lineCounts,
  parseEntry,
  parseLine,
} from "./statement-line.ts";

const hour = fc.integer({ min: 400_000, max: 600_000 }).map((hours) => hours * 3_600_000);
const hash = fc.uint8Array({ minLength: 32, maxLength: 32 });
const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const shortText = fc.string({ unit: "binary", maxLength: 4 });
const version = 2;
const ownHour = Date.UTC(2026, 10, 25, 10);
const entry = { version, hourStartMs: ownHour } as const;
const fields = fc.record({
  host: name,
  state: fc.constantFrom(...hourStates),
  correctedMs: fc.option(hour),
  counts: fc.dictionary(fc.constantFrom(...lineCounts), fc.integer({ min: 1, max: 2 ** 52 })),
  short: fc.uniqueArray(fc.constantFrom("dropped", "account_refused:signature_invalid", "missing")),
  isClockAhead: fc.boolean(),
  sinks: fc.constantFrom([], ["nats"]),
  delivered: fc.uniqueArray(name, { maxLength: 3 }),
  queues: fc.uniqueArray(
    fc.record({
      queueId: fc.constantFrom(null, "", "a".repeat(32)),
      from: fc.constantFrom(0, 1, 59_999),
      to: fc.constantFrom(60_000, 3_600_000),
    }),
    { maxLength: 2, selector: ({ queueId }) => queueId },
  ),
  of: fc.option(hash),
});
const line = fields.map(({ queues, ...rest }) => {
  const at = rest.correctedMs ?? ownHour;
  return {
    ...rest,
    queues: queues.map(({ queueId, from, to }) => ({ queueId, fromMs: at + from, toMs: at + to })),
  };
});

describe("lines of a statement", () => {
  it("are read as they were written, on one line without spaces in a field", () => {
    fc.assert(
      fc.property(line, (given) => {
        const text = formatLine(given, ownHour);
        expect(text).not.toMatch(/[\n\r]|\s\s/);
        expect(parseLine(text, entry)).toEqual({
          ...given,
          counts: { ...given.counts },
          unknown: [],
        });
      }),
    );
  });

  it("are rejected in any other spelling, so that no two lines say the same", () => {
    const good = "https://fleet.example.test/a complete accepted=3 stored=3 delivered=a,b";
    expect(parseLine(good, entry)).toMatchObject({
      host: "https://fleet.example.test/a",
      counts: { accepted: 3, stored: 3 },
    });
    for (const bad of [
      good.replace("accepted=3 stored=3", "stored=3 accepted=3"),
      good.replace("accepted=3", "accepted=03"),
      good.replace("accepted=3", "accepted=3 accepted=3"),
      good.replace("accepted=3", "accepted=3 lost=0"),
      good.replace("accepted=3", "accepted=3 unknown"),
      good.replace("accepted=3", "x=1 accepted=3 x=1"),
      good.replace("complete", "Complete"),
      good.replace("complete", "complete hour=2026-11-25T10:30:00Z"),
      `${good} queues=any:0-3600000`,
      `${good} queues=abc`,
      good.replace("complete", "complete hour=2026-11-25T10:00:00.000Z"),
      good.replace("fleet", "%66leet"),
      `${good} of=AAAA`,
      `${good} `,
      good.replace("fleet", "%ff"),
      "",
    ])
      expect(parseLine(bad, entry), bad).toBeUndefined();
  });

  it("may have fields and states of a later version, which are shown; in version 1 they may not", () => {
    const later = "web-1 not_proven accepted=3 not_proven=2 object=s3://bucket/a,1 queues=any";
    expect(parseLine(later, entry)).toMatchObject({
      state: "not_proven",
      unknown: ["not_proven", "object"],
    });
    const first = { ...entry, version: 1 } as const;
    expect(parseLine("web-1 complete accepted=3", first)).toMatchObject({
      state: "complete",
      unknown: [],
    });
    for (const bad of [
      later,
      "web-1 complete accepted=3 object=a",
      "web-1 complete queues=any",
      "web-1 short file_gaps=1",
    ])
      expect(parseLine(bad, first), bad).toBeUndefined();
  });

  it("are sorted by the bytes of the host", () => {
    fc.assert(
      fc.property(shortText, shortText, (a, b) => {
        expect(Math.sign(compareHosts(a, b))).toBe(
          Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))),
        );
      }),
    );
  });

  it("have an entry that is read as it was written, and in no other spelling", () => {
    fc.assert(
      fc.property(
        fc.record({
          version: fc.constantFrom(1 as const, 2 as const),
          hourStartMs: hour,
          lines: fc.nat(),
          root: hash,
        }),
        (given) => {
          const text = formatEntry(given);
          expect(parseEntry(text)).toEqual(given);
          for (const bad of [
            `${text} `,
            text.replace("Z ", ".000Z "),
            text.replace(/-v\d/, "-v3"),
            text.replace(":00Z", ":30Z"),
            text.slice(0, -4),
          ])
            expect(parseEntry(bad)).toBeUndefined();
        },
      ),
    );
  });
});

describe("files of a statement", () => {
  const sequence = fc.bigInt({ min: 0n, max: 2n ** 60n });
  const bytes = fc.uint8Array({ maxLength: 40 }).map((each) => Uint8Array.from(each));
  const block = fc.record({
    firstSequence: sequence,
    lastSequence: sequence,
    rawBytes: fc.nat(),
    sha256: hash,
    isStored: fc.boolean(),
  });
  const account = fc.record({
    body: bytes,
    signature: bytes,
    rangeDigest: fc.option(hash),
    refused: fc.option(fc.constantFrom("malformed", "number_used")),
    blocks: fc.array(block, { maxLength: 2 }),
  });
  const file = fc.record({
    entry: fc.constant("an entry"),
    only: fc.option(name),
    lines: fc.array(
      fc.record({
        index: fc.nat(),
        text: line.map((each) => formatLine(each, ownHour)),
        proof: fc.option(fc.array(hash, { maxLength: 3 })),
        accounts: fc.array(account, { maxLength: 2 }),
        unknown: fc.constant([]).map((none) => [...none]),
      }),
      { maxLength: 4 },
    ),
    certificates: fc.array(
      fc.uint8Array({ minLength: 1 }).map((each) => Uint8Array.from(each)),
      { maxLength: 2 },
    ),
    consistency: fc.array(fc.record({ size: fc.nat(), proof: fc.array(hash, { maxLength: 3 }) }), {
      maxLength: 2,
    }),
    first: fc.option(
      fc.record({ entry: fc.constant("a b c d"), proof: fc.array(hash, { maxLength: 3 }) }),
    ),
    index: fc.nat(),
    proof: fc.array(hash, { maxLength: 3 }),
    note: fc.constant("origin\n1\nroot\n\n— origin AAAA\n"),
  });
  const format = (given: ReturnType<typeof parseStatementFile>) =>
    [
      `${given.entry}\n`,
      given.only === null ? "" : formatFileOnly(given.only),
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
