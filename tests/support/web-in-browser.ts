import type { Browser } from "playwright-core";
import { afterAll } from "vitest";
import { launchBrowser } from "../../scripts/lab/browser.ts";
import { buildUi } from "../../scripts/lab/built-ui.ts";
import { startTestWeb, type TestWeb, type TestWebOptions } from "./web.ts";

/** Starts web with the UI as it is built, and a browser; both end with the test file. */
export const startWebInBrowser = async (
  options: TestWebOptions = {},
): Promise<{ web: TestWeb; browser: Browser }> => {
  const [ui, browser] = await Promise.all([buildUi(), launchBrowser()]);
  const web = await startTestWeb({ ui, ...options });
  afterAll(async () => {
    await browser.close();
    await web.close();
  });
  return { web, browser };
};
