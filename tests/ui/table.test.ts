import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { fleetSeverities, severityOf } from "#proto/fleet-health/vocabulary.ts";
import type { VisitOptions } from "#scripts/lab/visit-page.ts";
import { expectAccessible } from "#tests/support/ui-states.ts";
import { figuresOf } from "../support/fleet-figures.ts";
import {
  addressOf,
  expectAddress,
  expectCount,
  follow,
  openMenu,
  press,
  see,
  startWebInBrowser,
} from "../support/web-in-browser.ts";

const { web, visit } = await startWebInBrowser({
  core: { env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } },
});
await web.core.seedFleet(320);

/** Opens `/fleet` as an auditor, and waits for the rows and the charts. */
const visitFleet = async (search = "", viewport?: VisitOptions) => {
  // Web limits what a person requests in a second.
  await web.clock.advance(1000);
  const visited = await visit(`/fleet${search}`, viewport);
  await visited.page.locator(".row-link").first().waitFor();
  const charts = visited.page.locator(".charts:not([open]), .chart-bar").first();
  await charts.waitFor({ state: "attached" });
  return visited;
};
const devices = (page: Page) => page.locator(".row-link").allTextContents();
const drawerOf = (page: Page) => page.getByRole("dialog");

describe("the first row", () => {
  it.each([
    { width: 1440, height: 900, topMax: 380 },
    { width: 390, height: 900, topMax: 500 },
  ])(
    "is within $topMax px of the top at $width px, without a shift",
    async ({ topMax, ...viewport }) => {
      const { page, layoutShift } = await visitFleet("", viewport);
      await page.waitForLoadState("networkidle");
      const top = await page
        .locator("tr[data-id]")
        .first()
        .evaluate((row) => row.getBoundingClientRect().top + scrollY);
      expect(top).toBeLessThanOrEqual(topMax);
      expect(await layoutShift()).toBe(0);
      if (viewport.width > 390) return;
      const reasons = await page.locator("tbody .column-brief").allTextContents();
      expect(reasons.filter((text) => !text.includes("heartbeat"))).toEqual([]);
      expect(reasons[0]).toMatch(/refused.*heartbeat \d+ s ago/);
      const overflow = await page
        .locator(".fleet-scroll, .fleet-table")
        .evaluateAll((all) => all.map((each) => each.scrollWidth - each.clientWidth));
      expect(overflow).toEqual([0, 0]);
    },
  );

  it("stays in its place when the figures of 100,000 hosts arrive", async () => {
    const { page, layoutShift } = await visitFleet();
    const figures = {
      enrolled: 100_000,
      active_recent_heartbeats: 99_999,
      forwarding: 99_999,
      stopped: 99_999,
    };
    await page.route("**/api/core/collector/health?*", async (route) => {
      const response = await route.fetch();
      const report = await response.json();
      const summary = { ...report.summary, ...figures, never_forwarded: 99_999 };
      await route.fulfill({ response, json: { ...report, summary } });
    });
    await page.reload();
    await see(page, "100,000 enrolled");
    await page.waitForLoadState("networkidle");
    expect(await layoutShift()).toBe(0);
  });

  it.each([{ width: 1440 }, { width: 390 }])(
    "stays in its place at $width px when core says of an outage",
    async (viewport) => {
      const { page, layoutShift } = await visitFleet("", viewport);
      await page.route("**/api/core/collector/health?*", async (route) => {
        const response = await route.fetch();
        const report = await response.json();
        const ended = new Date(Date.parse(report.generated_at) - 60_000).toISOString();
        const outage = { began_at: "2026-01-01T00:00:00Z", ended_at: ended, counted_from: ended };
        await route.fulfill({ response, json: { ...report, outages: [outage] } });
      });
      await page.reload();
      const notice = page.getByText("Core could not receive for");
      await notice.waitFor();
      await page.waitForLoadState("networkidle");
      expect(await layoutShift()).toBe(0);
      const edges = await notice.evaluate((line) => [
        line.getBoundingClientRect().bottom,
        innerHeight,
      ]);
      expect(edges[0]).toBeLessThanOrEqual(edges[1] ?? 0);
    },
  );

  it("has as many columns as a wide screen has room for", async () => {
    const { page } = await visitFleet("", { width: 1999 });
    const columns = page.locator(".fleet-table thead th:visible");
    for (const [width, count] of [
      [2000, 10],
      [2119, 10],
      [2120, 11],
      [2289, 11],
      [2290, 12],
      [2459, 12],
      [2460, 13],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await expectCount(columns, count);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(
        true,
      );
      const widths = await columns.evaluateAll((all) =>
        all.reduce(
          (sum, each) => sum + Number(getComputedStyle(each).getPropertyValue("--width")),
          0,
        ),
      );
      // The edges of the page take 34 px, a scroll bar 15.
      expect(widths + 34 + 15).toBeLessThanOrEqual(width);
    }
  });

  it("uses the width of 2560 px for the reason of each state", async () => {
    const { page } = await visitFleet("?state=stale", { width: 2560, height: 1300 });
    const table = await page.locator(".fleet-table").boundingBox();
    expect(table?.width).toBeGreaterThan(2500);
    expect(await page.locator("tbody .column-why").first().textContent()).toMatch(
      /^(last|no) heartbeat .*threshold 3 min|15 min$/,
    );
  });
});

describe("the order of the rows", () => {
  it("is by severity, then by age, and the hosts that need nobody are quiet", async () => {
    const { page } = await visitFleet();
    await page.locator(".row-link").nth(199).waitFor();
    const { body } = await web.core.auditor.get<{
      items: { device_id: string; state: "stale"; forwarding: null }[];
    }>("/v1/collector/health?sort=severity&limit=200");
    expect(await devices(page)).toEqual(body.items.map(({ device_id }) => device_id));
    const ranks = body.items.map((row) => fleetSeverities.indexOf(severityOf(row)));
    expect(ranks).toEqual([...ranks].sort((one, other) => one - other));
    expect(await page.locator("th[aria-sort=ascending]").textContent()).toBe("State");
    const calm = await page.locator("tr[data-calm]").count();
    expect(calm).toBe(body.items.filter((row) => severityOf(row) === "healthy").length);
  });

  it("has one chip for all hosts that need attention, which counts their rows", async () => {
    const { page } = await visitFleet();
    const chip = page.getByRole("link", { name: /^Needs attention/ });
    const count = Number((await chip.textContent())?.replace(/\D/g, ""));
    await chip.click();
    await see(page, `1 to ${Math.min(count, 200)} of ${count} `);
    expect(addressOf(page)).toBe("/fleet?attention=needed");
    await page
      .locator(".row-link")
      .nth(count - 1)
      .waitFor();
    expect(await page.locator("tr[data-calm]").count()).toBe(0);
    await chip.click();
    await expectAddress(page, "/fleet");
  });
});

describe("the history of the page", () => {
  it("does not open the drawer again with Back after Escape", async () => {
    const { page } = await visitFleet("?state=stale");
    await follow(page, /^Revoked/);
    await expectAddress(page, "/fleet?state=revoked");
    await page.locator('table[aria-busy="false"] .row-link').first().click();
    await drawerOf(page).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Escape");
    await drawerOf(page).waitFor({ state: "detached" });
    await expectAddress(page, "/fleet?state=revoked");
    await page.evaluate(() => history.back());
    await expectAddress(page, "/fleet?state=stale");
    expect(await drawerOf(page).count()).toBe(0);
  });

  it("replaces the drawer of a link by its list", async () => {
    const { page } = await visitFleet();
    const id = await page.locator("tr[data-id]").first().getAttribute("data-id");
    await page.goto(`/fleet?state=stale&id=${id}`);
    await drawerOf(page).waitFor();
    const entries = await page.evaluate(() => history.length);
    await page.keyboard.press("Escape");
    await expectAddress(page, "/fleet?state=stale");
    expect(await page.evaluate(() => history.length)).toBe(entries);
  });

  it("reports a cursor of another list once, and shows the first page", async () => {
    const { page } = await visitFleet("?cursor=mangled");
    await see(page, "That page does not exist");
    await see(page, "1 to 200 of 320");
    expect(addressOf(page)).toBe("/fleet");
    await press(page, "Dismiss");
    await page.keyboard.press("r");
    await page.locator('table[aria-busy="false"]').waitFor();
    expect(await page.getByText("does not exist").count()).toBe(0);
  });

  it("keeps the page and its number through a reload", async () => {
    const { page } = await visitFleet();
    await page.getByRole("link", { name: "Next" }).first().click();
    await see(page, "201 to 320 of 320");
    const address = addressOf(page);
    await page.reload();
    await see(page, "201 to 320 of 320");
    expect(addressOf(page)).toBe(address);
    await page.getByRole("link", { name: "Previous" }).first().click();
    await see(page, "1 to 200 of 320");
  });
});

it("the times of the page follow a switch between UTC and local time, which is stored", async () => {
  const { page } = await visit("/");
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
  await page.goto("/fleet?heartbeat=recent");
  const first = page.locator("tbody .column-heartbeat > :first-child").first();
  await first.waitFor();
  await expect.poll(() => first.getAttribute("title")).toMatch(/ UTC$/);
  const utc = Date.parse(((await first.getAttribute("title")) ?? "").replace(" UTC", "Z"));
  await openMenu(page);
  await page.getByRole("combobox", { name: "Times" }).selectOption("local");
  await expect.poll(() => first.getAttribute("title")).toMatch(/ \+05:30$/);
  expect(Date.parse((await first.getAttribute("title")) ?? "")).toBe(utc);
  await page.reload();
  await expect.poll(() => first.getAttribute("title")).toMatch(/ \+05:30$/);
  await page.locator(".row-link").first().click();
  await drawerOf(page)
    .getByText(/ \+05:30$/)
    .first()
    .waitFor();
});

describe("rows off the screen", () => {
  const allRows = (page: Page) => expectCount(page.locator("tr[data-id]"), 200);

  it("are in the accessibility tree, and take the focus", async () => {
    const { page } = await visitFleet();
    await allRows(page);
    const devtools = await page.context().newCDPSession(page);
    const shown = new Set(await devices(page));
    const named = async () => {
      const { nodes } = await devtools.send("Accessibility.getFullAXTree");
      return nodes.filter(
        ({ role, name }) => role?.value === "link" && shown.has(String(name?.value)),
      ).length;
    };
    await expect.poll(named).toBe(200);
    await page.keyboard.press("k");
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.textContent))
      .toBe((await devices(page))[199]);
    await expect.poll(() => page.evaluate(() => scrollY)).toBeGreaterThan(5000);
  });

  it("are printed, without what one presses", async () => {
    const { page } = await visitFleet();
    await allRows(page);
    await page.emulateMedia({ media: "print" });
    expect(await page.getByRole("button", { name: "Export" }).isVisible()).toBe(false);
    const height = await page
      .locator("tr[data-id]")
      .nth(199)
      .evaluate((row) => row.getBoundingClientRect().height);
    expect(height).toBeGreaterThan(20);
    const skipped = await page
      .locator(".row-link")
      .evaluateAll(
        (links) =>
          links.filter((link) => !link.checkVisibility({ contentVisibilityAuto: true })).length,
      );
    expect(skipped).toBe(0);
  });
});

