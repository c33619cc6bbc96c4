import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { readHeadCommit } from "./read-head-commit.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const dist = join(root, "dist");

const entries = {
  "svc-server": "functions/main.ts",
  "svc-collector": "collector/main.ts",
  "svc-fleet-sim": "scripts/fleet-sim/main.ts",
  "svc-web": "ui/bff/main.ts",
};

/** The bundled programs, for the project's Node. */
export const programPaths = {
  "svc-server": join(dist, "svc-server", "main.mjs"),
  "svc-collector": join(dist, "svc-collector", "main.mjs"),
  "svc-fleet-sim": join(dist, "svc-fleet-sim", "main.mjs"),
  "svc-web": join(dist, "svc-web", "main.mjs"),
} as const;

/**
 * Bundles the programs into `dist/<program>/main.mjs`, because importing a few hundred files takes Node three times as long as running
 * them. A program finds `dist/COMMIT` and `dist/ui` one folder up and `drizzle/migrations` two folders up, as from its source. An
 * abort takes effect between two programs.
 */
export const bundlePrograms = async (signal?: AbortSignal): Promise<void> => {
  await mkdir(dist, { recursive: true });
  await writeFile(join(dist, "COMMIT"), readHeadCommit());
  for (const [name, entry] of Object.entries(entries)) {
    signal?.throwIfAborted();
    const outdir = join(dist, name);
    await rm(outdir, { recursive: true, force: true });
    await build({
      absWorkingDir: root,
      entryPoints: { main: entry },
      outdir,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      splitting: true,
      platform: "node",
      format: "esm",
      target: "node26",
      minifySyntax: true,
      sourcemap: "linked",
      logLevel: "error",
      // pg requires its native addon in a try block and works without it.
      external: ["pg-native"],
      // CommonJS packages require Node's own modules, and an ES module has no `require`.
      banner: {
        js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
      },
    });
  }
};
