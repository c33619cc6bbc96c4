import { readFile } from "node:fs/promises";
import type { WebUi } from "#ui/bff/web.ts";
import { bundleUi, uiPath } from "../bundle/bundle-ui.ts";

/** Builds the operator UI if its sources changed, and returns it as web serves it. */
export const buildUi = async (): Promise<WebUi> => {
  await bundleUi();
  return {
    folder: uiPath,
    manifest: JSON.parse(await readFile(`${uiPath}/manifest.json`, "utf8")),
  };
};
