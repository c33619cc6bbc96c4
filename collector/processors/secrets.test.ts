import fc from "fast-check";
import { expect, it } from "vitest";
import { redactPresets } from "#proto/collector-config/processors.ts";
import { searchSecrets } from "#tests/collector/support/secrets.ts";
import { createRandom } from "#tests/fakes/entropy.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { replaceSecrets } from "./secrets.ts";

it.each(redactPresets)("finds each secret of the form %s, and hardly anything else", (form) => {
  const lines = runsOf(4_000);
  const { found, missed, wrong } = searchSecrets(form, lines, createRandom(7));
  expect([found, missed.slice(0, 5)]).toEqual([lines, []]);
  // A hundredth of what has the digits of a card by chance.
  expect(wrong.length, wrong.slice(0, 5).join("\n")).toBeLessThanOrEqual(lines / 100);
});

it("finds a card behind any text, and its digits in groups", () => {
  const part = fc.constantFrom("a", "1", "22 ", "-", " ", "4111-", ".\\n", "    ");
  const groups = ["4111", "1111", "1111", "1111"];
  fc.assert(
    fc.property(fc.array(part), fc.constantFrom("", " ", "-"), (parts, separator) => {
      const before = `${parts.join("")}:`;
      const text = `${before}${groups.join(separator)}; 1`;
      expect(replaceSecrets(text, "card", "[x]")).toBe(`${before}[x]; 1`);
    }),
  );
});

/** Texts of a megabyte that a form could read again and again. */
const hostile = [
  "a",
  "1",
  "1 ",
  " ",
  "4111 ",
  "4111-1111-",
  "a@",
  "a.",
  "a@a.",
  "@a.a",
  "%40",
  "\\n",
  "\\a",
  "\\u0041",
  "eyJ",
  "eyJaaaaaa.",
  " eyJaaaaaa",
  "bearer ",
  "bearer+",
  "Bearer a1",
  "://",
  "://a:",
  "://a:b",
  ":",
  "secret_key ",
  "secretkey=  ",
  `AK${"IA".padEnd(18, "A")} `,
  "A/+",
].flatMap((part) => {
  const text = part.repeat(1_000_000 / part.length);
  return [text, `${text} bearer a@a.aa eyJ.a.a secret_key=x ://a:b@c 1111111111111`];
});

it.each(redactPresets)(
  "G1: searches a megabyte for the form %s in a time linear in it",
  async (form) => {
    for (const text of hostile) {
      const ms = await cpuMillisecondsOf(1_500, () => replaceSecrets(text, form, "[redacted]"));
      expect(ms, text.slice(0, 20)).toBeLessThan(1_500);
    }
  },
);
