import { readFileSync } from "node:fs";
import fc from "fast-check";
import { parseSync, Visitor } from "oxc-parser";
import { describe, expect, it } from "vitest";
import { repositoryFiles } from "../../scripts/repository-files.ts";
import { countCpuMilliseconds } from "../support/cpu-time.ts";

interface Found {
  file: string;
  line: number;
  pattern: RegExp;
}

/** Every regular expression of the programs: a literal, or `RegExp(…)`, whose placeholders are read as `9`. */
const findPatterns = (file: string, source: string): Found[] => {
  const found: Found[] = [];
  const add = (start: number, pattern: RegExp) =>
    found.push({ file, line: source.slice(0, start).split("\n").length, pattern });
  const addConstructed = ({ start, callee, arguments: args }: Constructed) => {
    if (callee.type !== "Identifier" || callee.name !== "RegExp") return;
    const [text, flags] = args.map((arg) => textOf(arg));
    if (text === undefined) throw new Error(`${file}: RegExp of something that this test cannot read`);
    add(start, new RegExp(text, flags));
  };
  new Visitor({
    Literal(node) {
      if ("regex" in node && node.regex) add(node.start, new RegExp(node.regex.pattern, node.regex.flags));
    },
    NewExpression: addConstructed,
    CallExpression: addConstructed,
  }).visit(parseSync(file, source).program);
  return found;
};

interface Constructed {
  start: number;
  callee: { type: string; name?: unknown };
  arguments: readonly { type: string; value?: unknown; quasis?: readonly { value: { cooked: string | null } }[] }[];
}

const textOf = (node: Constructed["arguments"][number]): string | undefined => {
  if (node.type === "Literal" && typeof node.value === "string") return node.value;
  return node.type === "TemplateLiteral" ? node.quasis?.map(({ value }) => value.cooked).join("9") : undefined;
};

const size = 100_000;
const fill = (unit: string): string => unit.repeat(Math.ceil(size / unit.length)).slice(0, size);

/** Texts that repeat the start of a match and then fail: overlapping starts and overlapping quantifiers become quadratic on one of them. */
const adversarialTexts = function* (pattern: RegExp): Generator<string> {
  const characters = new Set([..." \t\n\"'\\/.,:;=-_+%@#[({<&a0Z\0\u2028é", ...pattern.source]);
  for (const character of characters) yield* [fill(character), `${fill(character)}\0`, `x${fill(character)}\0x`];
  const starts = new Set<string>();
  for (const match of matchesOf(pattern)) {
    for (let length = 1; length <= Math.min(match.length, 24); length++) starts.add(match.slice(0, length));
    starts.add(match);
    starts.add(match.slice(0, -1));
  }
  starts.delete("");
  for (const start of starts) {
    const last = start.at(-1) ?? "";
    yield* [fill(start), `${fill(start)}\0`, fill(`-${start}`), fill(` ${start}`), fill(`${start}\n`)];
    yield* [`${start}${fill(last)}\0`, `${start}${fill(`${last} `)}\0`, `${start}${fill(`${last}-`)}\0`];
  }
};

/** Three texts that match, always the same; none if fast-check cannot generate them (lookbehind). */
const matchesOf = (pattern: RegExp): string[] => {
  try {
    return fc.sample(fc.stringMatching(new RegExp(pattern.source, pattern.flags.replace(/[gim]/g, ""))), {
      numRuns: 3,
      seed: 1,
    });
  } catch {
    return ["eyJaaaaaaaaaaa.aaaaaaaaaa"];
  }
};

const apply = (pattern: RegExp, text: string): unknown =>
  pattern.global ? text.replace(pattern, "") : text.search(pattern);

/** Whether each of up to ten runs takes the pattern `limit` CPU milliseconds: a collection of garbage or another process slows some, never all. */
const takes = (pattern: RegExp, text: string, limit: number): boolean => {
  for (let run = 0; run < 10; run++) {
    const counted = countCpuMilliseconds();
    apply(pattern, text);
    if (counted() < limit) return false;
  }
  return true;
};

/** Returns a text that takes the pattern 10 ms or longer. A tenth of each is tried first: what is quadratic ends the search there. */
const findSlowText = (pattern: RegExp): string | null => {
  for (const text of adversarialTexts(pattern)) {
    const short = text.slice(0, size / 10) + text.slice(-2);
    if (takes(pattern, short, 3) || takes(pattern, text, 10)) return JSON.stringify(text.slice(0, 40));
  }
  return null;
};

describe("regular expressions", () => {
  const files = repositoryFiles("functions/*.ts", "kit/*.ts", "collector/*.ts", "proto/*.ts", "ui/bff/*.ts").filter(
    (file) => !file.endsWith(".test.ts") && !file.startsWith("proto/gen/"),
  );
  const patterns = files.flatMap((file) => findPatterns(file, readFileSync(file, "utf8")));

  it("finds them in core, web and collector", () => {
    const folders = new Set(patterns.map(({ file }) => file.split("/")[0]));
    expect([...folders].sort()).toEqual(["collector", "functions", "kit", "proto", "ui"]);
    expect(patterns.length).toBeGreaterThan(80);
  });

  it("I7: each of them reads 100 KB of any adversarial shape in less than 10 ms", { timeout: 120_000 }, () => {
    const slow: string[] = [];
    for (const { file, line, pattern } of patterns) {
      const text = findSlowText(pattern);
      if (text !== null) slow.push(`${file}:${line} ${pattern} on ${text}`);
    }
    expect(slow).toEqual([]);
  });

  it.each([
    ["trailing slashes", "/\\/+$/"],
    ["the list separator of If-None-Match", "/\\s*,\\s*/"],
    ["overlapping tokens", "/\\beyJ[A-Za-z0-9_-]{8,2048}\\.[A-Za-z0-9_-]{8}/"],
  ])("goes red on %s", (_, literal) => {
    const [found] = findPatterns("planted.ts", `const a = ${literal};`);
    expect(found && findSlowText(found.pattern)).toEqual(expect.any(String));
  });
});
