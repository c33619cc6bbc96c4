import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { terms } from "#proto/fleet-health/query-language/terms.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { expectAccessible } from "#tests/support/ui-states.ts";
import { questions } from "#ui/app/fleet/query-language/suggest.ts";
import { expectCount, follow, see, startWebInBrowser } from "../support/web-in-browser.ts";

const { web, visit } = await startWebInBrowser({ clock: systemClock });
await seedFleet(web.core.db, { count: 150, now: new Date() });

const addressOf = (page: Page) => decodeURIComponent(new URL(page.url()).search);
const minuteAgo = (page: Page) =>
  page.evaluate(() => {
    const at = new Date(Date.now() - 60_000);
    return [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
      .map((part) => String(part).padStart(2, "0"))
      .join(":");
  });

it("finds hosts by terms, and by a time of day that becomes a date", async () => {
  const { page, messages } = await visit("/fleet");
  const bar = page.getByRole("combobox", { name: "Search and filter hosts" });
  await bar.waitFor();
  const since = await minuteAgo(page);
  await bar.fill("version<1.4 -platform:linux,darwin");
  await bar.press("Enter");
  await see(page, /^1 to \d+ of \d+ /);
  await expect
    .poll(() => addressOf(page))
    .toBe("?not_platform=linux&not_platform=darwin&version_range=<1.4");
  await bar.fill(`since:${since}`);
  await bar.press("Enter");
  await expect
    .poll(() => addressOf(page))
    .toMatch(/^\?silent_since=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  expect(messages).toEqual([]);
});

it("lists every term with an example when it gets the focus, and all of the language under ?", async () => {
  const { page } = await visit("/fleet");
  await page.getByRole("combobox", { name: "Search and filter hosts" }).waitFor();
  await page.keyboard.press("/");
  await expectCount(page.getByRole("option"), questions.length + terms.length);
  await page.getByRole("option", { name: /since:.*since:10:00/ }).waitFor();
  await page.getByRole("option", { name: /which hosts keep failing authentication/ }).waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "Fleet" }).click();
  await page.keyboard.press("?");
  const help = page.getByRole("dialog");
  for (const example of ["version<1.4", "expires:weekend", "queue>10MiB", "-platform:linux -web"])
    await help.getByText(example, { exact: true }).waitFor();
  await expectAccessible(page);
});

it("refuses OR with what to write instead", async () => {
  const { page } = await visit("/fleet");
  const bar = page.getByRole("combobox", { name: "Search and filter hosts" });
  await bar.fill("state:stale OR state:revoked");
  await bar.press("Enter");
  await see(page, "Write several values with commas: state:stale,revoked.");
  expect(addressOf(page)).toBe("");
});

it("refuses a link with a misspelt value or parameter, in a sentence, without rows", async () => {
  const { page } = await visit("/fleet?state=stal&drift=drifted&sate=healthy");
  await see(page, "There is no parameter sate. Did you mean state?");
  await see(page, "state has no value stal. Did you mean stale?");
  expect(await page.locator("tr[data-id]").count()).toBe(0);
  await expectAccessible(page);
  await follow(page, "Show without these parts");
  await expect.poll(() => addressOf(page)).toBe("?drift=drifted");
  await page.locator("tr[data-id]").first().waitFor();
});
