import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesScimFilter, parseScimFilter, parseScimPath, ScimSyntaxError } from "./filter.ts";

const attribute = (name: string, sub: string | null = null) => ({ name, sub });

describe("a filter", () => {
  it("binds not before and, and before or, in any case", () => {
    const filter = parseScimFilter('a eq 1 OR b Eq "x" and NOT (c pr)');
    expect(filter).toEqual({
      kind: "or",
      left: { kind: "compare", attribute: attribute("a"), operator: "eq", value: 1 },
      right: {
        kind: "and",
        left: { kind: "compare", attribute: attribute("b"), operator: "eq", value: "x" },
        right: { kind: "not", filter: { kind: "present", attribute: attribute("c") } },
      },
    });
  });

  it("reads strings as JSON does, and values of every type", () => {
    const readValue = (text: string) => {
      const filter = parseScimFilter(`a eq ${text}`);
      return filter.kind === "compare" ? filter.value : undefined;
    };
    expect(readValue('"\\u0041\\"\\\\ and (x)"')).toBe('A"\\ and (x)');
    expect([readValue("true"), readValue("False"), readValue("null"), readValue("-2.5")]).toEqual([
      true,
      false,
      null,
      -2.5,
    ]);
  });

  it.each([
    ['type eq "WORK"', true],
    ['value co "ada" and not (type eq "home")', true],
    ['value sw "b" or primary eq "True"', true],
    ["display pr", false],
    ["display eq null", true],
    ['value ew ".org"', false],
    ['value gt "a" and value le "z"', true],
    ['type ne "work"', false],
  ])("%s matches an element: %s", (text, expected) => {
    const element = { value: "ada@example.test", type: "work", primary: true };
    expect(matchesScimFilter(parseScimFilter(text), element)).toBe(expected);
  });

  it("throws nothing but a syntax error, whatever the text", () => {
    const word = fc.constantFrom(
      "a",
      "a.b",
      "eq",
      "and",
      "or",
      "not",
      "(",
      ")",
      "[",
      "]",
      '"x"',
      "pr",
      "1",
      '"',
      "urn:x",
    );
    const text = fc.oneof(
      fc.string({ maxLength: 60 }),
      fc.array(word, { maxLength: 20 }).map((words) => words.join(" ")),
    );
    fc.assert(
      fc.property(text, (filter) => {
        for (const parse of [parseScimFilter, parseScimPath])
          try {
            parse(filter);
          } catch (error) {
            expect(error).toBeInstanceOf(ScimSyntaxError);
          }
      }),
      { numRuns: 2000 },
    );
  });

  it("takes time in proportion to its length", () => {
    for (const text of [
      "(".repeat(4096),
      `a eq "${"\\".repeat(4000)}`,
      " ".repeat(4096),
      "a".repeat(4096),
    ])
      expect(() => parseScimFilter(text)).toThrow(ScimSyntaxError);
  });
});

describe("a path", () => {
  it.each([
    ["Name.GivenName", { ...attribute("name", "givenname"), filter: null }],
    [
      "urn:ietf:params:scim:schemas:core:2.0:User:userName",
      { ...attribute("username"), filter: null },
    ],
    [
      'emails[type eq "work"].value',
      {
        ...attribute("emails", "value"),
        filter: { kind: "compare", attribute: attribute("type"), operator: "eq", value: "work" },
      },
    ],
  ])("%s", (text, path) => expect(parseScimPath(text)).toEqual(path));

  it.each([
    "",
    "emails[",
    "emails[]",
    "a.b.c",
    "name.x[a pr]",
    "emails[type pr].value.x",
    "a b",
    "1",
  ])("rejects %j", (text) => expect(() => parseScimPath(text)).toThrow(ScimSyntaxError));
});
