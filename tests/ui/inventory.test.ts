import { sql } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createTestToken } from "../support/collector.ts";
import { unwieldyName } from "../support/ui-states.ts";
import {
  expectCount,
  follow,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

const { web, visit, flawsAt } = await startWebInBrowser({ clock: systemClock });

beforeAll(async () => {
  const { enroll } = await createTestToken(web.core);
  for (const deviceId of ["shop-1", "shop-2", "stray-1"]) await enroll(deviceId);
}, 180_000);

const put = (hosts: object[]) => web.core.admin.put("/v1/collector/inventory", { hosts });

it("without an inventory the fleet says so, and its page says how to put one", async () => {
  const { page, messages } = await visit("/fleet");
  await page.getByRole("link", { name: "stray-1" }).first().waitFor();
  await follow(page, "Inventory none");
  await waitForHeading(page, "There is no inventory");
  expect(await page.locator("search").count()).toBe(0);
  expect(messages).toEqual([]);
});

describe("an inventory", () => {
  beforeAll(async () => {
    await put([
      { name: "shop-1", owner: "shop", labels: { env: "prod" } },
      { name: "shop-2" },
      { name: "shop-3" },
    ]);
  });

  it("is a line beside the charts, whose numbers lead to the hosts", async () => {
    const { page, messages, layoutShift } = await visit("/fleet");
    await page.getByRole("link", { name: "1 missing" }).waitFor();
    expect(await layoutShift()).toBe(0);
    await follow(page, "1 not expected");
    await expectCount(page.locator("tbody tr[data-id]"), 1);
    await page.getByRole("link", { name: "stray-1" }).first().waitFor();
    await follow(page, "1 missing");
    const rows = page.getByRole("table").getByRole("row");
    await rows.nth(1).getByText("shop-3").waitFor();
    expect(await rows.count()).toBe(2);
    await follow(page, "Enrolled 2");
    await expectCount(rows, 3);
    await rows.nth(1).getByText("env: prod").waitFor();
    await rows.nth(1).getByRole("link", { name: "shop-1" }).click();
    await waitForHeading(page, "shop-1");
    expect(messages).toEqual([]);
  });

  it("is asked by a search that finds no host", async () => {
    const { page, messages } = await visit("/fleet?q=SHOP-3");
    await page
      .getByText("Expected by the inventory, and never enrolled: shop-3.", { exact: true })
      .waitFor();
    await page.goto("/fleet?q=shop-9");
    await waitForHeading(page, "No host matches");
    await page.waitForLoadState("networkidle");
    expect(await page.getByText("Expected by").count()).toBe(0);
    expect(messages).toEqual([]);
  });

  it("has no axe violation and no sideways scroll", async () => {
    expect(await flawsAt("/access/inventory", "stray-1")).toEqual([]);
    await web.core.db.execute(
      sql`update collector_identity set device_id = ${unwieldyName} where device_id = 'stray-1'`,
    );
    expect(await flawsAt("/fleet", "1 missing")).toEqual([]);
  });
});
