import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createMemoryTail } from "#tests/collector/support/memory-tail.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import type { Encoding } from "./charset.ts";
import { createMultiline, type MultilineConfig } from "./multiline.ts";

const limits = { maxLines: 500, timeoutMs: 1_000 };
const joinedBy = (way: Partial<MultilineConfig>) => ({ ...limits, ...way }) as MultilineConfig;

interface Expected {
  text: string;
  offset: number;
  part: string | undefined;
  partial: string | undefined;
}

/** The records of a whole file: the specification. */
const recordsOf = async (
  content: Buffer,
  encoding: Encoding,
  config: MultilineConfig | undefined,
): Promise<Expected[]> => {
  const isWide = encoding.startsWith("utf-16");
  const decoder = new TextDecoder(encoding, { ignoreBOM: true });
  const decode = (start: number, end: number) => decoder.decode(content.subarray(start, end));
  const lines: { start: number; end: number; next: number; text: string }[] = [];
  const add = (start: number, end: number, next: number) => {
    const text = decode(start, end);
    const isReturn = text.endsWith("\r");
    const stop = isReturn ? end - (isWide ? 2 : 1) : end;
    lines.push({ start, end: stop, next, text: isReturn ? text.slice(0, -1) : text });
  };
  const width = isWide ? 2 : 1;
  let start = 0;
  for (let at = 0; at + width <= content.length; at += width)
    if (decode(at, at + width) === "\n") {
      add(start, at, at + width);
      start = at + width;
    }
  if (start < content.length) add(start, content.length, content.length);
  const { endOf } = config ? await createMultiline(config) : { endOf: undefined };
  const view = { count: lines.length, text: (index: number) => lines[index]?.text ?? "" };
  const found: Expected[] = [];
  let part: number | undefined;
  for (let first = 0; first < lines.length; ) {
    const whole = endOf === undefined ? first + 1 : (endOf(view, first) ?? lines.length);
    const end = Math.min(whole, first + (config?.maxLines ?? 1));
    const isCut = end < whole;
    const number = part ?? (isCut ? 1 : undefined);
    const offset = lines[first]?.start ?? 0;
    found.push({
      text: decode(offset, lines[end - 1]?.end ?? 0),
      offset,
      part: number?.toString(),
      partial: isCut ? "true" : undefined,
    });
    part = isCut ? (number ?? 1) + 1 : undefined;
    first = end;
  }
  return found;
};

const words: Readonly<Record<string, readonly (string | number[])[]>> = {
  "utf-8": ["ß", "日本", "😀"],
  "utf-16le": ["ß", "\u0a0a", "\u010a", "😀"],
  "utf-16be": ["ß", "\u0a0a", "\u0a00", "😀"],
  "windows-1252": [[0xe9], [0x80]],
  gb18030: [
    [0xd6, 0xd0],
    [0x81, 0x30, 0x81, 0x30],
  ],
  shift_jis: [
    [0x95, 0x5c],
    [0x83, 0x65],
  ],
};

const encode = (text: string, encoding: string): Buffer => {
  const bytes = Buffer.from(text, encoding === "utf-8" ? "utf8" : "utf16le");
  if (encoding === "utf-16le" || encoding === "utf-8") return bytes;
  return encoding === "utf-16be" ? bytes.swap16() : Buffer.from(text, "latin1");
};

const beginnings = [
  "2026-11-22 line",
  "",
  "\tat com.example.Main.main(Main.java:5)",
  "Traceback (most recent call last):",
  '  File "a.py", line 1, in <module>',
  "ValueError: x",
  "During handling of the above exception, another exception occurred:",
  "panic: boom",
  "goroutine 1 [running]:",
  "main.main()",
  " ---> System.Exception",
  "END",
];

const ways: (Partial<MultilineConfig> | undefined)[] = [
  undefined,
  { startPattern: "^\\d{4}-" },
  { endPattern: "^END" },
  { preset: "java" },
  { preset: "python" },
  { preset: "go" },
  { preset: "dotnet" },
];

const lineOf = (encoding: string) =>
  fc
    .tuple(
      fc.constantFrom(...beginnings),
      fc.array(fc.constantFrom(...(words[encoding] ?? [])), { maxLength: 3 }),
      fc.constantFrom("\n", "\n", "\r\n"),
    )
    .map(([beginning, tail, end]) =>
      Buffer.concat([
        encode(beginning, encoding),
        ...tail.map((word) =>
          typeof word === "string" ? encode(word, encoding) : Buffer.from(word),
        ),
        encode(end, encoding),
      ]),
    );

