import fc from "fast-check";
import { expect, it } from "vitest";
import { redactPresets } from "#proto/collector-config/processors.ts";
import { countCpuMilliseconds } from "#tests/support/cpu-time.ts";
import { createRedact } from "./redact.ts";

const card = ["4111", "1111", "1111", "1111"].join("");
const presets = ["card", "email"] as const;
const redactBy = (...patterns: readonly string[]) =>
  createRedact("pins", { presets: [...presets], patterns: [...patterns] });

it.each([
  ["no secret", "no secret"],
  [`paid with ${card} by a@b.example`, "paid with [redacted:card] by [redacted:email]"],
  ["pin=1234 and pin=5", "[redacted:pins] and [redacted:pins]"],
  // A line of JSON stays one, with the kind of its members.
  [`{"card":"${card}","n":1}`, '{"card":"[redacted:card]","n":1}'],
  [`{"card":${card},"n":1}`, '{"card":"[redacted:card]","n":1}'],
  [`{"n":-${card}}`, '"{\\"n\\":-[redacted:card]}"'],
  [`["a\\n${card}"]`, '["a\\n[redacted:card]"]'],
  ['{"a":"b\\u003ca@b.example"}', '{"a":"b\\u003c[redacted:email]"}'],
  // A pattern that takes its quotes too.
  ['{"key":"x","n":1}', '"{[redacted:pins],\\"n\\":1}"'],
  // A text that is not JSON need not become JSON.
  [`{broken ${card}`, "{broken [redacted:card]"],
  ["pin=é and é", "[redacted:pins] and é"],
])("redacts %j", async (text, redacted) => {
  const redact = await redactBy(String.raw`pin=\S+`, '"key":"[^"]*"');
  expect(redact(text)).toBe(redacted);
});

it("keeps JSON with secrets anywhere", async () => {
  const redact = await createRedact("all", { presets: [...redactPresets], patterns: [] });
  const secret = fc.constantFrom(card, "a@b.example", "bearer\nabcdefg1", "://a:b@c");
  const texts = fc.array(fc.tuple(fc.string(), secret, fc.string()));
  const bare = fc.constantFrom("1", card, ` ${card}\n`, `-${card}`);
  fc.assert(
    fc.property(texts, bare, (parts, number) => {
      const text = JSON.stringify(parts.map((part) => part.join("")));
      JSON.parse(redact(`{"a":${text},"n":${number}}`));
    }),
  );
});

it("leaves a text alone in which a pattern finds nothing but empty texts", async () => {
  const redact = await redactBy("x*", String.raw`\b`);
  expect(redact("a b")).toBe("a b");
});

it("G1: replaces a text as a whole that would become too long, or takes too many steps", async () => {
  const long = "a".repeat(1_000_000);
  const redactAll = await redactBy("a");
  expect(redactAll(long)).toBe("[redacted:pins]");
  const redactSlowly = await redactBy("a.*b|a");
  const counted = countCpuMilliseconds();
  expect(redactSlowly(long)).toBe("[redacted:pins]");
  expect(counted()).toBeLessThan(15_000);
});

it("rejects an expression that the engine does not compile, and one that is too large", async () => {
  await expect(redactBy("(")).rejects.toThrow();
  await expect(redactBy("(a{1000})")).rejects.toThrow("too large");
});
