import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { type Assets, createAssets } from "../../ui/bff/assets.ts";
import { bundleUi, uiPath } from "../bundle/bundle-ui.ts";

/** The user interface as it is shipped, for `startTestWeb`; built first when its sources have changed. */
export const readBuiltUi = async (): Promise<Assets> => {
  await bundleUi();
  const entries = await readdir(uiPath, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return createAssets(
    await Promise.all(
      files.map(async (file) => ({ path: relative(uiPath, file), bytes: new Uint8Array(await readFile(file)) })),
    ),
  );
};
