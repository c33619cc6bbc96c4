import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../kit/clock.ts";
import { visitPage } from "../../scripts/lab/visit-page.ts";
import { createTestToken, enrollTestCollector } from "../support/collector.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

const { web, browser } = await startWebInBrowser({ clock: systemClock });
let hostId: string;
beforeAll(async () => {
  const { token } = await createTestToken(web.core);
  hostId = (await enrollTestCollector(web.core, { token, deviceId: "edge-1" })).identityId;
});

const product = "Collector fleet";

describe("the pages of records", () => {
  it("have an address, a title and a heading of their own, and a place in the navigation", async () => {
    const { page, messages } = await visitPage({ browser, web }, "auditor", "/");
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
      await page.getByRole("heading", { level: 1, name }).waitFor();
      await expect.poll(() => page.title()).toBe(`${name} · ${product}`);
      expect(await nav.locator("[aria-current=page]").textContent()).toBe(name);
    }
    await page.goto(`${web.origin}/hosts/${hostId}`);
    await page.getByRole("heading", { level: 1, name: "edge-1" }).waitFor();
    await expect.poll(() => page.title()).toBe(`edge-1 · ${product}`);
    expect(await nav.locator("[aria-current]").textContent()).toBe("Fleet");
    expect(messages).toEqual([]);
    await page.context().close();
  });

  it("are all in one line of the navigation of a narrow screen", async () => {
    const { page } = await visitPage({ browser, web }, "auditor", "/audit", { width: 360 });
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
    await page.context().close();
  });

  it("show a reader which scope is missing, and no entry in the navigation", async () => {
    const { page } = await visitPage({ browser, web }, "reader", "/audit");
    for (const path of [
      "/audit",
      `/hosts/${hostId}`,
      "/configs",
      "/rollouts",
      "/rollouts/x",
      "/enrollment",
      "/watches",
    ]) {
      await page.goto(web.origin + path);
      await page.getByRole("heading", { name: "This page needs the scope audit" }).waitFor();
      expect(
        await page.getByRole("navigation", { name: "Main" }).getByRole("link").allTextContents(),
      ).toEqual(["Home"]);
    }
    await page.context().close();
  });

  it("redirect to the sign-in page without a session, and return to the same address", async () => {
    for (const path of [
      "/audit?action=identity.revoke",
      `/hosts/${hostId}`,
      "/configs/x",
      "/rollouts?state=paused",
      "/enrollment",
    ]) {
      const response = await fetch(web.origin + path, {
        headers: { Accept: "text/html" },
        redirect: "manual",
      });
      expect(response.headers.get("location")).toBe(
        `/login?${new URLSearchParams({ return_to: path })}`,
      );
    }
  });
});
