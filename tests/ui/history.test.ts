import { sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { addSample, recordThresholds, sampleMs } from "#functions/store/fleet/history.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import type { FleetAhead } from "#proto/fleet-health/ahead.ts";
import type { FleetFactors } from "#proto/fleet-health/factors.ts";
import type { FleetState } from "#proto/fleet-health/vocabulary.ts";
import type { VisitOptions } from "#scripts/lab/visit-page.ts";
import { expectAccessible, flawsOf } from "#tests/support/ui-states.ts";
import { expectCount, follow, press, see, startWebInBrowser } from "../support/web-in-browser.ts";

const { web, visit, flawsAt } = await startWebInBrowser();
/** Fifteen hosts are silent from three hours ago, for half an hour. */
let silentFrom = 0;
const silentMs = hourMs / 2;
const text = (at: number) => new Date(at).toISOString();

/** A time at which the hosts are silent. */
const midst = () => text(silentFrom + silentMs / 2);
const rowOf = (page: Page) => page.locator(".row-link").first();
const paramOf = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);
const openPanel = async (path: string, button: string, name: string, options?: VisitOptions) => {
  const { page, messages } = await visit(path, options);
  await rowOf(page).waitFor();
  const folded = page.locator(".fleet-overview:not([open]) > summary");
  if (await folded.isVisible()) await folded.click();
  await press(page, button);
  return { page, messages, panel: page.getByRole("region", { name }) };
};

beforeAll(async () => {
  const { db, config, clock } = web.core;
  const now = clock.now();
  silentFrom = now - (now % sampleMs) - 3 * hourMs;
  await recordThresholds(db, fleetThresholds(config), new Date(now - 40 * hourMs));
  await web.core.seedFleet(120);
  await db.execute(sql`insert into fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes)
    select identity_id, false, ${text(silentFrom)}::timestamptz, ${text(silentFrom + silentMs)}::timestamptz, 0 from fleet_status
    where last_heartbeat_at > ${text(now)}::timestamptz - interval '1 minute' order by identity limit 15`);
  await db.execute(sql`insert into core_outage (id, began_at, ended_at)
    values (gen_random_uuid(), ${text(now - 9 * hourMs)}::timestamptz, ${text(now - 8 * hourMs)}::timestamptz)`);
  for (let at = now - 24 * hourMs; at <= now; at += sampleMs) {
    if (at > now - 9 * hourMs && at < now - 8 * hourMs) continue;
    const stale = at > silentFrom + 200_000 && at < silentFrom + silentMs ? 25 : 10;
    const byState = new Map<FleetState, number>([
      ["stale", stale],
      ["queue_at_risk", 4],
      ["healthy", 106 - stale],
    ]);
    const byForwarding = { forwarding: 106 - stale, stopped: 0, never: 0 };
    await addSample(db, { needsAttention: stale + 4, byForwarding, byState }, new Date(at));
  }
}, 180_000);

