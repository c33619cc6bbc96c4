import { describe, expect, it } from "vitest";
import { violationsOf } from "#scripts/verify/architecture.ts";
import budgets from "#scripts/verify/budgets.json" with { type: "json" };
import { routeFaults } from "#scripts/verify/budgets.ts";
import { readSource, readSources } from "#scripts/verify/imports.ts";
import { ownerFaults } from "#scripts/verify/owners.ts";
import { parsingFiles, platformFaults } from "#scripts/verify/platform-uses.ts";

const repository = readSources();
const sourcesOf = (files: Readonly<Record<string, string>>) =>
  Object.entries(files).map(([path, text]) => readSource(path, text));
const violations = (files: Readonly<Record<string, string>>) => violationsOf(sourcesOf(files));

describe("architecture", () => {
  it("has no violation in the repository", () => {
    expect(repository.length).toBeGreaterThan(40);
    expect(violationsOf(repository)).toEqual([]);
  });

  const lines = (count: number) => "f();\n".repeat(count);

  it.each([
    [51, 51, `const f = () => {\n${lines(49)}};\nconst g = () => {\n\n// h\n${lines(48)}};`],
    [
      53,
      151,
      `const f = () => {\n${`const g = () => {\n${lines(48)}};\n`.repeat(2)}${lines(49)}};`,
    ],
  ])("rejects a function of %i lines of its own and %i with those inside", (own, total, text) => {
    expect(violations({ "kit/a.ts": text })).toEqual([
      expect.stringContaining(`kit/a.ts:1: a function of ${own} lines, ${total} with those inside`),
    ]);
  });

  const planted: [name: string, path: string, text: string, message: RegExp][] = [
    [
      "a verb that imports HTTP",
      "functions/domain/fleet/a.ts",
      'import { Hono } from "hono";',
      /domain never imports hono/,
    ],
    [
      "a verb that imports Connect by a re-export",
      "functions/domain/fleet/a.ts",
      'export * from "@connectrpc/connect";',
      /domain never imports @connectrpc/,
    ],
    [
      "a verb that imports Node by a dynamic import",
      "functions/domain/fleet/a.ts",
      'const fs = await import("node:fs");',
      /node:\* stays in/,
    ],
    [
      "a verb that calls a route",
      "functions/domain/fleet/a.ts",
      'import "../../v1/index.ts";',
      /domain may not import v1/,
    ],
    ["a spread of a literal object", "kit/a.ts", "f({ ...({ a: 1 }), b });", /kit\/a.ts:1: packed/],
    ["a spread of a literal array in a test", "kit/a.test.ts", "f(\n...[1, 2]);", /:2: packed/],
    ["a list of names for a list of values", "kit/a.ts", "const [a, b] = [1, 2];", /packed/],
    ["an exchange in one assignment", "kit/a.ts", "[a, b] = [b, a];", /packed/],
    [
      "a route with SQL",
      "functions/v1/a.ts",
      'import { sql } from "drizzle-orm";',
      /v1 never imports drizzle-orm/,
    ],
    [
      "a route with a subpath of drizzle",
      "functions/v1/a.ts",
      'import { pgTable } from "drizzle-orm/pg-core";',
      /v1 never imports drizzle-orm/,
    ],
    [
      "a route that skips the domain",
      "functions/v1/a.ts",
      'import { findPerson } from "../store/directory.ts";',
      /v1 may import only types from store/,
    ],
    [
      "an inline type import, which is not erased",
      "functions/v1/a.ts",
      'import { type Executor } from "../store/database.ts";',
      /only types from store/,
    ],
    [
      "a query that imports the domain",
      "functions/store/a.ts",
      'import "../domain/fleet/a.ts";',
      /store may not import domain/,
    ],
    [
      "a schema that imports the store",
      "drizzle/schema/a.ts",
      'import "../../functions/store/a.ts";',
      /may not import store/,
    ],
    [
      "a wire format that knows core",
      "proto/a.ts",
      'import "../functions/problems.ts";',
      /proto may not import problems/,
    ],
    [
      "a kit that imports core",
      "kit/a.ts",
      'import "../functions/problems.ts";',
      /kit may not import problems/,
    ],
    [
      "a job that imports the directory client",
      "functions/jobs/a.ts",
      'import { admin } from "@googleapis/admin";',
      /only directory imports it/,
    ],
    [
      "a static import of the directory client",
      "functions/jobs/a.ts",
      'import { readGoogleDirectory } from "../directory/google-directory.ts";',
      /by import\(\)/,
    ],
    [
      "a collector that imports core",
      "collector/queue/a.ts",
      'import "#functions/http/route.ts";',
      /collector may not import http/,
    ],
    [
      "a user interface that imports values of the BFF",
      "ui/app/a.ts",
      'import { a } from "../bff/a.ts";',
      /only types from bff/,
    ],
    [
      "a program that imports a test",
      "functions/main.ts",
      'import "../tests/core.ts";',
      /programs and scripts do not import tests/,
    ],
    [
      "a script that imports a test",
      "scripts/demo/main.ts",
      'import { createTestCore } from "../../tests/core.ts";',
      /scripts do not import tests/,
    ],
    [
      "a script that imports a type of a test",
      "scripts/lab/visit-page.ts",
      'import type { TestWeb } from "../../tests/web.ts";',
      /scripts do not import tests/,
    ],
    ["a worker that imports Node", "functions/worker.ts", 'import "node:net";', /node:\* stays in/],
    [
      "a long file",
      "kit/a.ts",
      "line();\n".repeat(401),
      /401 lines of code; a file has at most 400/,
    ],
    ["a name in camelCase", "kit/runEvery.ts", "", /runEvery.ts is not kebab-case/],
    ["a name without meaning", "kit/string-utils.ts", "", /"utils" has no meaning/],
    ["mutable module state", "kit/a.ts", "export let now = 0;", /"now" is mutable module state/],
    [
      "a route that reads the environment",
      "functions/v1/a.ts",
      "const p = process.env.PORT;",
      /only main.ts and worker.ts/,
    ],
  ];

  it.each(planted)("rejects %s", (_, path, text, message) => {
    expect(violations({ [path]: text })).toEqual([expect.stringMatching(message)]);
  });

  it("rejects a file that belongs to no part", () => {
    expect(() => violations({ "lib/a.ts": "" })).toThrow(/belongs to no part/);
  });

  it("rejects a cycle between folders and shows it", () => {
    const cycle = violations({
      "functions/domain/fleet/a.ts": 'import type { B } from "../audit/b.ts";',
      "functions/domain/audit/b.ts": 'import { c } from "../operator/c.ts";',
      "functions/domain/operator/c.ts": 'import { a } from "../fleet/a.ts";',
    });
    expect(cycle).toHaveLength(1);
    expect(cycle[0]).toContain(
      "functions/domain/fleet → functions/domain/audit → functions/domain/operator → functions/domain/fleet",
    );
  });

  it("allows tests to import anything, and programs what their part lists", () => {
    expect(
      violations({
        "functions/domain/fleet/a.test.ts":
          'import { createTestCore } from "../../../tests/core.ts"; import "node:fs";',
        "functions/domain/fleet/a.ts":
          'import type { Core } from "../../core.ts"; import { b } from "../../store/b.ts";',
        "functions/core.ts": 'import type { A } from "./domain/fleet/a.ts";',
        "functions/store/b.ts":
          'import { sql } from "drizzle-orm"; import { p } from "#drizzle/schema/index.ts";',
        "collector/main.ts":
          'import fs from "node:fs"; import { parse } from "../proto/collector-config/parse.ts";',
      }),
    ).toEqual([]);
  });
});

