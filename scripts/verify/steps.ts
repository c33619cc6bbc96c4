import { cp, readdir, readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { checkDocuments } from "../docs-check/check-documents.ts";
import { execute } from "../execute.ts";
import { renderArtifacts } from "../generate/artifacts.ts";
import { generateClient } from "../generate/client.ts";
import { readReliability } from "../reliability/cases.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";
import { additionFaults } from "./additive-migrations.ts";
import { violationsOf } from "./architecture.ts";
import budgets from "./budgets.json" with { type: "json" };
import { routeFaults } from "./budgets.ts";
import { dependencyFaults, lockFaults } from "./dependencies.ts";
import { readSources } from "./imports.ts";
import { changedMigrations, historyFaults, landedRevisions } from "./landed-migrations.ts";
import { ownerFaults } from "./owners.ts";
import { parsingFiles, platformFaults } from "./platform-uses.ts";

/** The result of a step. */
export interface VerifyResult {
  /** The fault, described for a person. */
  fault?: string;
  /** A remark about a step that passed. */
  note?: string;
}

/** One check of the repository. */
export interface VerifyStep {
  name: string;
  /** The action to take when it fails. */
  remedy: string;
  check(): Promise<VerifyResult>;
}

/** Runs a program; its output is the fault when it fails. */
const program = async (path: string, ...args: string[]): Promise<VerifyResult> => {
  try {
    await execute(path, args, { maxBuffer: 64 * 1024 * 1024 });
    return {};
  } catch (error) {
    const {
      stdout = "",
      stderr = "",
      message = "",
    } = error as { stdout?: string; stderr?: string; message?: string };
    return { fault: `${stdout}${stderr}` || message };
  }
};

/** Runs a tool of node_modules. */
const tool = (name: string, ...args: string[]) => program(`node_modules/.bin/${name}`, ...args);

const once = <Value>(read: () => Value): (() => Value) => {
  let value: Value | undefined;
  return () => {
    value ??= read();
    return value;
  };
};

/** Read and rendered once for all steps that ask for them. */
const sources = once(readSources);
const artifacts = once(renderArtifacts);

const resultOf = (faults: readonly string[]): VerifyResult =>
  faults.length > 0 ? { fault: faults.join("\n") } : {};

const compareFolders = (expected: string, committed: string): Promise<VerifyResult> =>
  program("diff", "--recursive", "--brief", expected, committed);

const generatedProtocol = async () => {
  await using folder = await openTemporaryFolder("verify");
  const generated = await tool("buf", "generate", "-o", folder.path);
  if (generated.fault !== undefined) return generated;
  for (const { path, text } of await artifacts())
    if (path.startsWith("proto/gen/")) await writeFile(join(folder.path, path), text);
  return await compareFolders(join(folder.path, "proto/gen"), "proto/gen");
};

const generatedClient = async () => {
  await using folder = await openTemporaryFolder("verify");
  await generateClient(folder.path);
  return await compareFolders(folder.path, "client/gen");
};

const generatedDocuments = async () => {
  const faults = (await artifacts()).map(async ({ path, text }) => {
    const committed = await readFile(path, "utf8").catch(() => undefined);
    return committed === text
      ? []
      : [`${path} ${committed === undefined ? "is missing" : "differs"}`];
  });
  return resultOf((await Promise.all(faults)).flat());
};

const migrations = async () => {
  await using temporary = await openTemporaryFolder("verify");
  const folder = temporary.path;
  await cp("drizzle/migrations", folder, { recursive: true });
  const before = await readdir(folder);
  // drizzle-kit accepts a relative folder only.
  const out = relative(process.cwd(), folder);
  const generate = [
    "generate",
    "--dialect=postgresql",
    "--schema=./drizzle/schema/index.ts",
    `--out=${out}`,
  ];
  const generated = await tool("drizzle-kit", ...generate);
  if (generated.fault !== undefined) return generated;
  const added = (await readdir(folder)).filter(
    (name) => name.endsWith(".sql") && !before.includes(name),
  );
  const faults = added.map(
    async (name) =>
      `the schema is ahead of the migrations by ${name}:\n${await readFile(join(folder, name), "utf8")}`,
  );
  return resultOf(await Promise.all(faults));
};

const landedMigrations = async (): Promise<VerifyResult> => {
  const revisions = await landedRevisions();
  const changed = await Promise.all(
    revisions.map(async ({ name, commit }) =>
      (await changedMigrations(commit)).map(
        (path) => `${path} is not as in ${name} (${commit.slice(0, 7)})`,
      ),
    ),
  );
  const compared = ["history.json", ...revisions.map(({ name }) => name)].join(", ");
  const missing = revisions.length > 0 ? "" : "; git has no revision to compare with";
  return {
    note: `compared with ${compared}${missing}`,
    ...resultOf([...(await historyFaults()), ...changed.flat()]),
  };
};

const protocolCompatibility = async (): Promise<VerifyResult> => {
  const revisions = (await landedRevisions()).filter(({ name }) => name !== "HEAD");
  if (revisions.length === 0) return { note: "git has no revision to compare with" };
  const { stdout } = await execute("git", [
    "rev-parse",
    "--path-format=absolute",
    "--git-common-dir",
  ]);
  const faults: string[] = [];
  for (const { commit } of revisions) {
    const { fault } = await tool("buf", "breaking", "--against", `${stdout.trim()}#ref=${commit}`);
    if (fault !== undefined) faults.push(fault);
  }
  return {
    note: `compared with ${revisions.map(({ name }) => name).join(", ")}`,
    ...resultOf(faults),
  };
};

const dependencies = async () => {
  const manifests = await Promise.all(
    ["package.json", "client/package.json"].map((path) => readFile(path, "utf8")),
  );
  const locks = await Promise.all(
    ["bun.lock", "client/bun.lock"].map((path) => readFile(path, "utf8")),
  );
  return resultOf([
    ...manifests.flatMap((text) => dependencyFaults(JSON.parse(text))),
    ...locks.flatMap(lockFaults),
  ]);
};

const regenerate = "run `bun run generate`";

/** One checker, since each of several checks again the types that files share. Keeps what it found, so that a second run is short. */
const typesArguments = [
  "--project",
  ".",
  "--pretty",
  "false",
  "--checkers",
  "1",
  "--incremental",
  "--tsBuildInfoFile",
  "node_modules/.cache/verify-types.json",
];

/** The longest first, which makes the whole short. */
export const steps: readonly VerifyStep[] = [
  { name: "generated protocol code", remedy: regenerate, check: generatedProtocol },
  { name: "generated client", remedy: regenerate, check: generatedClient },
  {
    name: "types",
    remedy: "see below",
    check: () => tool("tsc", ...typesArguments),
  },
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
    remedy:
      "run `node_modules/.bin/drizzle-kit generate --name <what-changed>`; migrations are never edited",
    check: migrations,
  },
  {
    name: "landed migrations",
    remedy: "restore them, and add a migration instead (CONTRIBUTING.md)",
    check: landedMigrations,
  },
  {
    name: "additive migrations",
    remedy: "only add, so that the previous core runs on the new schema (CONTRIBUTING.md)",
    check: async () => resultOf(await additionFaults()),
  },
  { name: "generated documents", remedy: regenerate, check: generatedDocuments },
  {
    name: "architecture",
    remedy: "the rules are in scripts/verify/architecture.ts",
    check: async () => resultOf(violationsOf(sources())),
  },
  {
    name: "time, randomness, parsers",
    remedy: "the exceptions and their reasons are in scripts/verify/platform-uses.ts",
    check: async () => {
      const { files, faults } = parsingFiles(sources());
      return {
        note: `${files.length} parsers`,
        ...resultOf([...platformFaults(sources()), ...faults]),
      };
    },
  },
  {
    name: "exported names",
    remedy: "rename one, or let one file have it; one word means one thing",
    check: async () => resultOf(ownerFaults(sources())),
  },
  {
    name: "budgets",
    remedy:
      "import less: the files that a route reaches (scripts/verify/budgets.json) only become fewer",
    check: async () => resultOf(routeFaults(sources(), budgets)),
  },
  { name: "protocol style", remedy: "see buf.yaml", check: () => tool("buf", "lint") },
  {
    name: "protocol compatibility",
    remedy: "keep the protocol compatible with main and the last release",
    check: protocolCompatibility,
  },
  {
    name: "documents",
    remedy: "mend links, lengths and commands; see CONTRIBUTING.md",
    check: async () => resultOf(checkDocuments().faults),
  },
  {
    name: "reliability cases",
    remedy:
      "name the case in a test, or say as its gap what no test runs (scripts/reliability/cases.yaml)",
    check: async () => resultOf(readReliability().faults),
  },
  { name: "dependencies", remedy: "pin exact versions; see CONTRIBUTING.md", check: dependencies },
];