const file = fc.constantFrom(...Object.keys(words)).chain((encoding) =>
  fc.record({
    encoding: fc.constant(encoding as Encoding),
    lines: fc.array(lineOf(encoding), { minLength: 1, maxLength: 60 }),
    hasEnd: fc.boolean(),
  }),
);

it("equals the records of the whole file, whatever the writes, the buffers and the kills", async () => {
  const property = fc.asyncProperty(
    file,
    fc.constantFrom(...ways),
    fc.constantFrom(1, 2, 3, 500),
    fc.integer({ min: 1_030, max: 2_500 }),
    fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 900 }), isKilled: fc.boolean() }), {
      maxLength: 12,
    }),
    async ({ encoding, lines, hasEnd }, way, maxLines, bufferBytes, writes) => {
      const all = Buffer.concat(lines);
      const width = encoding.startsWith("utf-16") ? 2 : 1;
      const content = hasEnd ? all : all.subarray(0, all.length - width);
      const multiline = way && joinedBy({ ...way, maxLines });
      const tail = await createMemoryTail({
        encoding,
        bufferBytes,
        ...(multiline === undefined ? {} : { multiline }),
      });
      let written = 0;
      for (const { bytes, isKilled } of writes) {
        await tail.write(content.subarray(written, written + bytes));
        written += bytes;
        if (isKilled) tail.kill();
      }
      await tail.write(content.subarray(written));
      await tail.finish();
      const stored = tail.records.map(({ payload, attributes }) => ({
        text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(payload),
        offset: Number(attributes["file.offset"]),
        part: attributes["file.part"],
        partial: attributes["file.partial"],
      }));
      expect(stored).toEqual(await recordsOf(content, encoding, multiline));
    },
  );
  await fc.assert(property, { numRuns: runsOf(600) });
});

describe("an incomplete record", () => {
  it("is stored after its timeout, without its incomplete line, and joined no more", async () => {
    const tail = await createMemoryTail({ multiline: joinedBy({ preset: "java" }) });
    await tail.write("one\n\tat a\n\tat b");
    await tail.wait(900);
    tail.expectTexts();
    await tail.wait(200);
    tail.expectTexts("one\n\tat a");
    await tail.write("\n\tat c\ntwo\n");
    tail.expectTexts("one\n\tat a", "\tat b\n\tat c");
    await tail.wait(1_100);
    expect(tail.texts().slice(2)).toEqual(["two"]);
    expect(tail.parts()).toEqual(Array(3).fill([undefined, undefined]));
  });

  it("ends where a truncation left a hole of NULs", async () => {
    const tail = await createMemoryTail({ multiline: joinedBy({ preset: "java" }) });
    await tail.write("one\n\tat a\n\0\0\0\0\tat b\ntwo\nthree\n");
    tail.expectTexts("one\n\tat a", "\tat b", "two");
  });
});

describe("pieces", () => {
  it("have numbers, over a restart, also the last one, and end with whole characters", async () => {
    const tail = await createMemoryTail();
    const long = `x${"ß".repeat(1024 * 1024 + 10)}`;
    await tail.write(`a\n${long.slice(0, 600_000)}`);
    await tail.write(long.slice(600_000));
    tail.kill();
    await tail.write("\nb\n");
    expect(tail.parts()).toEqual([
      [undefined, undefined],
      ["1", "true"],
      ["2", "true"],
      ["3", undefined],
      [undefined, undefined],
    ]);
    expect(tail.texts().slice(1, 4).join("") === long).toBe(true);
    expect(tail.replaced()).toBe(0);
  });

  it("of a line without its end are numbered as well", async () => {
    const tail = await createMemoryTail();
    await tail.write(Buffer.from("grüß").subarray(0, 5));
    await tail.wait(6_000);
    await tail.write(Buffer.concat([Buffer.from("ß").subarray(1), Buffer.from("e\nnext\n")]));
    tail.expectTexts("grü", "ße", "next");
    expect(tail.parts()).toEqual([
      ["1", "true"],
      ["2", undefined],
      [undefined, undefined],
    ]);
  });

  it("of a record that no chunk holds end with a line", async () => {
    const tail = await createMemoryTail({
      multiline: joinedBy({ startPattern: "^start", maxLines: 10_000 }),
    });
    const line = "x".repeat(999);
    await tail.write(`start\n${`${line}\n`.repeat(1_500)}start\nstart\n`);
    expect(tail.parts()).toEqual([
      ["1", "true"],
      ["2", undefined],
      [undefined, undefined],
    ]);
    const [one = "", two = ""] = tail.texts();
    expect(
      [one.length, two.length].every((length) => length % 1_000 === 999 || length % 1_000 === 5),
    ).toBe(true);
    expect(`${one}\n${two}` === `start\n${`${line}\n`.repeat(1_500)}`.slice(0, -1)).toBe(true);
  });
});