describe("the page as it was", () => {
  it("is reached by the slider, marked as past, and left by a link", async () => {
    const { page, messages } = await visit("/fleet?state=stale");
    const slider = page.getByRole("slider", { name: "Show the page as it was at" });
    await rowOf(page).waitFor();
    await press(page, "History");
    await slider.waitFor();
    const stale = async () =>
      Number(await page.locator(".chip", { hasText: "Stale" }).locator("b").textContent());
    await slider.fill(String(silentFrom + silentMs / 2));
    await see(page, "The past, at");
    await see(page, "29 hosts need attention, of 110 hosts");
    const at = paramOf(page, "at");
    const body = await web.core.health(`at=${at}`);
    expect(body.summary.by_state.stale).toBeGreaterThanOrEqual(15);
    await expect.poll(stale).toBe(body.summary.by_state.stale);
    expect(await page.locator(".fleet[data-past]").count()).toBe(1);
    expect(paramOf(page, "state")).toBe("stale");
    // Every link of the page keeps the time.
    await follow(page, /^Healthy/);
    await page.getByText("recent", { exact: true }).first().waitFor();
    expect(paramOf(page, "at")).not.toBeNull();
    await follow(page, "Back to now");
    await see(page, /^Updated .* ago$/);
    expect(await page.locator(".fleet[data-past]").count()).toBe(0);
    expect(messages).toEqual([]);
  });

  it("shows a host in its drawer as it was", async () => {
    const { page } = await visit(`/fleet?state=stale&at=${midst()}`);
    await rowOf(page).click();
    const drawer = page.getByRole("dialog");
    await see(drawer, "The past, at");
    await drawer.getByRole("link", { name: "This host now" }).waitFor();
    expect(await drawer.getByText("Volume").count()).toBe(0);
  });

  it("names the filter that has no history, and the time that has none", async () => {
    const { page } = await visit(`/fleet?queue_above_percent=5&at=${text(silentFrom)}`);
    await see(page, "queue_above_percent: this has no history");
    await page.goto("/fleet?at=2020-01-01T00:00Z");
    await see(page, "History does not go back so far");
    const box = page.getByRole("combobox", { name: "Search and filter hosts" });
    await page.goto(`/fleet?state=stale&at=${midst()}`);
    await expect.poll(() => box.inputValue()).toMatch(/^state:stale at:\d\d:\d\d/);
    await box.fill("state:stale");
    await box.press("Enter");
    await expect.poll(() => new URL(page.url()).search).toBe("?state=stale");
    await page.goto("/fleet?at=yesterday");
    await see(page, "at is a time in UTC");
  });

  it("has no axe violation and no sideways scroll", async () => {
    const past = `/fleet?at=${midst()}`;
    expect(await flawsAt(past, "hosts need attention, of 110 hosts")).toEqual([]);
  });
});

describe("the lines of 24 hours", () => {
  it("are under the figures of the whole fleet, and a click shows the page of that time", async () => {
    const { page, messages, layoutShift } = await visit("/fleet");
    const chip = page.locator(".state-chips li", { hasText: "Stale" });
    const line = chip.getByRole("img", { name: "Last 24 h: 10 to 25 hosts" });
    await line.waitFor();
    const forwarding = page.locator(".summary").getByRole("img");
    expect(await forwarding.textContent()).toBe("Last 24 h: 81 to 96 hosts");
    await expectCount(page.locator(".trend"), 12);
    expect(await layoutShift()).toBe(0);
    await expectAccessible(page);
    const { width = 0 } = (await line.boundingBox()) ?? {};
    // The middle of the silence, in quarters of an hour from the left.
    const index = 95 - Math.floor((web.clock.now() - Date.parse(midst())) / 900_000);
    await line.click({ position: { x: ((index + 0.5) / 96) * width, y: 5 } });
    await see(page, "The past, at");
    expect(Math.abs(Date.parse(paramOf(page, "at") ?? "") - Date.parse(midst()))).toBeLessThan(
      hourMs / 4,
    );
    await expectCount(page.locator(".trend"), 0);
    await follow(page, "Back to now");
    await line.waitFor();
    await follow(chip, /Stale/);
    await expect.poll(() => paramOf(page, "state")).toBe("stale");
    await expectCount(page.locator(".trend"), 0);
    expect(messages).toEqual([]);
  });
});

