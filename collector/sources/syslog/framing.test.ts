import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFraming, FramingError } from "./framing.ts";

const textsOf = (chunks: readonly (string | Buffer)[], bytesMax = 1_000) => {
  const framing = createFraming(bytesMax);
  const frames = chunks.flatMap((chunk) => framing.push(Buffer.from(chunk)));
  return [...frames, ...framing.rest()].map(({ bytes, isPartial }) => [`${bytes}`, isPartial]);
};
const whole = (...texts: string[]) => texts.map((text) => [text, false]);
const count = (text: string) => `${Buffer.byteLength(text)} ${text}`;

describe("createFraming", () => {
  it.each([
    ["line ends", ["<13>a\n<13>b\r\n"], ["<13>a", "<13>b\r"]],
    ["NULs, as glibc writes", ["<13>a\0<13>b\0"], ["<13>a", "<13>b"]],
    ["empty lines", ["\n\n<13>a\n\0\n"], ["<13>a"]],
    ["lengths", [`${count("<13>a\nb")}${count("<13>c")}`], ["<13>a\nb", "<13>c"]],
    ["lengths, and line ends after them", ["6 <13>ab\n6 <13>cd\r\n"], ["<13>ab", "<13>cd"]],
    ["lines that begin with a number", ["12 monkeys\n<13>b\n"], ["12 monkeys", "<13>b"]],
    ["a first byte alone", ["6", " <13>ab"], ["<13>ab"]],
  ])("divides messages by %s", (_, chunks, texts) => {
    expect(textsOf(chunks)).toEqual(whole(...texts));
  });

  it("finds the same messages wherever packets are divided", () => {
    const message = fc.stringMatching(/^<13>[^\n\0]{0,30}$/);
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1 }),
        fc.boolean(),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (messages, isCounted, sizes) => {
          const sent = messages.map((text) => (isCounted ? count(text) : `${text}\n`)).join("");
          let rest = Buffer.from(sent);
          const chunks: Buffer[] = [];
          for (; rest.length > 0; rest = rest.subarray(chunks.at(-1)?.length))
            chunks.push(rest.subarray(0, sizes.next().value));
          expect(textsOf(chunks)).toEqual(whole(...messages));
        },
      ),
    );
  });

  it("F6: returns a last message without its end, with a mark", () => {
    expect(textsOf(["<13>a\n<13>b"])).toEqual([...whole("<13>a"), ["<13>b", true]]);
    expect(textsOf(["9 <13>a"])).toEqual([["<13>a", true]]);
  });

  it("F7: divides a line that is too long between characters", () => {
    const framing = createFraming(8);
    const frames = framing.push(Buffer.from("<13>aaaé56789é\n<13>b\n"));
    expect(frames.map(({ bytes, ...marks }) => [`${bytes}`, ...Object.values(marks)])).toEqual([
      ["<13>aaa", true, false],
      ["é56789", true, true],
      ["é", false, true],
      ["<13>b", false, false],
    ]);
    for (let sent = 0; sent < 100; sent++) framing.push(Buffer.from("aaa"));
    expect(framing.heldBytes()).toBeLessThanOrEqual(8);
  });

  it.each([
    ["too large", "9999999999 <13>a", "too_large"],
    ["too large by a byte", "1001 <13>a", "too_large"],
    ["too small", "5 <13>abc 6 <13>ab", "malformed"],
    ["of a number that never ends", `5 <13>a${"1".repeat(30)}`, "malformed"],
  ])("O2: refuses a sender whose length is %s, and keeps nothing for it", (_, sent, reason) => {
    const framing = createFraming(1_000);
    expect(() => framing.push(Buffer.from(sent))).toThrow(
      expect.objectContaining({ constructor: FramingError, reason }),
    );
    expect(framing.heldBytes()).toBe(0);
  });

  it("takes a message in single bytes without copying it each time", () => {
    const framing = createFraming(1_000_000);
    const began = performance.now();
    for (let sent = 0; sent < 300_000; sent++) framing.push(Buffer.of(0x61));
    expect(framing.heldBytes()).toBe(300_000);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});
