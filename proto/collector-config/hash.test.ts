import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, it } from "vitest";
import { stringify } from "yaml";
import { configHash } from "./tree.ts";
import shared from "./vectors.json" with { type: "json" };

const key = fc
  .stringMatching(/^[a-z_]{1,8}$/)
  .filter((name) => !["management", "labels", "local_processors"].includes(name));
const leaf = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
const tree = fc.dictionary(key, fc.oneof(leaf, fc.array(leaf), fc.dictionary(key, leaf)));
const sha256 = (text: string | undefined) =>
  createHash("sha256")
    .update(text ?? "")
    .digest("hex");

it.each(shared.vectors)("computes the shared vector: $name", async ({ yaml, config_hash }) => {
  expect(await configHash(yaml)).toBe(config_hash);
});

it("is the SHA-256 of the canonical JSON of the tree as written, for any tree and either style", async () => {
  await fc.assert(
    fc.asyncProperty(tree, fc.constantFrom("BLOCK", "FLOW"), async (value, style) => {
      const text = stringify(value, { collectionStyle: style === "FLOW" ? "flow" : "block" });
      expect(await configHash(text)).toBe(sha256(canonicalize(value)));
    }),
  );
});

it("ignores comments, order, quoting and anchors, and fills in no defaults", async () => {
  const hash = await configHash("a: {x: 1, y: [true, null]}\nb: {x: 1, y: [true, null]}\n");
  expect(await configHash("# note\nb: &n\n  y:\n    - true\n    - ~\n  'x': 0x1\na: *n\n")).toBe(
    hash,
  );
  expect(
    await configHash("a: {x: 1, y: [true, null]}\nb: {x: 1, y: [true, null]}\nlog: {}\n"),
  ).not.toBe(hash);
});

it("leaves out the two reporting-only keys, and a management section with nothing else", async () => {
  const bare = await configHash("buffer: {dir: /q}");
  const reporting = "desired_config_hash: d, last_known_good_config_hash: l";
  expect(await configHash(`buffer: {dir: /q}\nmanagement: {${reporting}}`)).toBe(bare);
  expect(await configHash("buffer: {dir: /q}\nmanagement: {}")).not.toBe(bare);
  const managed = await configHash("management: {core_url: u}");
  expect(await configHash(`management: {core_url: u, ${reporting}}`)).toBe(managed);
  expect(await configHash(`nested: {management: {${reporting}}}`)).not.toBe(
    await configHash("nested: {}"),
  );
});

it("leaves out the labels and the rules of the host, and no other key of that name", async () => {
  const bare = await configHash("buffer: {dir: /q}");
  expect(await configHash("buffer: {dir: /q}\nlabels: {env: prod}")).toBe(bare);
  expect(await configHash("buffer: {dir: /q}\nlocal_processors: [{name: a}]")).toBe(bare);
  expect(await configHash("buffer: {dir: /q}\nprocessors: [{name: a}]")).not.toBe(bare);
  expect(
    await configHash("labels: {}\nbuffer: {dir: /q}\nmanagement: {desired_config_hash: d}"),
  ).toBe(bare);
  expect(await configHash("buffer: {dir: /q, labels: {env: prod}}")).not.toBe(bare);
});

it("is null for a text that is not one well-formed document, and hashes an invalid config", async () => {
  for (const text of [
    "a: [",
    "a: 1\na: 2",
    "a: 1\n---\nb: 2",
    "a: .inf",
    'a: "\\ud800"',
    "a: !x 1",
  ])
    expect(await configHash(text)).toBeNull();
  expect(await configHash("nonsense: 1")).toMatch(/^[0-9a-f]{64}$/);
  expect(await configHash("")).toBe(sha256("null"));
});
