import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type MockQuestion, readQuestion } from "./question.ts";
import { textLiteral } from "./topics.ts";

const cases: [string, Partial<MockQuestion>][] = [
  ["Why is host web-01 stale?", { host: "web-01" }],
  ["Tell me about web-01.eu.example.com.", { host: "web-01.eu.example.com" }],
  ["What about spiffe://fleet/web/db-7?", { host: "spiffe://fleet/web/db-7" }],
  ['Show "rack 4: left"', { host: "rack 4: left" }],
  ["state of db-3", { host: "db-3" }],
  ["Is the collector edge-a connected", { host: "edge-a" }],
  ["Which hosts need attention?", { host: null }],
  ["Which host sends most?", { host: null }],
  ["Which hosts are up-to-date?", { host: null }],
  ["What's wrong? It's the operator's day", { host: null }],
  ["Who runs 1.4.0-rc.1 or 2026-11-20?", { host: null }],
  ["Which certificates expire within 12 days?", { periodSeconds: 12 * 86_400, host: null }],
  ["who changed what in the last 24 hours", { periodSeconds: 86_400, host: null }],
  ["changes of the last week", { periodSeconds: 604_800 }],
  ["failures of the past 90 seconds", { periodSeconds: 90 }],
  ["top 5 queues", { top: 5, periodSeconds: null }],
];

describe("readQuestion", () => {
  it.each(cases)("reads %s", (content, expected) => {
    expect(readQuestion(content)).toMatchObject(expected);
  });

  it("reads any text, and its start only", () => {
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 300 }), (content) => Boolean(readQuestion(content))));
    expect(readQuestion(`${"x ".repeat(5_000)} web-01`).host).toBeNull();
  });
});

describe("textLiteral", () => {
  it("returns one literal of PostgreSQL for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("'", "\\", "\0", "a", ";", "-", '"', "\n") }), (text) => {
        const literal = textLiteral(text);
        // What is left between the outer quotes, without its pairs of quotes, must not end the literal.
        expect(literal.slice(1, -1).replaceAll("''", "")).not.toMatch(/['\0]/);
        expect(literal.slice(1, -1).replaceAll("''", "'")).toBe(text.replaceAll("\0", ""));
      }),
    );
  });
});
