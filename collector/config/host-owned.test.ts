import { expect, it } from "vitest";
import { parseTree } from "#proto/collector-config/tree.ts";
import { keepHostOwned } from "./host-owned.ts";

const host = `buffer: {dir: /q}
labels: {env: prod}
processors: [{name: cards, redact: {presets: [card]}}] # what leaves this host
`;
const keep = (desired: string, present = host) => {
  const parsed = parseTree(keepHostOwned(desired, present));
  return parsed.ok ? parsed.tree : parsed.errors;
};
const cards = [{ name: "cards", redact: { presets: ["card"] } }];

it("takes the rules of a host's own file for the host's, whatever the desired config has", () => {
  expect(keep("buffer: {dir: /q}\n")).toEqual({
    buffer: { dir: "/q" },
    labels: { env: "prod" },
    local_processors: cards,
  });
  const weaker = "processors: [{name: cards, redact: {presets: [email]}}]\n";
  expect(keep(weaker)).toMatchObject({
    processors: [{ redact: { presets: ["email"] } }],
    local_processors: cards,
  });
  expect(keep("local_processors: []\n")).toMatchObject({ local_processors: cards });
});

it("keeps the host's rules, and those alone, through later configs of core", () => {
  const first = keepHostOwned(
    "processors: [{name: core, drop: {path: /a}}]\n",
    "buffer: {dir: /q}\n",
  );
  expect(parseTree(first)).toMatchObject({ tree: { local_processors: [] } });
  expect(keep("log: {level: info}\n", first)).toEqual({ log: { level: "info" } });
  const second = keepHostOwned("processors: [{name: core, drop: {path: /a}}]\n", host);
  const edited = second.replace("- card\n", "- jwt\n");
  expect(edited).not.toBe(second);
  expect(keep("log: {level: info}\n", edited)).toEqual({
    log: { level: "info" },
    labels: { env: "prod" },
    local_processors: [{ name: "cards", redact: { presets: ["jwt"] } }],
  });
});

it("leaves a text as it is where both have the same, with its comments otherwise", () => {
  const plain = "# by core\nlog:   {level: info}\n";
  expect(keepHostOwned(plain, "buffer: {dir: /q}\n")).toBe(plain);
  expect(keepHostOwned(host, host)).toBe(host);
  expect(keepHostOwned(plain, host)).toMatch(/^# by core\n/);
});
