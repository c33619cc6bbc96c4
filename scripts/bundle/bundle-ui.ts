import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { execute } from "../execute.ts";
import { root } from "../repository-files.ts";
import { buildFolder, filesBelow } from "./build-folder.ts";

const dist = join(root, "dist");

/** The built operator UI: `index.html`, `manifest.json`, hashed files in `assets/`, each with `.br` and `.gz`. */
export const uiPath = join(dist, "ui");

const sources = ["ui/app", "proto", "vite.config.ts", "bun.lock", "scripts/bundle/bundle-ui.ts"];
const compressible = /\.(js|css|html|svg)$/;

/** Builds the operator UI into `dist/ui`, unless it was built from the same sources. Of several processes that call it at once, one builds. */
export const bundleUi = (): Promise<void> =>
  buildFolder({
    folder: uiPath,
    root,
    listInputs,
    entryFiles: ["manifest.json", "index.html", "index.html.br", "index.html.gz"],
    build: async (outDir) => {
      await build(outDir);
      await compressFiles(outDir);
      return listInputs();
    },
  });

/** Builds in a process of its own, because a test runner's environment would change the result. */
const build = async (outDir: string): Promise<void> => {
  const vite = join(root, "node_modules/vite/bin/vite.js");
  const env = { ...process.env, NODE_ENV: "production" };
  await execute(process.execPath, [vite, "build", "--outDir", outDir], {
    cwd: root,
    env,
    timeout: 300_000,
  });
};

/** Returns the sources, except tests. */
const listInputs = async (): Promise<string[]> => {
  const inputs = sources.map(async (source) => {
    const isFolder = (await stat(join(root, source))).isDirectory();
    return isFolder
      ? (await filesBelow(join(root, source))).map((file) => join(source, file))
      : [source];
  });
  return (await Promise.all(inputs)).flat().filter((path) => !path.includes(".test."));
};

const compressFiles = async (folder: string): Promise<void> => {
  const files = (await filesBelow(folder)).filter((file) => compressible.test(file));
  await Promise.all(
    files.map(async (file) => {
      const path = join(folder, file);
      const content = await readFile(path);
      const params = {
        [constants.BROTLI_PARAM_QUALITY]: 11,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      };
      await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params }));
      await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
    }),
  );
};
