import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { build, type Metafile, type Plugin } from "esbuild";
import packageJson from "#package.json" with { type: "json" };
import { root } from "../repository-files.ts";
import { buildFolder, replaceFile } from "./build-folder.ts";
import { builtinModules } from "./builtin-modules.ts";
import { readHeadCommit } from "./read-head-commit.ts";

const dist = join(root, "dist");

/** The entry files of the bundled programs. */
export const programEntries = {
  "svc-server": "functions/main.ts",
  "svc-collector": "collector/main.ts",
  "svc-admin": "admin/main.ts",
  "svc-fleet-sim": "scripts/fleet-sim/main.ts",
  "svc-release-manifest": "scripts/release-manifest/main.ts",
  "svc-web": "ui/bff/main.ts",
};

/** The name of a bundled program. */
export type ProgramName = keyof typeof programEntries;

/** The bundled programs, for the project's Node. */
export const programPaths = Object.fromEntries(
  Object.keys(programEntries).map((name) => [name, join(dist, name, "main.mjs")]),
) as Readonly<Record<ProgramName, string>>;

/** SIGUSR1, which some log rotation sends, would open Node's debugger. The launcher ignores it too, wherever a program is started otherwise. */
export const nodeFlags = ["--disable-sigusr1"] as const;

/**
 * Options of Node for the collector, in its executable and its image: a young generation of 1 MB keeps it a fifth smaller
 * under load (docs/decisions/collector-package.md).
 */
export const collectorNodeFlags = [...nodeFlags, "--max-semi-space-size=1"] as const;

/** The names of all programs. */
export const programNames = Object.keys(programEntries) as ProgramName[];

/** Inputs that change a bundle beside the sources that it contains. */
const buildInputs = [
  "bun.lock",
  "package.json",
  "tsconfig.json",
  "scripts/bundle/bundle-programs.ts",
  "scripts/bundle/builtin-modules.ts",
];

/**
 * Bundles the programs into `dist/<program>/main.mjs`, because importing a few hundred files takes Node three times as long as running
 * them. A program whose sources did not change is left alone, so that starts side by side do not disturb each other. A program finds
 * `dist/COMMIT` and `dist/ui` one folder up and `drizzle/migrations` two folders up, as from its source. An abort takes effect between
 * two programs.
 */
export const bundlePrograms = async (
  names: readonly ProgramName[] = programNames,
  signal?: AbortSignal,
): Promise<void> => {
  await mkdir(dist, { recursive: true });
  await replaceFile(join(dist, "COMMIT"), readHeadCommit());
  for (const name of names) {
    signal?.throwIfAborted();
    await buildFolder({
      folder: join(dist, name),
      root,
      entryFiles: ["program.mjs", "main.mjs"],
      // bun.lock names the packages; Node's modules are not files.
      build: async (outDir) => [
        ...Object.keys((await bundleProgram(programEntries[name], outDir)).inputs).filter(
          (path) => !/^(node_modules\/|builtin:)/.test(path),
        ),
        ...buildInputs,
      ],
    });
  }
};

/** Leaves out of a bundle what programs do not use of `package.json`. */
const versionAlone: Plugin = {
  name: "version-alone",
  setup: ({ onLoad }) => {
    const { version } = packageJson;
    onLoad({ filter: /\/package\.json$/ }, ({ path }) =>
      path === join(root, "package.json")
        ? { contents: JSON.stringify({ version }), loader: "json" }
        : undefined,
    );
  },
};

/** Files that a bundled package opens beside its own script: copied beside the bundle. */
const companions: Readonly<Record<string, string>> = {
  "node_modules/libpg-query/wasm/libpg-query.js": "node_modules/libpg-query/wasm/libpg-query.wasm",
};

/**
 * Bundles the program of an entry file into `outdir/program.mjs`, and writes `outdir/main.mjs`, which starts it. Returns what the bundle was
 * made of.
 */
export const bundleProgram = async (entry: string, outdir: string): Promise<Metafile> => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { program: entry },
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node26",
    minifySyntax: true,
    sourcemap: "linked",
    metafile: true,
    logLevel: "error",
    // pg requires its native addon in a try block and works without it.
    external: ["pg-native"],
    plugins: [builtinModules, versionAlone],
    // CommonJS packages require Node's own modules and open files beside their script; an ES module has neither name.
    banner: {
      js: 'const require = globalThis.process.getBuiltinModule("node:module").createRequire(import.meta.url), __dirname = import.meta.dirname, __filename = import.meta.filename;',
    },
  });
  refuseLostNames(metafile);
  for (const [script, file] of Object.entries(companions))
    if (script in metafile.inputs) await copyFile(join(root, file), join(outdir, basename(file)));
  await writeFile(join(outdir, "main.mjs"), launcherOf(entry));
  return metafile;
};

/**
 * Returns the file that starts a bundle, or ends with 78 and the version of Node that it needs. It is a file of its own, in the syntax of Node 12,
 * which Ubuntu 22.04 has: an old Node fails on the bundle before the first statement runs, and systemd would start it again for ever.
 */
const launcherOf = (entry: string): string => {
  const name = programNames.find((each) => programEntries[each] === entry) ?? "this program";
  const needed = Number.parseInt(packageJson.engines.node.slice(2), 10);
  return `#!/usr/bin/env node
if (parseInt(process.versions.node, 10) < ${needed}) {
  console.error("${name} needs Node ${needed} or later: install it in place of " + process.execPath + ", which is " + process.version);
  process.exitCode = 78;
} else {
  process.on("SIGUSR1", function () {});
  import("./program.mjs");
}
`;
};

/**
 * Rejects a dynamic import of a CommonJS package by a source of ours: with `splitting`, esbuild gives such an import a default export alone, so
 * a name that the source takes from it is undefined in the bundle and nowhere else.
 */
const refuseLostNames = ({ inputs }: Metafile): void => {
  for (const [source, { imports }] of Object.entries(inputs))
    for (const { kind, path, original } of imports)
      if (
        kind === "dynamic-import" &&
        !source.startsWith("node_modules/") &&
        inputs[path]?.format === "cjs"
      )
        throw new Error(
          `${source} imports ${original} dynamically, which is CommonJS: import a file of ours that imports it`,
        );
};
