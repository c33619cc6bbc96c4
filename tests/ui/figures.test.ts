import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { systemClock } from "../../kit/clock.ts";
import { type FleetFilter, filterToParams } from "../../proto/fleet-health/filter.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { visitPage } from "../../scripts/lab/visit-page.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

// Ages stay the same, while web's limit of requests refills.
const now = Date.now();
const { web, browser } = await startWebInBrowser({
  clock: { ...systemClock, now: () => now },
  core: { env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } },
});
await seedFleet(web.core.db, { count: 90, now: new Date(now) });

const figures = "a.summary-figure[href], a.chip[href], a.chart-link[href], a.exports-show[href]";

interface DrawnFigure {
  text: string;
  count: number;
  href: string;
  /** Its rows are shown: a click removes its filter. */
  isShown: boolean;
}

/** Reads the figures as an operator does: by their first number. */
const readFigures = (page: Page): Promise<DrawnFigure[]> =>
  page.locator(figures).evaluateAll((links) =>
    links.map((link) => {
      const text = (link.querySelector("title") ?? link.closest("li") ?? link).textContent ?? "";
      const number = (link.querySelector("b") ?? { textContent: text }).textContent ?? "";
      return {
        text,
        count: Number(/\d+/.exec(number)?.[0]),
        href: link.getAttribute("href") ?? "",
        isShown: link.getAttribute("aria-current") === "true",
      };
    }),
  );

/** Clicks a figure and returns the number of the rows that the page gets. */
const clickFigure = async (page: Page, index: number): Promise<number> => {
  const answer = page.waitForResponse(
    (response) => new URL(response.url()).pathname === "/api/core/collector/health",
  );
  await page
    .locator(figures)
    .nth(index)
    .evaluate((link) =>
      link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true })),
    );
  const { items } = (await (await answer).json()) as { items: unknown[] };
  return items.length;
};

const views: FleetFilter[] = [{}, { states: ["stale"] }];

it.each(views.map((filter) => [filterToParams(filter).toString()]))(
  "every figure of /fleet?%s is the number of rows that its click gives",
  async (query) => {
    const { page } = await visitPage({ browser, web }, "auditor", `/fleet${query && `?${query}`}`);
    const view = new URL(page.url());
    const address = `${view.pathname}${view.search}`;
    const isDrawn = async () =>
      (await readFigures(page)).every(({ count }) => !Number.isNaN(count));
    // The charts are drawn one after the other; the table of a chart is its last part.
    await expect.poll(() => page.locator(".chart-figure:has(table, .chart-none)").count()).toBe(3);
    await expect.poll(isDrawn).toBe(true);
    const drawn = await readFigures(page);
    expect(drawn.length).toBeGreaterThan(10);
    for (const [index, figure] of drawn.entries()) {
      if (figure.isShown || figure.href === address) continue;
      expect({ ...figure, count: await clickFigure(page, index) }).toEqual(figure);
      await page.goBack();
      await expect.poll(() => readFigures(page), { interval: 100 }).toEqual(drawn);
    }
    await page.context().close();
  },
);

it("charts have every bar and word on the screen, without scrolling, at any width", async () => {
  const { page } = await visitPage({ browser, web }, "auditor", "/fleet", { width: 320 });
  const charts = page.locator("details.charts");
  await charts.waitFor();
  if ((await charts.getAttribute("open")) === null) await charts.locator("summary").click();
  await page.getByRole("toolbar", { name: "Versions: filters" }).locator("a").first().waitFor();
  for (const width of [320, 390, 701, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    const places = await page
      .locator(".chart .chart-bar, .chart .chart-bar-marked, .chart text")
      .evaluateAll((bars) =>
        bars.map((bar) => bar.getBoundingClientRect()).map(({ left, right }) => ({ left, right })),
      );
    expect(places.length).toBeGreaterThan(12);
    expect(places.filter(({ left, right }) => left < 0 || right > width)).toEqual([]);
    const scrolled = await page
      .locator(".chart-space")
      .evaluateAll(
        (spaces) =>
          spaces.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).length,
      );
    expect({ width, scrolled }).toEqual({ width, scrolled: 0 });
  }
  await page.context().close();
});
