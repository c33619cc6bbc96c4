import { sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import type { VisitOptions } from "#scripts/lab/visit-page.ts";
import { exportThrough, storeBlock } from "../support/accounts.ts";
import { createTestToken, manage } from "../support/collector.ts";
import {
  expectAddress,
  expectCount,
  follow,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

/** Runs a script and draws an image if a page treats it as markup. */
const hostile = '<img src=x onerror="globalThis.taken=1">';

const noMatch = "warning: /var/log/none/*.log: matches no file";

const { web, visit } = await startWebInBrowser({ clock: systemClock });
beforeAll(async () => {
  const { enroll } = await createTestToken(web.core);
  const hosts = [];
  for (const deviceId of ["edge-1", "edge-2", hostile]) hosts.push(await enroll(deviceId));
  const [first, , last] = hosts;
  if (first === undefined || last === undefined) throw new Error("no hosts");
  const now = Date.now();
  const { collector, config, ...body } = heartbeatBody(now) as {
    collector: object;
    config: object;
  };
  await manage(web.core, first, "heartbeat", {
    ...body,
    collector,
    config: { ...config, errors: [noMatch] },
  });
  await manage(web.core, last, "heartbeat", {
    ...body,
    collector: { ...collector, hostname: hostile, version: "1.0.0-x" },
    config: { ...config, valid: false, errors: [hostile] },
  });
});

/** Opens `/fleet` as an auditor, and waits for facets and rows. */
const visitFleet = async (viewport?: VisitOptions) => {
  const visited = await visit("/fleet", viewport);
  await visited.page
    .getByRole("link", { name: /hosts?, last heartbeat/ })
    .first()
    .waitFor();
  await rowOf(visited.page, "edge-2").waitFor();
  return visited;
};

const typeKeys = async (page: Page, ...keys: readonly string[]) => {
  for (const key of keys) await page.keyboard.press(key);
};
const rowOf = (page: Page, name: string) => page.getByRole("link", { name });
const drawerShows = (page: Page, name: string) =>
  page.getByRole("dialog").getByRole("heading", { name }).waitFor();

it("T2: shows names and messages of hosts as text everywhere", async () => {
  const { page, messages } = await visitFleet();
  await follow(page, hostile);
  const drawer = page.getByRole("dialog");
  await waitForHeading(drawer, hostile);
  await drawer.getByText("Enrolled", { exact: true }).last().waitFor();
  // Its device id, its hostname, its config error, and who enrolled.
  await expectCount(drawer.getByText(hostile), 4);
  expect(await page.locator("img[src=x]").count()).toBe(0);
  expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
  expect(messages).toEqual([]);
});

it("shows what the sources of a healthy host leave out beside its config", async () => {
  const { page, messages } = await visitFleet();
  await follow(page, "edge-1");
  const drawer = page.getByRole("dialog");
  await drawer.getByText("No condition applies.").waitFor();
  const notes = drawer.getByRole("list", { name: "Reported by the host" });
  expect(await notes.textContent()).toBe(noMatch);
  expect(messages).toEqual([]);
});

it("works by keyboard alone: rows, drawer, exports, help", async () => {
  const { page, messages } = await visitFleet();
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await typeKeys(page, "j", "j", "j", "k");
  await expect.poll(focused).toBe("edge-1");
  await page.keyboard.press("Enter");
  await drawerShows(page, "edge-1");
  await see(page, "enrolled with the certificate");
  await page.keyboard.press("j");
  await drawerShows(page, "edge-2");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await expectAddress(page, "/fleet");
  await expect.poll(focused).toBe("edge-2");

  await page.keyboard.press("e");
  await page.locator("a:focus", { hasText: "Stale hosts" }).waitFor();
  await typeKeys(page, "Escape", "?");
  await waitForHeading(page, "Keyboard shortcuts");
  await typeKeys(page, "Space", "Escape", "e");
  expect(await page.locator("#export-menu").isVisible()).toBe(false);
  expect(messages).toEqual([]);
});

it("says which exports need somebody, and why, in one box that comes and goes", async () => {
  const { db } = web.core.core;
  const { page, messages } = await visitFleet();
  expect(await page.locator(".export-lags").count()).toBe(0);
  await storeBlock(db, { xid: 1, envelopes: 1_227, ageSeconds: 7_200 });
  await storeBlock(db, { xid: 2, envelopes: 7, ageSeconds: 20 });
  await exportThrough(db, 2, { name: "fine" });
  await exportThrough(db, 1, { name: "loki" });
  await db.execute(
    sql`update export_position set last_error = 'HTTP 401 <b>invalid token</b>' where name = 'loki'`,
  );
  await page.keyboard.press("r");
  const box = page.locator(".export-lags");
  await box.waitFor();
  expect(await box.textContent()).toBe(
    "Export loki: 2 h behind, 1,234 envelopes · not running · HTTP 401 <b>invalid token</b>",
  );
  await page.setViewportSize({ width: 320, height: 900 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
  await db.execute(sql`delete from export_position`);
  await db.execute(sql`delete from ingest_block where host_id = 'stored'`);
  await page.keyboard.press("r");
  await box.waitFor({ state: "detached" });
  expect(messages).toEqual([]);
});

it("filters by a query with suggestions and faults, which stays in the address", async () => {
  const { page, messages } = await visitFleet();
  const box = page.getByRole("combobox", { name: "Search and filter hosts" });
  await page.keyboard.press("/");
  await page.keyboard.type("edge stat");
  await page.getByRole("option", { name: /^state: / }).waitFor();
  await typeKeys(page, "ArrowDown", "Enter");
  await page.keyboard.type("enr");
  await typeKeys(page, "ArrowDown", "Tab");
  await expect.poll(() => box.inputValue()).toBe("edge state:enrolling ");
  await expectAddress(page, "/fleet?state=enrolling&q=edge");
  await see(page, "1 to 1 of 1");

  await page.keyboard.type("hb>soon");
  await page.keyboard.press("Enter");
  await see(page, "A duration is a whole number");
  await expect.poll(() => box.getAttribute("aria-invalid")).toBe("true");
  await expectAddress(page, "/fleet?state=enrolling&q=edge");
  await page.keyboard.press("Escape");
  await press(page, "Remove filter state:enrolling");
  await expectAddress(page, "/fleet?q=edge");
  await page.evaluate(() => history.back());
  await expect.poll(() => box.inputValue()).toBe("edge state:enrolling");
  expect(messages).toEqual([]);
});

it("filters by the bars of its charts, and exports under that filter", async () => {
  const { page } = await visit("/fleet", { width: 320 });
  await rowOf(page, "edge-2").waitFor();
  await page.locator(".fleet-overview > summary").press("Enter");
  await page.locator(".charts summary").focus();
  // Both are closed on a narrow screen. Each chart is one stop of the Tab key; arrows move among its bars. The versions are the third.
  await page.keyboard.press("Enter");
  await page.getByRole("toolbar", { name: "Versions: filters" }).waitFor();
  for (const key of ["Tab", "Tab", "Tab", "End", "Enter"]) await page.keyboard.press(key);
  await expectAddress(page, "/fleet?version=1.2.3");
  await see(page, "1 to 1 of 1");
  await press(page, "Export");
  const link = page.locator(".exports-link", { hasText: "Config drift" });
  await page.getByRole("link", { name: "Config drift 0 rows" }).waitFor();
  expect(await link.getAttribute("href")).toBe(
    "/api/core/collector/health/export.csv?kind=config_drift&version=1.2.3",
  );
});

it("shows no figure, chart or skeleton of a report that failed to load, and all of them after a retry", async () => {
  const { page } = await visitFleet();
  const figures = page.locator(".summary, .state-bar, .charts, .skeleton, .row-link");
  await page.route("**/api/core/collector/health**", (route) => route.abort());
  await follow(page, /^Enrolling/);
  await waitForHeading(page, "The report could not be loaded");
  await expectCount(figures, 0);
  await expectAddress(page, "/fleet?state=enrolling");
  await page.unroute("**/api/core/collector/health**");
  await press(page, "Try again");
  await rowOf(page, "edge-2").waitFor();
  await page
    .getByRole("heading", { name: "The report could not be loaded" })
    .waitFor({ state: "detached" });
  await page.getByRole("toolbar", { name: "Versions: filters" }).waitFor();
});

it("shows no titles of charts that failed to load, and all of them after a retry", async () => {
  const { page } = await visit("/");
  await page.route("**/api/core/collector/health/facets**", (route) => route.abort());
  await page.goto("/fleet");
  await see(page, "The charts could not be loaded");
  await rowOf(page, "edge-2").waitFor();
  expect(await page.getByText("Certificate expiry", { exact: true }).isVisible()).toBe(false);
  await page.unroute("**/api/core/collector/health/facets**");
  await press(page, "Try again");
  await page.getByRole("toolbar", { name: "Versions: filters" }).waitFor();
});

it("neither scrolls nor changes style behind the drawer, which blocks wheel and click", async () => {
  const { page } = await visitFleet({ height: 400 });
  const chip = await page.getByRole("link", { name: /^Enrolling/ }).boundingBox();
  await rowOf(page, "edge-1").click();
  await drawerShows(page, "edge-1");
  const before = await page.evaluate(() => scrollY);
  const at = { x: (chip?.x ?? 0) + 4, y: 200 };
  await page.mouse.move(at.x, at.y);
  await page.mouse.wheel(0, 200);
  // A wheel scrolls by the second frame after it.
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  expect(await page.evaluate(() => scrollY)).toBe(before);
  // Inherited styles would restyle every row.
  expect(
    await page.evaluate(() =>
      [document.body, document.documentElement].map(({ style }) => style.length),
    ),
  ).toEqual([0, 0]);
  await page.mouse.click(at.x, at.y);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await expectAddress(page, "/fleet");
});

it("offers to reload when the server no longer has the drawer's script", async () => {
  const { page } = await visitFleet();
  await page.route("**/row-drawer-*.js", (route) => route.abort());
  await rowOf(page, "edge-1").click();
  const reload = page.getByRole("alert").getByRole("button", { name: "Reload" });
  await reload.waitFor();
  await page.unroute("**/row-drawer-*.js");
  await reload.click();
  await drawerShows(page, "edge-1");
});

it("offers to reload beside details and charts whose new answers it cannot read", async () => {
  const { page } = await visitFleet();
  await rowOf(page, "edge-1").click();
  await drawerShows(page, "edge-1");
  const answers = /\/collector\/health\/(facets|[0-9a-f-]{36})/;
  await page.route(answers, (route) => route.fulfill({ json: {} }));
  await page.evaluate(() => dispatchEvent(new Event("online")));
  for (const words of ["The details below are old", "The charts are old"])
    await page
      .locator(".banner", { hasText: words })
      .locator("button", { hasText: "Reload" })
      .waitFor();
});
