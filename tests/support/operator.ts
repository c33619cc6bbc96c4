import type { Browser, Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { visitPage } from "#scripts/lab/visit-page.ts";
import type { TestWeb } from "./web.ts";

/** An operator at an open page, whose clicks are counted. */
export interface Operator {
  page: Page;
  click(target: Locator): Promise<void>;
  /** Types a query into the bar of the fleet page and applies it: one click. */
  query(text: string): Promise<void>;
}

/**
 * Opens a page as an auditor and lets the operator find the answer. Returns the number of clicks. Rejects when the page reported an error.
 *
 * The rule of the count: the operator starts on `/fleet` or on home, signed in. Each click on a link, a button or a suggestion counts as
 * one, and so does typing a query with its Enter. Reading, scrolling and hovering count nothing.
 */
export const clicksFrom = async (
  { browser, web, now }: { browser: Browser; web: TestWeb; now: number },
  start: "/" | "/fleet",
  find: (operator: Operator) => Promise<void>,
) => {
  const { page, messages } = await visitPage({ browser, web }, "auditor", start, { now });
  // The page shows UTC and reads times of day in it, wherever the operator is.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
  let clicks = 0;
  await find({
    page,
    click: async (target) => {
      clicks += 1;
      await target.click();
    },
    query: async (text) => {
      clicks += 1;
      const box = page.getByRole("combobox", { name: "Search and filter hosts" });
      await box.fill(text);
      await box.press("Enter");
    },
  });
  expect(messages).toEqual([]);
  return clicks;
};
