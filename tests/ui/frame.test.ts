import { eq } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { systemClock } from "#kit/clock.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { people } from "#scripts/lab/people.ts";
import { axeViolationsOf, uiStates, viewports } from "#tests/support/ui-states.ts";
import { createTestToken } from "../support/collector.ts";
import {
  follow,
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
      for (const [path, ready] of [
        ["/", "3 enrolled"],
        ["/fleet", "edge-2"],
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
    await page.getByRole("radio", { name: "Dark" }).check();
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
  it("have an address, a title and a heading of their own, and a place in the navigation", async () => {
    const { page, messages } = await visit("/");
    await expect.poll(() => page.title()).toBe(product);
    const nav = page.getByRole("navigation", { name: "Main" });
    for (const name of [
      "Fleet",
      "Completeness",
      "Audit",
      "Configs",
      "Rollouts",
      "Enrollment",
      "Watches",
      "System",
    ]) {
      await nav.getByRole("link", { name, exact: true }).click();
      await waitForPage(page, name);
      await expect.poll(() => page.title()).toBe(`${name} · ${product}`);
      expect(await nav.locator("[aria-current=page]").textContent()).toBe(name);
    }
    await page.goto(`/hosts/${hostId}`);
    await waitForPage(page, "edge-1");
    await expect.poll(() => page.title()).toBe(`edge-1 · ${product}`);
    expect(await nav.locator("[aria-current]").textContent()).toBe("Fleet");
    expect(messages).toEqual([]);
  });

  it("are all in one line of the navigation of a narrow screen", async () => {
    const { page } = await visit("/audit", { width: 360 });
    const links = page.getByRole("navigation", { name: "Main" }).getByRole("link");
    await links.getByText("Completeness").waitFor();
    expect(await links.allTextContents()).toEqual([
      "Fleet",
      "Completeness",
      "Audit",
      "Configs",
      "Rollouts",
      "Enrollment",
    ]);
    for (const width of [360, 390, 480]) {
      await page.setViewportSize({ width, height: 900 });
      const tops = await links.evaluateAll((all) =>
        all.map((link) => link.getBoundingClientRect().top),
      );
      expect({ width, lines: new Set(tops).size }).toEqual({ width, lines: 1 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(
        true,
      );
    }
  });

  it("show a reader which scope is missing, and no entry in the navigation, and which are held", async () => {
    const { page } = await visit("/audit", { as: "reader" });
    for (const path of [
      "/audit",
      `/hosts/${hostId}`,
      "/configs",
      "/rollouts",
      "/rollouts/x",
      "/enrollment",
      "/watches",
    ]) {
      await page.goto(path);
      await waitForHeading(page, "This page needs the scope audit");
      expect(
        await page.getByRole("navigation", { name: "Main" }).getByRole("link").allTextContents(),
      ).toEqual(["Home"]);
    }
    await follow(page, "Show your scopes");
    await waitForHeading(page, "Your scopes");
    expect(await page.getByRole("listitem").filter({ hasText: "audit" }).textContent()).toContain(
      "not held",
    );
  });
});