describe("budgets of routes", () => {
  const index = "functions/v1/index.ts";
  const planted = {
    [index]: 'import { a } from "./a.ts"; import type { Route } from "../http/route.ts";',
    "functions/v1/a.ts":
      'import { b } from "../domain/b.ts"; import "jose"; import type { D } from "../store/d.ts";',
    "functions/domain/b.ts":
      'export { c } from "../store/c.ts"; const e = await import("../store/e.ts");',
    "functions/store/c.ts": 'import { type A } from "../v1/a.ts";',
    "functions/store/d.ts": "",
    "functions/store/e.ts": "",
  };
  const faultsOf = (
    budgets: Readonly<Record<string, number>>,
    files: Readonly<Record<string, string>> = planted,
  ) => routeFaults(sourcesOf(files), budgets);

  it("are kept by the repository", () => {
    expect(routeFaults(repository, budgets)).toEqual([]);
  });

  it("count the files that value imports reach, without types and packages", () => {
    expect(faultsOf({ "functions/v1/a.ts": 4 })).toEqual([]);
    expect(faultsOf({})).toEqual(["functions/v1/a.ts: has no budget; it reaches 4 files"]);
  });

  it("reject a planted import, and show by which chain each file is reached", () => {
    const grown = { ...planted, "functions/store/e.ts": 'import { d } from "./d.ts";' };
    expect(faultsOf({ "functions/v1/a.ts": 4 }, grown)).toEqual([
      "functions/v1/a.ts: reaches 5 files, more than its budget of 4",
      "Every file that functions/v1/a.ts reaches, under the file that imports it:",
      "  functions/domain/b.ts",
      "    functions/store/c.ts",
      "    functions/store/e.ts",
      "      functions/store/d.ts",
    ]);
  });

  it("reject a budget without a route, and one that its route no longer needs", () => {
    expect(faultsOf({ "functions/v1/a.ts": 7, "functions/v1/b.ts": 1 })).toEqual([
      "functions/v1/b.ts: has a budget, but is no route",
    ]);
    expect(faultsOf({ "functions/v1/a.ts": 8 })).toEqual([
      "functions/v1/a.ts: reaches only 4 files; lower its budget of 8",
    ]);
  });
});

