import { execFileSync } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build, type Metafile } from "esbuild";
import { collectorNodeFlags } from "../bundle/bundle-programs.ts";
import { root } from "../repository-files.ts";
import { copyStripped } from "../strip-elf.ts";

/**
 * Builds the collector and `node`, without its symbols, as one file at `<dir>/svc-collector`; returns its path and what its script was
 * made of. `node` may be that of another platform, of the same version. The executable reads no options for Node from the environment. The same
 * sources give the same bytes, whatever `dir` and the platform of the build are.
 */
export const buildExecutable = async (
  dir: string,
  commit: string,
  node = process.execPath,
): Promise<{ executable: string; metafile: Metafile }> => {
  await mkdir(dir, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["collector/executable.ts"],
    outfile: join(dir, "svc-collector.cjs"),
    metafile: true,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node26",
    minifySyntax: true,
    logLevel: "error",
    // version.ts alone uses import.meta, and not in the executable: it reads the commit from the assets.
    logOverride: { "empty-import-meta": "silent" },
  });
  await writeFile(join(dir, "COMMIT"), commit);
  copyStripped(node, join(dir, "node"));
  await writeFile(
    join(dir, "sea.json"),
    JSON.stringify({
      // Relative, because the executable contains the name.
      main: "svc-collector.cjs",
      executable: "node",
      output: "svc-collector",
      disableExperimentalSEAWarning: true,
      // A code cache differs in each build, and is for one platform; a start without it takes 30 ms more.
      useCodeCache: false,
      execArgv: collectorNodeFlags,
      execArgvExtension: "none",
      assets: { COMMIT: "COMMIT" },
    }),
  );
  execFileSync(process.execPath, ["--build-sea", "sea.json"], {
    cwd: dir,
    stdio: ["ignore", "ignore", "inherit"],
  });
  await rm(join(dir, "node"));
  return { executable: join(dir, "svc-collector"), metafile };
};
