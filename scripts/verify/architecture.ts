import { posix } from "node:path";
import { type ImportEdge, isGenerated, isTest, type SourceFile } from "./imports.ts";

/** A part of the repository and what it may import. The first part that matches a path has it. */
interface Part {
  name: string;
  /** Folders (ending in `/`) and files; by default the folder of `functions/` that has the part's name. */
  paths?: readonly string[];
  /** Names of parts beside its own. `"*"`: all. */
  imports: readonly string[];
  /** Names of parts from which it may import types only. */
  types?: readonly string[];
  /** Packages it never imports, by name or by scope. */
  without?: readonly string[];
  /** Packages that no other part may import, except scripts. */
  owns?: readonly string[];
  /** Files that others load by `import()` only, because their dependencies would make every start slower. */
  dynamic?: readonly string[];
  /** May import `node:*`, and read `process.env`. */
  node?: boolean;
}

const leaves = ["proto", "kit"];
const database = ["drizzle-orm", "postgres", "pg"];
const http = ["hono", "@hono", "@connectrpc"];
const outside = [...database, ...http];
const codeLinesMax = 400;
const vagueNames = new Set([
  "utils",
  "util",
  "helpers",
  "helper",
  "common",
  "manager",
  "impl",
  "misc",
]);

/** The allowed imports: `v1, ops, ingest, jobs → domain → store → schema`; the rest serves these. All others are rejected. */
export const parts: readonly Part[] = [
  { name: "tests", paths: ["tests/"], imports: ["*"], node: true },
  {
    name: "scripts",
    paths: ["scripts/", "docs/deploy/"],
    imports: ["*"],
    node: true,
  },
  { name: "proto", paths: ["proto/"], imports: ["kit"], without: [...database, "hono", "@hono"] },
  { name: "schema", paths: ["drizzle/schema/"], imports: ["proto"] },
  { name: "containment", paths: ["kit/contain-failures.ts"], imports: [], node: true },
  { name: "kit", paths: ["kit/"], imports: [], without: outside },
  { name: "problems", paths: ["functions/problems.ts"], imports: ["kit"] },
  { name: "metrics", paths: ["functions/counted-metrics.ts"], imports: [] },
  {
    name: "config",
    imports: [...leaves, "objects"],
  },
  {
    name: "core",
    paths: ["functions/core.ts"],
    imports: [],
    types: ["config", "kit", "proto", "store", "signer", "domain", "problems", "metrics"],
  },
  {
    name: "database-problem",
    paths: ["functions/store/database/problem.ts"],
    imports: ["kit", "problems"],
  },
  {
    name: "objects",
    imports: leaves,
    without: outside,
    owns: ["aws4fetch"],
  },
  {
    name: "store",
    imports: [...leaves, "schema", "objects", "problems", "database-problem"],
    without: http,
  },
  {
    name: "signer",
    imports: [...leaves, "problems"],
    types: ["config"],
    without: outside,
  },
  {
    name: "domain",
    imports: [...leaves, "store", "objects", "signer", "problems", "version"],
    types: ["core", "config", "schema", "directory", "inference", "chat-sql"],
    without: outside,
  },
  {
    name: "inference",
    imports: [...leaves, "problems"],
    types: ["config"],
    without: outside,
    owns: ["ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@ai-sdk/anthropic", "zod"],
    dynamic: ["functions/inference/ai-sdk.ts"],
  },
  {
    name: "chat-sql",
    imports: [...leaves, "store", "problems"],
    types: ["core", "config"],
    without: http,
    owns: ["libpg-query"],
    dynamic: ["functions/chat-sql/create-chat-sql.ts"],
  },
  {
    name: "http",
    imports: [...leaves, "domain", "problems", "database-problem"],
    types: ["core", "config", "schema", "store"],
    without: database,
  },
  {
    name: "opamp",
    imports: [...leaves, "domain", "store", "signer", "problems"],
    types: ["core"],
    without: outside,
  },
  {
    name: "v1",
    paths: ["functions/v1/", "functions/scim/"],
    imports: [...leaves, "http", "domain", "opamp", "problems"],
    types: ["core", "config", "schema", "store"],
    without: database,
  },
  {
    name: "ops",
    imports: [...leaves, "http", "domain", "store", "problems", "database-problem"],
    types: ["core", "config", "signer"],
    without: database,
  },
  {
    name: "ingest",
    imports: [...leaves, "domain", "store", "objects", "problems", "database-problem"],
    types: ["core", "config", "schema", "signer"],
    without: ["drizzle-orm"],
  },
  {
    name: "jobs",
    imports: [...leaves, "domain", "store", "objects", "directory", "problems"],
    types: ["core", "config"],
    without: outside,
  },
  {
    name: "directory",
    imports: leaves,
    without: outside,
    owns: ["@googleapis/admin", "google-auth-library"],
    dynamic: ["functions/directory/google-directory.ts"],
  },
  {
    name: "node",
    paths: ["functions/node/", "functions/export/"],
    imports: [
      ...leaves,
      "containment",
      "store",
      "objects",
      "database-problem",
      "signer",
      "ingest",
      "opamp",
      "problems",
      "metrics",
      "version",
    ],
    types: ["core", "config", "http", "ops", "domain"],
    node: true,
  },
  {
    name: "app",
    paths: ["functions/app.ts"],
    imports: [...leaves, "http", "v1", "ops", "problems"],
    types: ["core", "config"],
  },
  {
    name: "assembly",
    paths: ["functions/assemble-core.ts"],
    imports: ["kit", "metrics", "node", "signer", "store"],
    types: ["core"],
  },
  {
    name: "main",
    paths: [
      "functions/main.ts",
      "functions/server.ts",
      "functions/start-chat.ts",
      "functions/start-ingest.ts",
      "functions/ingest-registers.ts",
      "functions/commands.ts",
      "functions/command-core.ts",
      "functions/export-program.ts",
      "functions/verify-receipts.ts",
      "functions/verify-completeness.ts",
    ],
    imports: ["*"],
    node: true,
  },
  { name: "worker", paths: ["functions/worker.ts"], imports: ["*"] },
  { name: "version", paths: ["package.json"], imports: [] },
  {
    name: "collector",
    paths: ["collector/"],
    imports: [...leaves, "containment", "version"],
    without: database,
    node: true,
  },
  {
    name: "web",
    paths: ["ui/bff/main.ts", "ui/bff/server.ts"],
    imports: [...leaves, "bff", "node", "store", "version"],
    node: true,
  },
  { name: "bff", paths: ["ui/bff/"], imports: [...leaves, "schema"] },
  { name: "ui", paths: ["ui/app/"], imports: ["proto"], types: ["bff"], without: database },
  { name: "client", paths: ["client/"], imports: ["proto"] },
  {
    name: "admin",
    paths: ["admin/"],
    imports: [...leaves, "client", "version"],
    without: outside,
    node: true,
  },
];