describe("encodings", () => {
  it.each<[Encoding, number[], string]>([
    ["utf-8", [0xef, 0xbb, 0xbf, 0x61, 0x0a], "a"],
    ["utf-16le", [0xff, 0xfe, 0x61, 0, 0x0a, 0], "a"],
    ["utf-16le", [0xfe, 0xff, 0, 0x61, 0, 0x0a], "a"],
    ["utf-16be", [0xfe, 0xff, 0, 0x61, 0, 0x0a], "a"],
    ["latin1", [0xe9, 0x80, 0x0a], "é€"],
    ["windows-1251", [0xe9, 0x0a], "й"],
    ["koi8-r", [0xca, 0x0a], "й"],
    ["gb18030", [0xd6, 0xd0, 0x0a], "中"],
    ["gbk", [0xd6, 0xd0, 0x0a], "中"],
    ["big5", [0xa4, 0xa4, 0x0a], "中"],
    ["shift_jis", [0x95, 0x5c, 0x0a], "表"],
    ["euc-jp", [0xc6, 0xfc, 0x0a], "日"],
    ["euc-kr", [0xb0, 0xa1, 0x0a], "가"],
  ])("%s of %j becomes UTF-8 without a byte order mark: %s", async (encoding, bytes, text) => {
    const tail = await createMemoryTail({ encoding });
    await tail.write(Buffer.from(bytes));
    tail.kill();
    await tail.write(
      Buffer.from(bytes.filter((byte) => byte < 0xfe || !encoding.startsWith("utf"))),
    );
    expect(tail.texts()[0]).toBe(text);
    expect(tail.replaced()).toBe(0);
  });

  it("replaces invalid bytes and counts the replacements, in the lines that have them", async () => {
    const tail = await createMemoryTail();
    await tail.write(Buffer.from([0x61, 0x0a, 0x62, 0xff, 0xfe, 0x0a, 0xef, 0xbf, 0xbd, 0x0a]));
    tail.expectTexts("a", "b\ufffd\ufffd", "\ufffd");
    expect(tail.offsets()).toEqual([0, 2, 6]);
    expect(tail.replaced()).toBe(2);
  });

  it("skips the half of a unit at which the reading of UTF-16 begins", async () => {
    const text = Buffer.from("ab\ncd\n", "utf16le");
    const tail = await createMemoryTail({ encoding: "utf-16le" });
    await tail.write(text.subarray(0, 7));
    tail.expectTexts("ab");
    await tail.write(text.subarray(7));
    tail.expectTexts("ab", "cd");
    expect(tail.offsets()).toEqual([0, 6]);
  });

  it.each<[string, Buffer, string | undefined]>([
    ["a mark", Buffer.from("\ufeffä\n", "utf16le"), "utf-16le"],
    ["a mark of the other order", Buffer.from("\ufeffä\n", "utf16le").swap16(), "utf-16be"],
    ["NULs", Buffer.from("one\n", "utf16le"), "utf-16le"],
    ["text", Buffer.from("one\n"), undefined],
    ["a hole", Buffer.alloc(8), undefined],
  ])("warns once of a file that looks like UTF-16, by %s", async (_by, content, expected) => {
    const tail = await createMemoryTail();
    await tail.write(content);
    await tail.write(content);
    const warned = tail.logged.lines.filter(({ level }) => level === "warn");
    expect(warned.map(({ message }) => message)).toEqual(
      expected === undefined ? [] : [`the file looks like UTF-16; set \`encoding: ${expected}\``],
    );
  });
});
