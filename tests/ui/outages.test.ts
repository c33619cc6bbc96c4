import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, it } from "vitest";
import { visitPage } from "#scripts/lab/visit-page.ts";
import { expectAccessible } from "#tests/support/ui-states.ts";
import { readCsv } from "../support/csv.ts";
import { startWebDeployment } from "../support/web-deployment.ts";
import { follow, openTestBrowser, press, see } from "../support/web-in-browser.ts";

/** So many that an export of them does not fit into the buffers of a connection. */
const hosts = 5_000;
/** Three refresh intervals: later than this, no page shows old rows as new. */
const oldAfterSeconds = 30;

// Web finds the build in its usual folder.
const { browser } = await openTestBrowser();
const deployment = await startWebDeployment({ hosts });
afterAll(() => deployment.close());

const visitFleet = async () => {
  const { page } = await visitPage({ browser, web: deployment }, "auditor", "/fleet");
  await isFresh(page);
  return page;
};
/** Opens a page whose clock runs as the test says, or as any other until then. */
const visitWithClock = async () => {
  const context = await browser.newContext();
  await context.clock.install();
  const { name, value } = await deployment.sessionOf("auditor");
  await context.addCookies([{ name, value, url: deployment.origin }]);
  const page = await context.newPage();
  await page.goto(`${deployment.origin}/fleet`);
  await isFresh(page);
  return page;
};
const isFresh = async (page: Page) => {
  await page.locator('[data-shown="fresh"] .row-link').first().waitFor();
};
const banner = (page: Page, words: RegExp) =>
  page.locator(".freshness[data-stale]").getByText(words);
const exportStale = async (page: Page) => {
  await page.keyboard.press("e");
  await page
    .locator("#export-menu")
    .getByRole("link", { name: /^Config drift/ })
    .click();
};

describe("the fleet page, with real processes", () => {
  it("marks its rows as old within three refresh intervals of web's suspension, although nobody touches it", {
    timeout: 120_000,
  }, async () => {
    const page = await visitWithClock();
    deployment.suspend("web", true);
    try {
      await page.clock.runFor(oldAfterSeconds * 1000);
      await banner(
        page,
        /^The web server did not answer within 8 s\. These rows are old\./,
      ).waitFor({
        timeout: 5_000,
      });
      await page.clock.resume();
      // Once for all outages: their pages differ in words alone.
      await expectAccessible(page);
    } finally {
      deployment.suspend("web", false);
    }
    await isFresh(page);
  });

  it.each<[string, (isDown: boolean) => void, RegExp]>([
    [
      "core is suspended",
      (is) => deployment.suspend("core", is),
      /^Core did not answer within 5 s\./,
    ],
    [
      "PostgreSQL is suspended",
      (is) => deployment.suspend("postgres", is),
      /^The database (did not answer within 4 s|cannot be reached)\./,
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
        expect(await page.locator('[data-shown="stale"] .row-link').count()).toBeGreaterThanOrEqual(
          rows,
        );
      } finally {
        setDown(false);
      }
      await page.keyboard.press("r");
      await isFresh(page);
    },
  );

  it("blanks figures and pager after a changed filter until their rows arrive, or says why they do not", {
    timeout: 120_000,
  }, async () => {
    const page = await visitFleet();
    const states = page.getByRole("region", { name: "States" });
    const pager = page.getByRole("navigation", { name: "Pages of the table" }).first();
    deployment.middle.swallow(true);
    try {
      await follow(states, /^Revoked/);
      await page.locator('[data-shown="changing"] .fleet-table[aria-busy="true"]').waitFor();
      expect(new Set(await states.locator("b").allTextContents())).toEqual(new Set(["…"]));
      expect((await pager.textContent())?.trim()).toBe("");
      await expectAccessible(page);
      await page.getByRole("alert").getByText("Core did not answer within 5 s.").waitFor();
      expect(await page.locator(".row-link").count()).toBe(0);
    } finally {
      deployment.middle.swallow(false);
    }
    // Sooner than the interval.
    await page.keyboard.press("r");
    await see(page, /^1 to \d+ of \d+ /);
  });

  it("marks rows as old at once after the machine slept, before any request has failed", async () => {
    const page = await visitWithClock();
    const context = page.context();
    const home = await context.newPage();
    await home.goto(deployment.origin);
    await see(home, "Last checked");
    deployment.front.swallow(true);
    try {
      await context.clock.fastForward("01:00:00");
      await banner(page, /^No answer yet\. These rows are old\./).waitFor({ timeout: 5_000 });
      await see(page, "Updated 1 h ago");
      // The frame marks the pages that show no age of their own.
      await home.getByText("No answer yet. This page shows old data.").waitFor({ timeout: 5_000 });
      await home.locator('[data-shown="stale"] .now-strip').waitFor();
    } finally {
      deployment.front.swallow(false);
    }
  });
});

describe("an export, with real processes", () => {
  it("is saved once it is whole", async () => {
    const page = await visitFleet();
    const [download] = await Promise.all([page.waitForEvent("download"), exportStale(page)]);
    const rows = readCsv(await readFile(await download.path(), "utf8"));
    expect(rows.length).toBeGreaterThan(1_000);
    await page.getByRole("status").getByText(`Exported ${download.suggestedFilename()}`).waitFor();
  });

  it("reports a transfer that is cut in the middle, saves nothing, and succeeds again", async () => {
    const page = await visitFleet();
    let downloads = 0;
    page.on("download", () => {
      downloads += 1;
    });
    let bytesOfExport = 0;
    deployment.front.rewrite((bytes) => {
      if (bytesOfExport > 0 || bytes.includes("text/csv")) bytesOfExport += bytes.length;
      // It is compressed.
      if (bytesOfExport > 10_000) deployment.front.reset();
      return bytes;
    });
    await exportStale(page);
    const report = page.getByRole("alert").filter({ hasText: "The export of Config drift failed" });
    await report.getByText("The transfer was cut off. Nothing was saved.").waitFor();
    expect(downloads).toBe(0);
    await expectAccessible(page);
    deployment.front.rewrite(null);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      press(report, "Try again"),
    ]);
    expect(readCsv(await readFile(await download.path(), "utf8")).length).toBeGreaterThan(1_000);
  });

  it("reports within seconds that the database does not answer", async () => {
    const page = await visitFleet();
    deployment.suspend("postgres", true);
    try {
      await exportStale(page);
      await page
        .getByRole("alert")
        .getByText(
          /^The export of Config drift failed: The database (did not answer within 4 s|cannot be reached)\./,
        )
        .waitFor({ timeout: 15_000 });
    } finally {
      deployment.suspend("postgres", false);
    }
  });
});