describe("the charts", () => {
  it("have bars of at least 16 px, each with its count", async () => {
    const { page } = await visitFleet();
    const bars = page.locator(
      ".chart[role=toolbar]:not([aria-orientation]) :is(.chart-bar, .chart-bar-marked)",
    );
    const counts = page.locator(".chart-count");
    // The charts are drawn one after the other.
    await expect.poll(() => bars.count()).toBeGreaterThan(10);
    await expect.poll(async () => (await counts.count()) - (await bars.count())).toBe(0);
    const widths = await bars.evaluateAll((all) =>
      all.map((bar) => bar.getBoundingClientRect().width),
    );
    expect(Math.min(...widths)).toBeGreaterThanOrEqual(16);
    expect(await counts.first().isVisible()).toBe(true);
  });

  it("have every bar and word on the screen, without scrolling, at any width", async () => {
    const { page } = await visit("/fleet", { width: 320 });
    const charts = page.locator("details.charts");
    await charts.waitFor({ state: "attached" });
    for (const folded of [".fleet-overview", "details.charts"])
      await page.locator(`${folded}:not([open]) > summary`).click();
    await page.getByRole("toolbar", { name: "Versions: filters" }).locator("a").first().waitFor();
    for (const width of [320, 390, 701, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const places = await page
        .locator(".chart .chart-bar, .chart .chart-bar-marked, .chart text")
        .evaluateAll((bars) =>
          bars
            .map((bar) => bar.getBoundingClientRect())
            .map(({ left, right }) => ({ left, right })),
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
  });

  it.each<FleetFilter>([{}, { states: ["stale"] }])(
    "and all other figures have their counts, and links to their rows: %j",
    async (filter) => {
      const params = filterToParams(filter).toString();
      // Wide enough for a bar of each day.
      const { page } = await visitFleet(`?${params}`, { now: web.clock.now(), width: 1900 });
      const get = async <Body>(path: string) =>
        await web.core.auditor.read<Body>(`/v1/collector/health${path}?${params}`);
      const wanted = figuresOf(
        filter,
        await get<FleetHealthReport>(""),
        await get<FleetFacets>("/facets"),
      ).map(({ count, filter }) => `${count} ${filter && filterToParams(filter)}`);
      // The charts are drawn one after the other; the table of a chart is its last part.
      await expectCount(page.locator(".chart-figure:has(table, .chart-none)"), 3);
      await page.keyboard.press("e");
      await page.locator(".exports-link").first().waitFor();
      // A figure whose rows are shown removes its filter.
      const links = page.locator(
        ":is(a.summary-figure, a.chip, a.chart-link, a.exports-show)[href]:not([aria-current=true])",
      );
      const drawn = await links.evaluateAll((all) =>
        all.map((link) => {
          const text = (link.querySelector("title") ?? link.closest("li") ?? link).textContent;
          const number = link.querySelector("b")?.textContent ?? text;
          const search = new URL(link.getAttribute("href") ?? "", location.href).search;
          return `${/\d+/.exec(number ?? "")?.[0]} ${search.slice(1)}`;
        }),
      );
      expect(drawn.length).toBeGreaterThan(10);
      expect(drawn.filter((figure) => !wanted.includes(figure))).toEqual([]);
    },
  );
});

/** Chooses the columns of labels in the menu of the table. */
const showLabels = async (page: Page, ...keys: string[]) => {
  await press(page, "View");
  for (const key of keys) await page.getByRole("checkbox", { name: key, exact: true }).check();
  await page.keyboard.press("Escape");
};
const cellsOf = async (page: Page) =>
  page.locator("tbody tr[data-id] .column-label").allTextContents();
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
    await expectAccessible(page);
    expect(messages).toEqual([]);
  });

  it("filter by what an operator types, with suggestions", async () => {
    const { page } = await visitFleet();
    const bar = page.getByRole("combobox");
    await bar.fill("label.te");
    await page.getByRole("option", { name: /^label\.team:/ }).click();
    await page.getByRole("option", { name: /^label\.team:web/ }).click();
    await expect.poll(() => new URL(page.url()).searchParams.getAll("label")).toEqual(["team:web"]);
  });

  it("lead from a host to all hosts that have the label", async () => {
    const { page } = await visitFleet("?device=host-1");
    await page.locator(".row-link").first().click();
    await page.getByRole("dialog").getByRole("link", { name: "env: prod" }).click();
    await expect.poll(() => new URL(page.url()).search).toBe("?label=env%3Aprod");
    await see(page, /^1 to \d+ of \d+ hosts/);
  });
});
