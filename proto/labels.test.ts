import fc from "fast-check";
import * as v from "valibot";
import { expect, it } from "vitest";
import { isLabelKey, isLabelValue, Labels, labelsMax } from "./labels.ts";

const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, "v"]));
const accepts = (labels: unknown) => v.is(Labels, labels);

it("accepts up to 16 labels of Kubernetes' syntax without prefixes", () => {
  for (const labels of [
    {},
    many(labelsMax),
    { env: "prod", "app.tier": "A-1_b.c", x: "1" },
    { ["k".repeat(63)]: "v".repeat(63) },
  ])
    expect(v.parse(Labels, labels)).toEqual(labels);
  expect(accepts(many(labelsMax + 1))).toBe(false);
});

it.each([
  ["an array", ["prod"]],
  ["text", "env=prod"],
  ["null", null],
  ["an empty key", { "": "v" }],
  ["a key with a prefix", { "example.com/env": "prod" }],
  ["a key of 64 characters", { ["k".repeat(64)]: "v" }],
  ["a key that valibot would drop", { constructor: "v" }],
  ["a key that is no own property elsewhere", JSON.parse('{"__proto__": "v"}')],
  ["an empty value", { env: "" }],
  ["a value of 64 characters", { env: "v".repeat(64) }],
  ["a value that ends in a dash", { env: "prod-" }],
  ["a value with a colon", { env: "a:b" }],
  ["a value with a line feed", { env: "a\n" }],
  ["a number", { release: 1.4 }],
])("rejects %s", (_, labels) => {
  expect(accepts(labels)).toBe(false);
});

it("accepts as keys and values exactly what Kubernetes accepts, apart from reserved names", () => {
  const word = fc.oneof(
    fc.string({ maxLength: 70 }),
    fc.stringMatching(/^[a-zA-Z0-9._-]{0,66}$/),
    fc.constantFrom("a", "a.b", "-a", "a_", "é"),
  );
  const isKubernetesName = (text: string) =>
    text.length <= 63 && /^(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/.test(text);
  fc.assert(
    fc.property(word, (text) => {
      expect(isLabelValue(text)).toBe(isKubernetesName(text));
      expect(isLabelKey(text)).toBe(
        isKubernetesName(text) && text !== "constructor" && text !== "prototype",
      );
    }),
  );
});