describe("what hosts have in common", () => {
  it("is a list beside the table, whose links narrow the view", async () => {
    const { page, messages, panel } = await openPanel(
      "/fleet?version=1.11.0",
      "In common",
      "In common",
    );
    await see(panel, "version");
    await see(panel, /^\d+ of \d+ here, 0 of \d+ elsewhere/);
    await expectAccessible(page);
    await panel.getByRole("link").first().click();
    await expect.poll(() => paramOf(page, "version")).toBe("1.11.0");
    expect(messages).toEqual([]);
  });

  it("says while core reads the sources of the hosts, and then compares them", async () => {
    const today = Math.floor(web.clock.now() / dayMs);
    await web.core.db.execute(sql`insert into volume_source (host_id, day, kind, source, envelopes, payload_bytes)
      select identity, ${today}::int, 'log_line', 'nginx', 1, 1 from fleet_status where version = '1.11.0'`);
    const { page, messages } = await visit("/fleet?version=1.11.0");
    await page.route(
      "**/health/factors*",
      async (route) => {
        const response = await route.fetch();
        const body: FleetFactors = await response.json();
        const items = body.items.filter(({ kind }) => kind !== "source");
        // Without the validator of another body.
        const { etag, ...headers } = response.headers();
        await route.fulfill({ response, headers, json: { ...body, items, reads_sources: true } });
      },
      { times: 1 },
    );
    await press(page, "In common");
    const panel = page.getByRole("region", { name: "In common" });
    await see(panel, "Core is still reading");
    expect(await panel.getByText("source nginx").count()).toBe(0);
    await follow(panel, "source nginx");
    expect(await panel.getByText("Core is still reading").count()).toBe(0);
    await expect.poll(() => paramOf(page, "source")).toBe("nginx");
    await rowOf(page).waitFor();
    expect(messages).toEqual([]);
  });
});

it("what runs out is a list behind a button, and each count of hosts leads to as many rows", async () => {
  await web.core.db.execute(
    sql`update fleet_status set queue_oldest_seconds = 300 where queue_bytes > 100000`,
  );
  const { page, messages, panel } = await openPanel("/fleet", "Next 72 h", "Next 72 h");
  const { body } = await web.core.auditor.get<FleetAhead>("/v1/collector/health/ahead");
  expect(body.queues.count).toBeGreaterThan(0);
  await expectAccessible(page);
  await panel.getByRole("link", { name: new RegExp(`^${body.queues.count} queues?$`) }).click();
  await see(page, `1 to ${body.queues.count} of ${body.queues.count}`);
  expect(messages).toEqual([]);
});

describe("what hosts changed", () => {
  beforeAll(async () => {
    const at = (hoursAgo: number) => sql`${text(web.clock.now() - hoursAgo * hourMs)}::timestamptz`;
    const comparison = {
      at: text(web.clock.now()),
      verdict: "worse",
      matched_by: ["platform", "version"],
      changed: 40,
      control: 120,
      unmatched: 4,
      measures: [
        {
          measure: "memory",
          verdict: "worse",
          changed: 40,
          control: 120,
          difference: { value: 0.31, low: 0.27, high: 0.352 },
        },
        { measure: "cpu", verdict: "too_few", changed: 3, control: 120, difference: null },
      ],
    };
    await web.core.db.execute(sql`insert into fleet_change values
      (gen_random_uuid(), 'version', '', '1.10.2', '1.11.0', ${at(6)}, ${at(5)}, 44, ${JSON.stringify(comparison)}),
      (gen_random_uuid(), 'label', 'region', null, 'dc-1', ${at(1)}, ${at(0.5)}, 1, null)`);
    await web.core.db.execute(
      sql`insert into fleet_change_hour values (${Math.floor(web.clock.now() / hourMs)}::int, 17)`,
    );
  });

  it("is a list with a verdict for each change, at any width", async () => {
    const { page, messages, panel } = await openPanel(
      "/fleet",
      "Changes",
      "Upgrades and changes of labels",
      { width: 320 },
    );
    await panel
      .getByText("Worse: memory +31 % (+27 to +35.2), 40 changed hosts against 120")
      .click();
    await see(panel, "CPU: too few hosts, 3 and 120");
    const waiting = panel.getByRole("listitem").filter({ hasText: "label region none to dc-1" });
    await see(waiting, /^Soaks until .* UTC, longer if core is unavailable\.$/);
    await see(panel, "17 further changes of the last 24 h are not compared");
    expect(await flawsOf(page)).toEqual([]);
    await follow(panel, "version 1.10.2 to 1.11.0");
    await expect.poll(() => paramOf(page, "version")).toBe("1.11.0");
    expect(messages).toEqual([]);
  });
});
