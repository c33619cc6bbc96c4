import { readFile } from "node:fs/promises";
import { eq } from "drizzle-orm";
import type { BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { type PersonName, people } from "#scripts/lab/people.ts";
import { readCsv } from "../support/csv.ts";
import {
  expectAddress,
  follow,
  openMenu,
  press,
  see,
  startWebInBrowser,
} from "../support/web-in-browser.ts";

const { web, browser, visit } = await startWebInBrowser({
  core: { env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } },
});
let now: Date;
beforeAll(async () => {
  now = new Date(web.clock.now());
  await web.core.seedFleet(320);
});

/** Opens a page without a session. */
const openPage = async (options: BrowserContextOptions = {}) => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(60_000);
  return context.newPage();
};
const heading = (page: Page, name: string | RegExp) =>
  page.getByRole("heading", { name }).waitFor();
const setStatus = (name: PersonName, status: typeof person.$inferInsert.status) =>
  web.core.db.update(person).set({ status }).where(eq(person.userId, people[name].userId));
/** Signs in through the pages of web and of the provider. */
const signIn = async (page: Page, name: PersonName) => {
  await follow(page, "Sign in with Example ID");
  await page.getByRole("button", { name: people[name].email }).click();
};
describe("signing in, in a browser", () => {
  it.each(["auditor", "reader"] as const)(
    "returns %s to the page, and shows what the scopes allow",
    async (name) => {
      const page = await openPage();
      await page.goto(`${web.origin}/fleet?state=stale`);
      await expectAddress(page, "/login?return_to=%2Ffleet%3Fstate%3Dstale");
      await signIn(page, name);
      const { scopes, email } = people[name];
      await heading(page, scopes.includes("audit") ? "Fleet" : "This page needs the scope audit");
      await expectAddress(page, "/fleet?state=stale");
      await page.getByRole("link", { name: "Now", exact: true }).click();
      await see(page, `${scopes.join(", ")} for ${email}`);
      const held = page.locator(".scope-rows [data-held] code");
      await expect.poll(() => held.allTextContents()).toEqual(scopes);
      const strip = page.getByRole("list", { name: "The last 24 hours" });
      if (scopes.includes("audit")) await strip.waitFor();
      else expect(await strip.count()).toBe(0);
      await openMenu(page);
      await press(page, "Sign out");
      await press(page, "Sign out of this provider too");
      await heading(page, "You are signed out");
      await see(page, "was asked to sign you out there too");
      await page.goto(`${web.origin}/fleet`);
      await heading(page, "Collector fleet");
    },
  );

  it("rejects who is suspended in plain words, without JavaScript too, and who cancels", async () => {
    const page = await openPage({ javaScriptEnabled: false });
    const attempt = async (title: string) => {
      // The provider remembers a chosen account.
      await page.context().clearCookies();
      await page.goto(`${web.origin}/fleet`);
      await signIn(page, "reader");
      await heading(page, title);
      expect(await page.getByRole("alert").textContent()).toMatch(/Reference [0-9a-f-]{36}/);
      expect(new URL(page.url()).searchParams.get("return_to")).toBe("/fleet");
    };
    await setStatus("reader", "suspended");
    await attempt("Your account is suspended");
    await setStatus("reader", "active");
    await follow(page, "Sign in with Example ID");
    await press(page, "Cancel");
    await heading(page, "You did not sign in");
  });
});

it("downloads each CSV under its filter, of as many rows as their links say", async () => {
  const { page } = await visit("/fleet?platform=linux/amd64");
  await page.locator(".row-link").first().waitFor();
  const names = {
    stale: "Stale hosts",
    queue_risk: "Queue risk",
    unhealthy_components: "Unhealthy components",
    renewal_failures: "Renewal failures",
    config_drift: "Config drift",
  };
  for (const [kind, name] of Object.entries(names)) {
    await page.keyboard.press("e");
    const link = page.locator("#export-menu .exports-link", { hasText: name });
    await link.getByText(/\d+ rows?/).waitFor();
    const count = Number(/(\d+) rows?/.exec((await link.textContent()) ?? "")?.[1]);
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
    expect(download.suggestedFilename()).toBe(
      `fleet-${kind.replace("_", "-")}_platform-linux-amd64_${time}.csv`,
    );
    const rows = readCsv(await readFile(await download.path(), "utf8"));
    expect(count).toBeGreaterThan(0);
    expect(rows.map(({ platform }) => platform)).toEqual(Array(count).fill("linux/amd64"));
  }
});

it("A3: a page reports a suspension, keeps rows and address, and explains a rejected sign-in", async () => {
  const address = "/fleet?state=stale&q=dc-3";
  const { page } = await visit(address);
  await page.locator(".row-link").first().waitFor();
  await setStatus("auditor", "suspended");
  await page.keyboard.press("r");
  await see(page, "Your session has ended: this page is old");
  await page.locator('[data-shown="stale"] .row-link').first().waitFor();
  await expectAddress(page, address);
  await follow(page, "Sign in again");
  await press(page, people.auditor.email);
  await heading(page, "Your account is suspended");
  await setStatus("auditor", "active");
  await signIn(page, "auditor");
  await page.locator(".row-link").first().waitFor();
  await expectAddress(page, address);
});
