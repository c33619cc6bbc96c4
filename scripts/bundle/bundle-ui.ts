import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { oneAtATime } from "../one-at-a-time.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const dist = join(root, "dist");

/** The built operator UI: `index.html`, `manifest.json`, hashed files in `assets/`, each with `.br` and `.gz`. */
export const uiPath = join(dist, "ui");

const sources = ["ui/app", "proto", "vite.config.ts", "bun.lock", "scripts/bundle/bundle-ui.ts"];
const compressible = /\.(js|css|html|svg)$/;

/**
 * Builds the operator UI into `dist/ui`, unless it was built from the same sources. Replaces the folder as a whole. Of several processes
 * that call it at once, one builds.
 */
export const bundleUi = async (): Promise<void> => {
  const digest = await digestSources();
  const isBuilt = async () => (await readFile(join(uiPath, "SOURCES"), "utf8").catch(() => "")) === digest;
  if (await isBuilt()) return;
  await mkdir(dist, { recursive: true });
  await oneAtATime(join(dist, ".ui-lock"), async () => {
    // Another process may have built it meanwhile.
    if (!(await isBuilt())) await replaceUi(digest);
  });
};

const replaceUi = async (digest: string): Promise<void> => {
  const outDir = await mkdtemp(join(dist, ".ui-"));
  try {
    await build(outDir);
    await compressFiles(outDir);
    await writeFile(join(outDir, "SOURCES"), digest);
    await rename(uiPath, `${outDir}-old`).catch(() => undefined);
    await rename(outDir, uiPath);
  } finally {
    await Promise.all([outDir, `${outDir}-old`].map((folder) => rm(folder, { recursive: true, force: true })));
  }
};

/** Builds in a process of its own, because a test runner's environment would change the result. */
const build = async (outDir: string): Promise<void> => {
  const vite = join(root, "node_modules/vite/bin/vite.js");
  const env = { ...process.env, NODE_ENV: "production" };
  await promisify(execFile)(process.execPath, [vite, "build", "--outDir", outDir], {
    cwd: root,
    env,
    timeout: 300_000,
  });
};

const digestSources = async (): Promise<string> => {
  const hash = createHash("sha256");
  for (const path of (await Promise.all(sources.map(filesBelow))).flat())
    hash
      .update(`${path}\0`)
      .update(await readFile(join(root, path)))
      .update("\0");
  return hash.digest("hex");
};

/** Returns a file, or the files below a folder except tests, in order. */
const filesBelow = async (path: string): Promise<string[]> => {
  const entries = await readdir(join(root, path), { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return [path];
  return entries
    .filter((entry) => entry.isFile() && !entry.name.includes(".test."))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
    .sort();
};

const compressFiles = async (folder: string): Promise<void> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && compressible.test(entry.name));
  await Promise.all(
    files.map(async (entry) => {
      const path = join(entry.parentPath, entry.name);
      const content = await readFile(path);
      const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
      await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params }));
      await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
    }),
  );
};
