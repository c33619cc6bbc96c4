import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { artifacts } from "../generate/artifacts.ts";
import { generateClient } from "../generate/client.ts";
import { violationsOf } from "./architecture.ts";
import { dependencyFaults } from "./dependencies.ts";
import { readSources } from "./sources.ts";

/** One thing that verify looks at. */
export interface Step {
  name: string;
  /** What to do when it fails. */
  remedy: string;
  /** What is wrong, for a human; undefined when nothing is. */
  check(): Promise<string | undefined>;
}

const execute = promisify(execFile);

/** Runs a tool of node_modules; its output is the fault when it fails. */
const tool = async (name: string, ...args: string[]): Promise<string | undefined> => {
  try {
    await execute(`node_modules/.bin/${name}`, args, { maxBuffer: 64 * 1024 * 1024 });
    return undefined;
  } catch (error) {
    const { stdout = "", stderr = "", message = "" } = error as { stdout?: string; stderr?: string; message?: string };
    return `${stdout}${stderr}` || message;
  }
};

const inTemporaryFolder = async <Result>(task: (folder: string) => Promise<Result>): Promise<Result> => {
  const folder = await mkdtemp(join(tmpdir(), "svc-verify-"));
  try {
    return await task(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

const filesBelow = async (folder: string): Promise<Map<string, string>> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    await Promise.all(files.map(async (file) => [relative(folder, file), await readFile(file, "utf8")] as const)),
  );
};

const differences = (expected: Map<string, string>, committed: Map<string, string>): string[] =>
  [...new Set([...expected.keys(), ...committed.keys()])]
    .filter((path) => expected.get(path) !== committed.get(path))
    .map((path) => `${path} ${committed.has(path) ? (expected.has(path) ? "differs" : "is left over") : "is missing"}`);

const orUndefined = (faults: readonly string[]): string | undefined =>
  faults.length > 0 ? faults.join("\n") : undefined;

const generatedProtocol = () =>
  inTemporaryFolder(async (folder) => {
    const fault = await tool("buf", "generate", "-o", folder);
    if (fault !== undefined) return fault;
    const [expected, committed] = await Promise.all([filesBelow(join(folder, "proto/gen")), filesBelow("proto/gen")]);
    return orUndefined(differences(expected, committed));
  });

const generatedClient = () =>
  inTemporaryFolder(async (folder) => {
    await generateClient(folder);
    const [expected, committed] = await Promise.all([filesBelow(folder), filesBelow("client/gen")]);
    return orUndefined(differences(expected, committed));
  });

const migrations = () =>
  inTemporaryFolder(async (folder) => {
    await cp("drizzle/migrations", folder, { recursive: true });
    const before = await filesBelow(folder);
    // drizzle-kit takes a relative folder only.
    const fault = await tool(
      "drizzle-kit",
      "generate",
      "--dialect=postgresql",
      "--schema=./drizzle/schema/index.ts",
      `--out=${relative(process.cwd(), folder)}`,
    );
    if (fault !== undefined) return fault;
    const after = await filesBelow(folder);
    const added = [...after].filter(([path]) => path.endsWith(".sql") && !before.has(path));
    return orUndefined(added.map(([path, text]) => `the schema is ahead of the migrations by ${path}:\n${text}`));
  });

const generatedDocuments = async () => {
  const faults = await Promise.all(
    artifacts.map(async ({ path, render }) => {
      const committed = await readFile(path, "utf8").catch(() => undefined);
      return committed === render() ? [] : [`${path} ${committed === undefined ? "is missing" : "differs"}`];
    }),
  );
  return orUndefined(faults.flat());
};

/** The longest first, so that the whole takes as long as it must and no longer. */
export const steps: readonly Step[] = [
  {
    name: "generated protocol code",
    remedy: "run `bun run generate`",
    check: generatedProtocol,
  },
  { name: "generated client", remedy: "run `bun run generate`", check: generatedClient },
  { name: "types", remedy: "see below", check: () => tool("tsc", "-p", ".", "--pretty", "false") },
  {
    name: "dead code",
    remedy: "remove what nothing uses; entry points are in knip.jsonc",
    check: () => tool("knip", "--no-progress"),
  },
  {
    name: "format and lint",
    remedy: "run `node_modules/.bin/biome check --write .`",
    check: () => tool("biome", "check", "."),
  },
  {
    name: "migrations",
    remedy: "run `node_modules/.bin/drizzle-kit generate --name <what-changed>`; migrations are never edited",
    check: migrations,
  },
  {
    name: "generated documents",
    remedy: "run `bun run generate`",
    check: generatedDocuments,
  },
  {
    name: "architecture",
    remedy: "docs and rules are in scripts/verify/architecture.ts",
    check: async () => orUndefined(violationsOf(readSources())),
  },
  { name: "protocol style", remedy: "see buf.yaml", check: () => tool("buf", "lint") },
  {
    name: "dependencies",
    remedy: "pin exact versions; see CONTRIBUTING.md",
    check: async () => {
      const manifests = await Promise.all(
        ["package.json", "client/package.json"].map((path) => readFile(path, "utf8")),
      );
      return orUndefined(manifests.flatMap((text) => dependencyFaults(JSON.parse(text))));
    },
  },
];
