import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { axeViolationsOf } from "../../scripts/lab/ui-states.ts";
import { type VisitOptions, visitPage } from "../../scripts/lab/visit-page.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

const { web, browser } = await startWebInBrowser();
await seedFleet(web.core.db, { count: 120, now: new Date(web.clock.now()) });

const visitFleet = async (search = "", viewport?: VisitOptions) => {
  const visit = await visitPage({ browser, web }, "auditor", `/fleet${search}`, viewport);
  await visit.page.locator("tr[data-id]").first().waitFor();
  return visit;
};

/** Chooses the columns of labels in the menu of the table. */
const showLabels = async (page: Page, ...keys: string[]) => {
  await page.getByRole("button", { name: "View" }).click();
  for (const key of keys) await page.getByRole("checkbox", { name: key, exact: true }).check();
  await page.keyboard.press("Escape");
};
const cellsOf = async (page: Page) =>
  page.locator("tbody tr[data-id] .column-label").allTextContents();
const rowsIn = async (where: string): Promise<number> => {
  const query = `select count(*)::int as hosts from collector_identity where ${where}`;
  return Number((await web.core.db.execute(query))[0]?.hosts);
};

describe("labels on the fleet page", () => {
  it("are columns that stay chosen, with the values of the rows", async () => {
    const { page, messages } = await visitFleet("?label=env%3Astaging");
    expect(await cellsOf(page)).toEqual([]);
    await showLabels(page, "env", "team");
    await expect
      .poll(async () => new Set((await cellsOf(page)).filter((_, index) => index % 2 === 0)))
      .toEqual(new Set(["staging"]));
    expect(await page.locator("thead .column-label").allTextContents()).toEqual([
      "envlabel",
      "teamlabel",
    ]);
    await page.reload();
    await page.locator("thead .column-label").nth(1).waitFor();
    expect(await axeViolationsOf(page)).toEqual([]);
    expect(messages).toEqual([]);
    await page.context().close();
  });

  it("filter by what an operator types, with suggestions, and find as many hosts as the database has", async () => {
    const { page } = await visitFleet();
    const bar = page.getByRole("combobox");
    await bar.fill("label.te");
    await page.getByRole("option", { name: /^label\.team:/ }).click();
    await page.getByRole("option", { name: /^label\.team:web/ }).click();
    await expect.poll(() => new URL(page.url()).searchParams.getAll("label")).toEqual(["team:web"]);
    const hosts = await rowsIn("reported_labels ->> 'team' = 'web'");
    expect(hosts).toBeGreaterThan(5);
    await page.getByText(`1 to ${hosts} of ${hosts} hosts`).first().waitFor();
    await bar.fill("label.team:web -label.env:prod");
    await bar.press("Enter");
    const rest = await rowsIn(
      "reported_labels ->> 'team' = 'web' and reported_labels ->> 'env' <> 'prod'",
    );
    await page.getByText(`1 to ${rest} of ${rest} hosts`).first().waitFor();
    await page.context().close();
  });

  it("lead from a host to all hosts that have the label", async () => {
    const { page } = await visitFleet("?device=host-1");
    await page.locator(".row-link").first().click();
    await page.getByRole("dialog").getByRole("link", { name: "env: prod" }).click();
    await expect.poll(() => new URL(page.url()).search).toBe("?label=env%3Aprod");
    const hosts = await rowsIn("reported_labels ->> 'env' = 'prod'");
    await page.getByText(`1 to ${hosts} of ${hosts} hosts`).first().waitFor();
    await page.context().close();
  });
});
