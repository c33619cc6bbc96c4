import fc from "fast-check";
import { expect, it } from "vitest";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { formBytesMax, parseForm } from "./form.ts";

it("has the fields that URLSearchParams wrote", () => {
  const fields = fc.dictionary(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }));
  fc.assert(
    fc.property(fields, (given) => {
      const wellFormed = Object.entries(given).map(([name, value]) => [
        name.toWellFormed(),
        value.toWellFormed(),
      ]);
      const unique = Object.fromEntries(wellFormed);
      expect(parseForm(new URLSearchParams(unique).toString())).toEqual(unique);
    }),
  );
});

it.each([
  ["", {}],
  ["&&a&b=&=c", { a: "", b: "", "": "c" }],
  ["a=b=c&d=e+f%20g", { a: "b=c", d: "e f g" }],
  ["__proto__=a", JSON.parse('{"__proto__":"a"}')],
])("reads %j", (text, fields) => {
  expect(parseForm(text)).toEqual(fields);
});

it.each(["a=1&a=2", "a=%", "a=%f", "%zz=1", "a=%ff"])("rejects %s", (text) => {
  expect(parseForm(text)).toBeUndefined();
});

it.each<[string, (bytes: number) => string]>([
  [
    "names",
    (bytes) =>
      Array.from({ length: bytes / 6 }, (_, at) => at.toString(36).padStart(5, "a")).join("&"),
  ],
  ["separators", (bytes) => "&".repeat(bytes)],
  ["spaces", (bytes) => `a=${"+".repeat(bytes)}`],
  ["escapes", (bytes) => `a=${"%41".repeat(bytes / 3)}`],
  ["escapes that are not UTF-8", (bytes) => "%ffa&".repeat(bytes / 5)],
])(
  "N1: takes less than 10 ms for the largest form of %s, and no time that grows with its square",
  async (_, textOf) => {
    const form = textOf(formBytesMax);
    const million = textOf(2 ** 20);
    expect(await cpuMillisecondsOf(10, () => parseForm(form))).toBeLessThan(10);
    // URLSearchParams takes 3 s.
    expect(await cpuMillisecondsOf(300, () => parseForm(million))).toBeLessThan(300);
  },
);
