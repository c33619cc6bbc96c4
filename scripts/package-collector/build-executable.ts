import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../../", import.meta.url));

/**
 * Builds the collector and Node as one file at `<dir>/svc-collector`; returns its path. It reads no options for Node from the
 * environment.
 */
export const buildExecutable = async (dir: string, commit: string): Promise<string> => {
  await mkdir(dir, { recursive: true });
  const [bundle, executable, config] = [
    join(dir, "svc-collector.cjs"),
    join(dir, "svc-collector"),
    join(dir, "sea.json"),
  ];
  await build({
    absWorkingDir: root,
    entryPoints: ["collector/executable.ts"],
    outfile: bundle,
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
  await writeFile(
    config,
    JSON.stringify({
      main: bundle,
      output: executable,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      execArgvExtension: "none",
      assets: { COMMIT: join(dir, "COMMIT") },
    }),
  );
  execFileSync(process.execPath, ["--build-sea", config], { stdio: ["ignore", "ignore", "inherit"] });
  return executable;
};