describe("exported names", () => {
  it("have one owner in the repository", () => {
    expect(ownerFaults(repository)).toEqual([]);
  });

  it("reject a second owner, but no second name of a type, re-export, test or generated file", () => {
    const owned = {
      "kit/a.ts": "export const a = 1; export type a = number; export default 1;",
      "kit/b.ts": 'export { a } from "./a.ts"; export * from "./a.ts"; export default 2;',
      "kit/a.test.ts": "export const a = 2;",
      "tests/a.ts": "export const a = 3;",
      "client/gen/a.ts": "export const a = 4;",
    };
    expect(ownerFaults(sourcesOf(owned))).toEqual([]);
    const second = { ...owned, "scripts/a/a.ts": "const b = 5; export { b as a };" };
    expect(ownerFaults(sourcesOf(second))).toEqual(["a: exported by kit/a.ts and scripts/a/a.ts"]);
  });
});

describe("the platform's time, timers and randomness", () => {
  it("are used only where a reason is given", () => {
    expect(platformFaults(repository)).toEqual([]);
  });

  it.each([
    ["setTimeout", "setTimeout(() => undefined, 1);"],
    ["setInterval", "globalThis.setInterval(() => undefined, 1);"],
    ["setImmediate", "export const later = setImmediate;"],
    ["Date.now", "export const now = Date.now;"],
    ["new Date()", "export const at = new Date().toISOString();"],
    ["performance.now", "performance.now();"],
    ["Math.random", "Math.random();"],
    ["AbortSignal.timeout", "AbortSignal.timeout(1);"],
    ["crypto.randomUUID", "crypto.randomUUID();"],
    ["crypto.getRandomValues", "crypto.getRandomValues(new Uint8Array(1));"],
    ["randomBytes", 'import { randomBytes } from "node:crypto";'],
    ["node:timers/promises", 'import { scheduler } from "node:timers/promises";'],
    ["process.hrtime", "process.hrtime.bigint();"],
  ])(
    "reject a planted %s in product code, but not in tests, scripts, pages and comments",
    (use, text) => {
      const faultsOf = (path: string, planted: string) =>
        platformFaults(sourcesOf({ [path]: planted }), []);
      expect(faultsOf("functions/ingest/a.ts", text)).toEqual([
        expect.stringContaining(`uses ${use};`),
      ]);
      for (const path of [
        "functions/ingest/a.test.ts",
        "tests/a.ts",
        "scripts/a/a.ts",
        "ui/app/a.ts",
      ])
        expect(faultsOf(path, text)).toEqual([]);
      expect(faultsOf("functions/ingest/a.ts", `// ${text}\n/* ${text} */`)).toEqual([]);
    },
  );

  it("accept a type, a method of that name, and a given time", () => {
    const text =
      "export let a: ReturnType<typeof setTimeout>; socket.setTimeout(1); new Date(0); clock.now();";
    expect(platformFaults(sourcesOf({ "kit/a.ts": text }), [])).toEqual([]);
  });

  it("reject a reason that nothing needs", () => {
    const reasons = [{ reason: "none", uses: { "kit/a.ts": ["Math.random", "Date.now"] } }];
    expect(platformFaults(sourcesOf({ "kit/a.ts": "Date.now();" }), reasons)).toEqual([
      "kit/a.ts: does not use Math.random; take it from scripts/verify/platform-uses.ts",
    ]);
  });
});

describe("JSON and YAML", () => {
  it("O3: is parsed only where it is counted first, or is our own", () => {
    const { files, faults } = parsingFiles(repository);
    expect(faults).toEqual([]);
    expect(files.length).toBeGreaterThan(30);
  });

  it.each([
    "export const parse = JSON.parse;",
    "export const read = (response: Response) => response.json();",
    "export const Text = v.pipe(v.string(), v.parseJson());",
    'import { parseDocument } from "yaml";',
  ])("O3: is not parsed elsewhere: %s", (text) => {
    const faultsOf = (path: string) =>
      parsingFiles(sourcesOf({ "kit/own/a.ts": text, [path]: text }), { own: ["kit/own/"] }).faults;
    for (const path of ["kit/own/b.ts", "kit/a.test.ts", "scripts/a/a.ts", "ui/app/a.ts"])
      expect(faultsOf(path)).toEqual([]);
    expect(faultsOf("kit/b.ts")).toEqual([
      expect.stringContaining("kit/b.ts: parses JSON or YAML"),
    ]);
    expect(parsingFiles([], { own: ["kit/own/"] }).faults).toEqual([
      expect.stringContaining("kit/own/: parses nothing"),
    ]);
  });
});
