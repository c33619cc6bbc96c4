import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { createVolumeKeeper } from "#functions/domain/volume/keep-volume.ts";
import { dayMs, hourMs, systemClock } from "#kit/clock.ts";
import { createTestToken } from "../support/collector.ts";
import {
  expectCount,
  follow,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

const { web, visit, flawsAt } = await startWebInBrowser({ clock: systemClock });
const mib = 1024 * 1024;

beforeAll(async () => {
  const { db } = web.core;
  const { enroll } = await createTestToken(web.core);
  const thisHour = Date.now() - (Date.now() % hourMs);
  for (const [index, deviceId] of ["loud-1", "calm-1", "calm-2"].entries()) {
    const { identity } = await enroll(deviceId);
    for (let hour = 1; hour <= 10 * 24; hour += 1) {
      const bytes = index === 0 && hour <= 24 ? 5 * mib : mib / 4 + (hour % 24) * 4_096;
      await db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
        values (${identity}, ${index === 2 ? "otel_span" : "log_line"}, ${new Date(thisHour - hour * hourMs).toISOString()}::timestamptz, 40, ${bytes}::bigint)`);
    }
    await db.execute(sql`insert into volume_source (host_id, day, kind, source, envelopes, payload_bytes)
      values (${identity}, ${Math.floor(Date.now() / dayMs)}::int, 'log_line', 'journald', 40, ${mib}::bigint)`);
  }
  await createVolumeKeeper({ db, clock: systemClock })();
}, 180_000);

it("has the budgets below, each with a link to the hosts that it holds", async () => {
  const { db } = web.core;
  await db.execute(sql`insert into volume_budget (name, filter, bytes_per_hour, changed_at, changed_by_name) values
      ('loud', 'device:loud-1', ${mib}, now(), 'ada'), ('every', '', ${5 * mib}, now(), 'ada')`);
  await db.execute(sql`insert into held_host (host_id, identity_id, budget, since, until)
      select identity, identity_id, 'loud', now(), now() + interval '1 hour' from fleet_host where device_id = 'loud-1'`);
  const { page } = await visit("/data/volume");
  const items = page.getByRole("region", { name: "Budgets" }).getByRole("listitem");
  await expect
    .poll(() => items.allTextContents())
    .toEqual([
      "loud: 1 MiB an hour for each host of device:loud-1, 1 host held",
      "every: 5 MiB an hour for each host of the fleet",
    ]);
  await follow(page, "1 host held");
  await page
    .getByRole("row", { name: /loud-1/ })
    .getByText("held by its budget")
    .first()
    .waitFor();
});

it("is a picture and a table, by host, kind, and source, and marks a host that sends ten times its usual", async () => {
  const { page, messages } = await visit("/data/volume");
  const rows = page.getByRole("table").getByRole("row");
  await rows.nth(1).getByText("10× its usual").waitFor();
  expect(await page.getByText("10× its usual").count()).toBe(1);
  expect(await rows.count()).toBe(4);
  expect(await page.locator(".sparkline-bar").count()).toBe(25);
  await follow(page, "By kind");
  await expectCount(rows, 3);
  await follow(page, "By source");
  await rows.nth(1).getByText("log_line journald").waitFor();
  await see(page, "Counted by the hosts");
  await follow(page, "By host");
  await follow(page, "7 days");
  await expect.poll(() => page.locator(".sparkline-bar").count()).toBeGreaterThan(160);
  await follow(page, "loud-1");
  await waitForHeading(page, "loud-1");
  await page.goto("/data/volume?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z");
  await waitForHeading(page, "Nothing was stored in this time");
  // An empty page says so once.
  expect(await page.getByText(/nothing|^0 B/i).count()).toBe(1);
  expect(messages).toEqual([]);
});

it("is a column of the fleet on wide screens, by which it sorts", async () => {
  const { page, messages } = await visit("/fleet", { width: 2300 });
  const heading = page.getByRole("columnheader", { name: /^Volume/ });
  for (const direction of ["ascending", "descending"]) {
    await heading.getByRole("link").click();
    await expect.poll(() => heading.getAttribute("aria-sort")).toBe(direction);
  }
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  const cells = page.locator("td.column-volume");
  await expect
    .poll(() => cells.allTextContents())
    .toEqual(["120 MiB, 10× its usual", "7 MiB", "7 MiB"]);
  expect(messages).toEqual([]);
});

it("is a table of today in the row of a host, by kind and hour", async () => {
  const hour = new Date(Date.now() - (Date.now() % hourMs)).toISOString();
  await web.core.db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
      select identity, 'otel_span', ${hour}::timestamptz, 1200, 0 from fleet_host where device_id = 'loud-1'`);
  const { page } = await visit("/fleet");
  await follow(page, "loud-1");
  const table = page
    .getByRole("dialog")
    .getByRole("table", { name: "Today, in envelopes", exact: true });
  const newest = table.locator("tbody tr").first();
  await newest.waitFor();
  expect(await newest.locator("th, td").allTextContents()).toContain("1,200");
  expect(await newest.locator("th").textContent()).toBe(hour.slice(11, 16));
  expect(await table.locator("thead th").allTextContents()).toContain("spans");
  expect(await table.locator("tfoot td").allTextContents()).toContain("1,200");
});

it("has no axe violation and no sideways scroll", async () => {
  expect(await flawsAt("/data/volume", "10× its usual")).toEqual([]);
  expect(await flawsAt("/data/volume?by=source&from=7d", "log_line journald")).toEqual([]);
});