const partOf = (path: string): Part => {
  const part = parts.find(({ name, paths = [`functions/${name}/`] }) =>
    paths.some((at) => (at.endsWith("/") ? path.startsWith(at) : path === at)),
  );
  if (part) return part;
  if (!path.includes("/")) return settings;
  throw new Error(
    `${path} belongs to no part of the architecture: give it one in scripts/verify/architecture.ts`,
  );
};

/** The files at the top of the repository. */
const settings: Part = { name: "settings", imports: ["*"], node: true };

/** Returns every violation of the architecture, as a sentence that names the file. */
export const violationsOf = (sources: readonly SourceFile[]): string[] =>
  [
    ...sources.flatMap(nameFaults),
    ...sources.filter(({ path }) => !isGenerated(path)).flatMap(importFaults),
    ...sources.filter(({ path }) => !isTest(path) && !isGenerated(path)).flatMap(shapeFaults),
    ...sources.filter(({ path }) => !isGenerated(path)).flatMap(packingFaults),
    ...folderCycles(sources),
  ].sort();

const nameFaults = ({ path }: SourceFile): string[] => {
  if (isGenerated(path)) return [];
  const faults: string[] = [];
  for (const name of path.split("/")) {
    if (!/^\.?[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9-]+)*$/.test(name))
      faults.push(`${path}: ${name} is not kebab-case`);
    const vague = name.split(/[.-]/).find((word) => vagueNames.has(word));
    if (vague) faults.push(`${path}: "${vague}" has no meaning; name it after what it does`);
  }
  return faults;
};

