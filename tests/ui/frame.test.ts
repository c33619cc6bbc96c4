import { eq } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { systemClock } from "#kit/clock.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { benchGoals } from "#scripts/bench/support/goals.ts";
import { loadedBytes } from "#scripts/bench/ui/measure-ui.ts";
import { people } from "#scripts/lab/people.ts";
import { axeViolationsOf, flawsOf, uiStates, viewports } from "#tests/support/ui-states.ts";
import { createTestToken } from "../support/collector.ts";
import {
  expectAddress,
  expectCount,
  follow,
  openMenu,
  see,
  startWebInBrowser,
  waitForHeading,
  waitForPage,
} from "../support/web-in-browser.ts";

const { web, visit } = await startWebInBrowser({ clock: systemClock });
let hostId: string;
beforeAll(async () => {
  const { enroll } = await createTestToken(web.core);
  for (const deviceId of ["edge-3", "edge-2", "edge-1"])
    hostId = (await enroll(deviceId)).identityId;
});

const chosen = uiStates.filter(({ name }) =>
  [
    "login, refused",
    "home",
    "fleet",
    "fleet, no match",
    "fleet, old rows",
    "drawer",
    "query with a fault",
    "legend",
  ].includes(name),
);

describe("the pages in a browser, under the content security policy", () => {
  it.each([
    { width: 1440, scheme: "light" as const },
    { width: 320, scheme: "dark" as const },
  ])(
    "load at $width px, $scheme, without a console message, layout shift or sideways scroll",
    async (viewport) => {
      const { home_kib, fleet_kib, style_kib } = benchGoals.ui;
      for (const [path, ready, script] of [
        ["/", "Last checked", home_kib],
        ["/fleet", "edge-2", fleet_kib],
        ["/fleet?q=nothing", "No host matches"],
      ] as const) {
        const { page, messages, layoutShift } = await visit(path, viewport);
        await see(page, ready);
        // A request whose response is not read would keep the network busy.
        await page.waitForLoadState("networkidle");
        expect({ path, messages, shift: await layoutShift() }).toEqual({
          path,
          messages: [],
          shift: 0,
        });
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(
          0,
        );
        if (script === undefined) continue;
        const { js, css } = await loadedBytes(page);
        expect(js).toBeLessThanOrEqual(script.value * 1024);
        expect(css).toBeLessThanOrEqual(style_kib.value * 1024);
      }
    },
  );

  // Half of the states in each viewport; `bench ui` checks all states in all.
  it.each(viewports.map((viewport, turn) => ({ ...viewport, turn })))(
    "have no axe violation, $width px",
    async ({ turn, ...viewport }) => {
      for (const { name, person, path, ready, enter } of chosen.filter(
        (_, index) => index % 2 === turn,
      )) {
        const { page } = await visit(path, { as: person, ...viewport });
        await enter?.(page);
        await see(page, ready);
        expect({ name, violations: await axeViolationsOf(page) }).toEqual({ name, violations: [] });
      }
    },
  );

  it("keep the chosen theme, and apply it before the first paint", async () => {
    const { page } = await visit("/", { scheme: "light" });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await openMenu(page);
    await page.getByRole("combobox", { name: "Theme" }).selectOption("dark");
    await expect.poll(background).toBe("rgb(15, 17, 21)");
    await page.route(/main|index-.*\.js/, (route) => route.abort());
    await page.reload({ waitUntil: "domcontentloaded" });
    await expect.poll(background).toBe("rgb(15, 17, 21)");
  });

  it("show a lost scope", async () => {
    const { page } = await visit("/fleet?q=edge", { as: "admin" });
    const holds = (scopes: Scope[]) =>
      web.core.db.update(person).set({ scopes }).where(eq(person.userId, people.admin.userId));
    await page.getByRole("link", { name: "edge-1" }).waitFor();
    await holds(["read"]);
    await page.keyboard.press("r");
    await waitForHeading(page, "This page needs the scope audit");
    await holds(["read", "audit", "admin"]);
    await page.reload();
    await page.getByRole("link", { name: "edge-1" }).waitFor();
  });
});

const product = "Collector fleet";

