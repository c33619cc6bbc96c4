import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launchBrowser } from "../scripts/lab/browser.ts";
import { buildUi } from "../scripts/lab/built-ui.ts";
import { violationsOf } from "../scripts/lab/ui-states.ts";
import { visitPage } from "../scripts/lab/visit-page.ts";
import { startWebDeployment, type WebDeployment } from "./web-deployment.ts";

/** Three refresh intervals: later than this, no page shows old rows as new. */
const oldAfterSeconds = 30;

let deployment: WebDeployment;
let browser: Browser;
beforeAll(async () => {
  // Web finds the build in its usual folder.
  await buildUi();
  [deployment, browser] = await Promise.all([startWebDeployment({ hosts: 500 }), launchBrowser()]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await deployment?.close();
});

const visitFleet = async (): Promise<Page> => {
  const { page } = await visitPage({ browser, web: deployment }, "auditor", "/fleet");
  await isFresh(page);
  return page;
};
const isFresh = async (page: Page): Promise<void> => {
  await page.locator('[data-shown="fresh"] .row-link').first().waitFor();
};
const banner = (page: Page, words: RegExp) => page.locator(".freshness[data-stale]").getByText(words);
describe("the fleet page, with real processes", () => {
  it("marks its rows as old within three refresh intervals of web's suspension, although nobody touches it", {
    timeout: 120_000,
  }, async () => {
    const page = await visitFleet();
    deployment.suspend("web", true);
    const startedAt = performance.now();
    try {
      await banner(page, /^The web server did not answer within 8 s\. These rows are old\./).waitFor();
      expect((performance.now() - startedAt) / 1000).toBeLessThan(oldAfterSeconds);
    } finally {
      deployment.suspend("web", false);
    }
    await isFresh(page);
    await page.context().close();
  });

  it.each<[string, (isDown: boolean) => void, RegExp]>([
    ["web is suspended", (is) => deployment.suspend("web", is), /^The web server did not answer within 8 s\./],
    ["core is suspended", (is) => deployment.suspend("core", is), /^Core did not answer within 5 s\./],
    [
      "PostgreSQL is suspended",
      (is) => deployment.suspend("postgres", is),
      /^The database (did not answer within 4 s|cannot be reached)\./,
    ],
    [
      "the network before web swallows every byte",
      (is) => deployment.front.swallow(is),
      /^The web server did not answer within 8 s\./,
    ],
    [
      "the network before core swallows every byte",
      (is) => deployment.middle.swallow(is),
      /^Core did not answer within 5 s\./,
    ],
  ])(
    "names the part and keeps its rows, marked as old, when %s",
    { timeout: 120_000 },
    async (_name, setDown, words) => {
      const page = await visitFleet();
      const rows = await page.locator(".row-link").count();
      setDown(true);
      // Sooner than the interval.
      await page.keyboard.press("r");
      try {
        await banner(page, words).waitFor();
        await banner(page, /These rows are old/).waitFor();
        expect(await page.locator('[data-shown="stale"] .row-link').count()).toBeGreaterThanOrEqual(rows);
        expect(await violationsOf(page)).toEqual([]);
      } finally {
        setDown(false);
      }
      await page.keyboard.press("r");
      await isFresh(page);
      await page.context().close();
    },
  );
});