const shapeFaults = ({
  path,
  codeLines,
  longFunctions,
  moduleState,
  readsEnvironment,
}: SourceFile): string[] => {
  const part = partOf(path);
  return [
    ...(codeLines > codeLinesMax
      ? [`${path}: ${codeLines} lines of code; a file has at most ${codeLinesMax}`]
      : []),
    ...longFunctions.map(
      ({ line, own, total }) =>
        `${path}:${line}: a function of ${own} lines, ${total} with those inside; it has at most 50 and 150`,
    ),
    ...moduleState.map(
      (name) =>
        `${path}: "${name}" is mutable module state; make it part of what a factory returns`,
    ),
    ...(readsEnvironment && !part.node
      ? [`${path}: only main.ts and worker.ts read the environment`]
      : []),
  ];
};

const packingFaults = ({ path, packedLines }: SourceFile): string[] =>
  packedLines.map(
    (line) => `${path}:${line}: packed; write one property, element or statement a line`,
  );

const importFaults = ({ path, imports }: SourceFile): string[] => {
  if (isTest(path)) return [];
  const part = partOf(path);
  return imports.flatMap((edge) => {
    const fault = importFault(part, edge);
    return fault === undefined ? [] : [`${path}: imports ${edge.to}: ${fault}`];
  });
};

const importFault = (
  part: Part,
  { to, kind, typeOnly, dynamic }: ImportEdge,
): string | undefined => {
  if (kind === "node")
    return part.node
      ? undefined
      : "node:* stays in functions/node/, main.ts, collector/ and scripts/";
  if (kind === "package") {
    const banned = part.without?.find((name) => to === name || to.startsWith(`${name}/`));
    if (banned !== undefined) return `${part.name} never imports ${banned}`;
    const owner = parts.find(({ owns }) => owns?.includes(to));
    return owner === undefined || owner === part || part.name === "scripts"
      ? undefined
      : `only ${owner.name} imports it`;
  }
  if (isTest(to)) return "programs and scripts do not import tests";
  const target = partOf(to);
  if (target !== part && target.dynamic?.includes(to) && !dynamic && !typeOnly)
    return "it is loaded on demand, by import()";
  if (target === part || part.imports.includes("*") || part.imports.includes(target.name))
    return undefined;
  if (!part.types?.includes(target.name)) return `${part.name} may not import ${target.name}`;
  return typeOnly ? undefined : `${part.name} may import only types from ${target.name}`;
};

/**
 * Returns cycles between folders. Programs, `core.ts` and its siblings, and an `index.ts` that lists its folder count as folders of
 * their own. Types from `core.ts` do not count, because it lists every dependency and everyone narrows it.
 */
const folderCycles = (sources: readonly SourceFile[]): string[] => {
  const graph = new Map<string, Set<string>>();
  for (const { path, imports } of sources) {
    if (isTest(path)) continue;
    const from = folderOf(path);
    for (const { to, kind, typeOnly } of imports) {
      if (kind !== "file" || folderOf(to) === from || (typeOnly && to === "functions/core.ts"))
        continue;
      graph.set(from, (graph.get(from) ?? new Set()).add(folderOf(to)));
    }
  }
  const found = new Map<string, string>();
  const visit = (folder: string, trail: readonly string[]): void => {
    const at = trail.indexOf(folder);
    if (at >= 0) {
      const cycle = trail.slice(at);
      found.set([...cycle].sort().join(" "), [...cycle, folder].join(" → "));
      return;
    }
    if (done.has(folder)) return;
    for (const next of graph.get(folder) ?? []) visit(next, [...trail, folder]);
    done.add(folder);
  };
  const done = new Set<string>();
  for (const folder of graph.keys()) visit(folder, []);
  return [...found.values()].map(
    (cycle) => `${cycle.split(" ")[0]}: folders import each other: ${cycle}`,
  );
};

const folderOf = (path: string): string => {
  const folder = posix.dirname(path);
  const alone =
    ["functions", "collector", "ui/bff"].includes(folder) ||
    folder === "." ||
    path.endsWith("/index.ts");
  return alone ? path : folder;
};