describe("the pages of records", () => {
  const pages = [
    ["Now", "Now", "Overview", "/"],
    ["Now", "Watches", "Watches", "/watches"],
    ["Fleet", "Fleet", "Hosts", "/fleet"],
    ["Data", "Completeness", "Completeness", "/data/completeness"],
    ["Data", "Volume", "Volume", "/data/volume"],
    ["Changes", "Audit", "Audit", "/changes/audit"],
    ["Changes", "Rollouts", "Rollouts", "/changes/rollouts"],
    ["Changes", "Configs", "Configs", "/changes/configs"],
    ["Access", "Enrollment", "Enrollment", "/access/enrollment"],
    ["Access", "Inventory", "Inventory", "/access/inventory"],
  ] as const;
  const place = "[aria-current]";

  it("have an address, a title and a heading of their own, and a place in the navigation", async () => {
    const { page, messages } = await visit("/");
    const nav = page.getByRole("navigation", { name: "Main" });
    for (const [name, title, tab, path] of pages) {
      await nav.getByRole("link", { name, exact: true }).click();
      const tabs = page.getByRole("navigation", { name, exact: true });
      if (name !== "Fleet") await follow(tabs, tab);
      await waitForPage(page, title);
      await expect.poll(() => page.title()).toBe(`${title} · ${product}`);
      await expectAddress(page, path);
      expect(await nav.locator(place).allTextContents()).toEqual([name]);
      if (name === "Fleet") expect(await tabs.count()).toBe(0);
      else expect(await tabs.locator("[aria-current=page]").textContent()).toBe(tab);
    }
    await page.goto(`/hosts/${hostId}`);
    await waitForPage(page, "edge-1");
    await expect.poll(() => page.title()).toBe(`edge-1 · ${product}`);
    expect(await nav.locator(place).textContent()).toBe("Fleet");
    await openMenu(page);
    await follow(page, "System");
    await waitForPage(page, "System");
    expect(await nav.locator(place).count()).toBe(0);
    expect(messages).toEqual([]);
  });

  it.each([320, 390])(
    "are all in the menu of a screen of %i px, by the keyboard alone",
    async (width) => {
      const { page, messages } = await visit("/changes/audit", { width });
      await waitForPage(page, "Audit");
      const nav = page.getByRole("navigation", { name: "All pages" });
      expect(await page.getByRole("navigation", { name: "Main" }).count()).toBe(0);
      await page.getByRole("button", { name: /Menu$/ }).focus();
      await page.keyboard.press("Enter");
      await nav.waitFor();
      expect(await nav.getByRole("link").allTextContents()).toEqual(pages.map(([, , tab]) => tab));
      expect(await nav.locator(place).textContent()).toBe("Audit");
      await page.getByRole("link", { name: "System" }).waitFor();
      expect(await flawsOf(page, { axeAt: [{ width }] })).toEqual([]);
      await page.setViewportSize({ width, height: 900 });
      await nav.getByRole("link", { name: "Completeness" }).press("Enter");
      await waitForPage(page, "Completeness");
      await expectCount(nav, 0);
      expect(messages).toEqual([]);
    },
  );

  it.each([
    ["/audit?target=edge-1#content", "/changes/audit?target=edge-1#content"],
    ["/configs", "/changes/configs"],
    ["/rollouts/x?wave=2#targets", "/changes/rollouts/x?wave=2#targets"],
    ["/completeness?from=24h", "/data/completeness?from=24h"],
    ["/volume", "/data/volume"],
    ["/enrollment#tokens", "/access/enrollment#tokens"],
    ["/inventory?status=missing", "/access/inventory?status=missing"],
    ["/changes", "/changes/audit"],
  ])("are found at the address of an earlier release, %s", async (old, now) => {
    const { page } = await visit(old);
    await expect.poll(() => page.url()).toBe(web.origin + now);
    await page.locator("main h1").waitFor();
    expect(await page.getByText("No such page").count()).toBe(0);
  });

  it("show a reader which scope is missing, and no entry in the navigation, and which are held", async () => {
    const { page } = await visit("/changes/audit", { as: "reader" });
    for (const path of [
      "/changes/audit",
      `/hosts/${hostId}`,
      "/changes/configs",
      "/changes/rollouts",
      "/changes/rollouts/x",
      "/access/enrollment",
      "/watches",
    ]) {
      await page.goto(path);
      await waitForHeading(page, "This page needs the scope audit");
      expect(
        await page.getByRole("navigation", { name: "Main" }).getByRole("link").allTextContents(),
      ).toEqual(["Now"]);
    }
    await follow(page, "Show your scopes");
    await waitForHeading(page, "Your scopes");
    expect(await page.getByRole("listitem").filter({ hasText: "audit" }).textContent()).toContain(
      "not held",
    );
  });
});
