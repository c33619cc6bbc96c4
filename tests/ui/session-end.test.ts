import { sql } from "drizzle-orm";
import type { BrowserContext, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { type PersonName, people } from "#scripts/lab/people.ts";
import { expectAccessible } from "#tests/support/ui-states.ts";
import {
  expectCount,
  follow,
  openMenu,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

/** The default of `SESSION_TTL`. */
const sessionMs = 30 * 60_000;
const view = "/fleet?state=stale";

const { web, browser } = await startWebInBrowser();
await web.core.seedFleet(60);

const rowsOf = (page: Page) => page.locator(".row-link");
const signIn = async (context: BrowserContext, person: PersonName) => {
  const { name, value } = await web.sessionOf(person);
  await context.addCookies([{ name, value, url: web.origin }]);
};
/** As when the person comes back to the tab. */
const show = (page: Page) =>
  page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));

/** A browser whose pages' clock the test moves, with a session that has just begun. */
const openContext = async (person: PersonName = "auditor") => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  context.setDefaultTimeout(60_000);
  // The provider has the machine's clock: a token of its hour is expired where earlier tests have moved that of web further.
  web.clock.set(Date.now());
  await context.clock.install();
  await signIn(context, person);
  return context;
};
const openView = async (path = view) => {
  const context = await openContext();
  const page = await context.newPage();
  await page.goto(web.origin + path);
  await rowsOf(page).first().waitFor();
  return { context, page };
};
/** Moves the clocks of web and of the page. */
const pass = async (page: Page, ms: number) => {
  await web.clock.advance(ms);
  await page.context().clock.fastForward(ms);
};
const announced = (page: Page) => page.getByText("Your session ends soon");
const ended = (page: Page) => page.getByText("Your session has ended: this page is old");
/** Signs in anew, as a change that was refused asks for. */
const confirm = async (page: Page) => {
  await see(page, "The sign-in is too long ago for this");
  await follow(page, "Sign in again");
  await press(page, people.admin.email);
};
const queryOf = (page: Page) => page.getByRole("combobox", { name: "Search and filter hosts" });
const question = (page: Page) => page.getByRole("textbox", { name: "Question" });
/** Returns the tab's `sessionStorage` as JSON. */
const typedOf = (page: Page) => page.evaluate(() => JSON.stringify(sessionStorage));

describe("a page near the end of its session", () => {
  it("announces it five minutes before, signs in again in the same tab, and keeps view and typed text", async () => {
    const { page } = await openView(`${view}&chat=new`);
    await question(page).fill("Which hosts expire this weekend?");
    await queryOf(page).fill("state:stale hb>10m");
    await pass(page, sessionMs - 330_000);
    await rowsOf(page).first().waitFor();
    expect(await announced(page).count()).toBe(0);
    await pass(page, 31_000);
    await announced(page).waitFor();
    await expectAccessible(page);
    await follow(page, "Sign in again");
    await press(page, people.auditor.email);
    await rowsOf(page).first().waitFor();
    expect(page.url()).toBe(`${web.origin}${view}&chat=new`);
    expect(await queryOf(page).inputValue()).toBe("state:stale hb>10m");
    expect(await question(page).inputValue()).toBe("Which hosts expire this weekend?");
    expect(await announced(page).count()).toBe(0);
  });

  it("says by web's clock when it ends, on a machine whose own is a day behind", async () => {
    const { context, page } = await openView();
    await context.clock.setSystemTime(Date.now() - 86_400_000);
    await page.reload();
    await rowsOf(page).first().waitFor();
    expect((await announced(page).count()) + (await ended(page).count())).toBe(0);
    await web.clock.advance(sessionMs - 200_000);
    await page.reload();
    await announced(page).waitFor();
    await see(page, /, in 3 min\./);
    await press(page, "Later");
    await expectCount(announced(page), 0);
  });
});

it("leads a change after more than 15 minutes through a new sign-in, back to its form with what was typed", async () => {
  const watch = { name: "stale hosts", filter: "state:stale", receivers: [] };
  await web.core.admin.post("/v1/collector/watches", watch);
  await web.core.db.execute(
    sql`update watch set is_firing = true, firing_since = now(), count = 1`,
  );
  const page = await (await openContext("admin")).newPage();
  await page.goto(web.origin);
  const take = page.getByRole("button", { name: "Take" });
  await take.first().waitFor();
  await pass(page, 901_000);
  await take.first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Note").fill("network team is on it");
  await press(dialog, "Take");
  await confirm(page);
  await press(dialog, "Take");
  await see(page, /^ada@example\.test, \d\d:\d\d: network team is on it$/);
  expect(new URL(page.url()).search).toBe("");
  await pass(page, 901_000);
  await press(page, "Release");
  await see(page, "The sign-in is too long ago for this");
  await page.goto(`${web.origin}/watches/new?state=stale`);
  await page.getByLabel("Name").fill("racks of hall 2");
  await press(page, "Create the watch");
  await confirm(page);
  expect(await page.getByLabel("Name").inputValue()).toBe("racks of hall 2");
  await press(page, "Create the watch");
  await waitForHeading(page, "racks of hall 2");
});

describe("a page whose session has ended", () => {
  it("says so at once, keeps its rows marked as old, and sends no more requests", async () => {
    const { context, page } = await openView();
    const rows = await rowsOf(page).count();
    await pass(page, sessionMs + 1_000);
    await ended(page).waitFor();
    expect(await page.locator('[data-shown="stale"] .row-link').count()).toBeGreaterThanOrEqual(
      rows,
    );
    await expectAccessible(page);
    await page.keyboard.press("r");
    await page
      .locator(".freshness")
      .getByText("Your session has ended. These rows are old.")
      .waitFor();
    const requests: string[] = [];
    page.on("request", (request) => requests.push(request.url()));
    await page.keyboard.press("r");
    await context.clock.runFor(30_000);
    expect(requests.filter((url) => url.includes("/api/core/"))).toEqual([]);
  });

  it("continues once the same person has signed in in another tab", async () => {
    const { context, page } = await openView();
    await pass(page, sessionMs + 1_000);
    await ended(page).waitFor();
    await signIn(context, "auditor");
    await show(page);
    await expectCount(ended(page), 0);
    await page.keyboard.press("r");
    await page.locator('[data-shown="fresh"] .row-link').first().waitFor();
  });

  it("drops everything when another person has signed in in another tab", async () => {
    const { context, page } = await openView();
    await signIn(context, "reader");
    await show(page);
    await waitForHeading(page, "This page needs the scope audit");
    expect(await rowsOf(page).count()).toBe(0);
  });

  it("keeps what was typed for nobody else: neither for the next person in the tab, nor after a sign-out", async () => {
    const { context, page } = await openView(`${view}&chat=new`);
    const type = async () => {
      await question(page).fill("Which hosts of the merger are down?");
      await queryOf(page).fill("state:stale merger");
      expect(await typedOf(page)).toContain("merger");
    };
    await type();
    await signIn(context, "admin");
    await page.reload();
    await rowsOf(page).first().waitFor();
    expect([await question(page).inputValue(), await queryOf(page).inputValue()]).toEqual([
      "",
      "state:stale",
    ]);
    await type();
    await openMenu(page);
    await page.getByRole("button", { name: "Sign out", exact: true }).click();
    await waitForHeading(page, "You are signed out");
    // The page may still be on its way to the one that stays.
    await expect.poll(() => typedOf(page)).not.toContain("merger");
  });
});
