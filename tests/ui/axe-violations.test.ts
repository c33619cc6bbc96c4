import { expect, it } from "vitest";
import { axeViolationsOf } from "../support/ui-states.ts";
import { openTestBrowser } from "../support/web-in-browser.ts";

const { browser } = await openTestBrowser();

it("axe finds what is wrong in one of many rows alike, and in what only they make scroll, and the page stays as it is", async () => {
  const page = await browser.newPage();
  const row = '<tr><td><a href="/" style="color: #eee">one of many</a></td></tr>';
  await page.setContent(`<!doctype html><html lang="en"><title>Rows</title>
    <main><h1>Rows</h1><table><tbody>${row.repeat(50)}</tbody></table>
    <div style="max-height: 60px; overflow: auto"><ul>${"<li>one of many</li>".repeat(50)}</ul></div></main></html>`);
  const readPage = () =>
    page.evaluate(() => document.body.innerHTML.replaceAll(/ (data-axe-twin|style)=""/g, ""));
  const before = await readPage();
  const rules = (await axeViolationsOf(page)).map((violation) => violation.split(":")[0]);
  expect(rules).toEqual([
    "light, color-contrast",
    "light, scrollable-region-focusable",
    "dark, color-contrast",
  ]);
  expect(await readPage()).toBe(before);
});
