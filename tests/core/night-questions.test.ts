/**
 * The ten questions of the morning after, and one about a clone, each answered in the browser with the clicks that its name says
 * (`clicksFrom`). The night is recorded through the API (`recordNight`), and the answers are written out by hand from what happened in it.
 */
import { sql } from "drizzle-orm";
import type { Browser, Locator, Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { dayMs, hourMs } from "#kit/clock.ts";
import { visitPage } from "#scripts/lab/visit-page.ts";
import { formatBytes } from "#ui/app/format/format.ts";
import {
  morning,
  nightOptions,
  type RecordedNight,
  recordNight,
} from "../support/fleet/recorded-night.ts";
import type { TestWeb } from "../support/web.ts";
import { see, startWebInBrowser, waitForHeading } from "../support/web-in-browser.ts";

/** An operator at an open page, whose clicks are counted. */
interface Operator {
  page: Page;
  click(target: Locator): Promise<void>;
  /** Types a query into the bar of the fleet page and applies it: one click. */
  query(text: string): Promise<void>;
}

/**
 * Opens a page as an auditor and lets the operator find the answer. Returns the number of clicks. Rejects when the page reported an error.
 *
 * The rule of the count: the operator starts on `/fleet` or on home, signed in. Each click on a link, a button or a suggestion counts as
 * one, and so does typing a query with its Enter. Reading, scrolling and hovering count nothing.
 */
const clicksFrom = async (
  { browser, web, now }: { browser: Browser; web: TestWeb; now: number },
  start: "/" | "/fleet",
  find: (operator: Operator) => Promise<void>,
) => {
  const { page, messages } = await visitPage({ browser, web }, "auditor", start, { now });
  // The page shows UTC and reads times of day in it, wherever the operator is.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
  let clicks = 0;
  await find({
    page,
    click: async (target) => {
      clicks += 1;
      await target.click();
    },
    query: async (text) => {
      clicks += 1;
      const box = page.getByRole("combobox", { name: "Search and filter hosts" });
      await box.fill(text);
      await box.press("Enter");
    },
  });
  expect(messages).toEqual([]);
  return clicks;
};

const { web, browser } = await startWebInBrowser({ core: nightOptions });
let night: RecordedNight;
beforeAll(async () => {
  night = await recordNight(web.core);
}, 300_000);

const answer = (
  question: string,
  start: "/" | "/fleet",
  clicks: number,
  find: (operator: Operator) => Promise<void>,
) =>
  it(`${question}: ${clicks} ${clicks === 1 ? "click" : "clicks"} from ${start}`, async () => {
    expect(await clicksFrom({ browser, web, now: morning }, start, find)).toBe(clicks);
  });
const mainLink = ({ page }: Operator, name: string) =>
  page.getByRole("navigation", { name: "Main" }).getByRole("link", { name });
/** The texts of the cells of a table's rows. */
const cellsOf = (table: Locator) =>
  table
    .locator("tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => [...row.children].map((cell) => cell.textContent ?? "")),
    );
/** `web-3`, `web-9` and so on: rack `r3`, which has no power since 02:20. */
const dark = Array.from({ length: 10 }, (_, n) => `web-${3 + 6 * n}`);

answer(
  "which hosts lost data last night, how much and why",
  "/fleet",
  1,
  async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Last 24 h 12 of 60 hosts incomplete" }));
    await see(page, "12 of 60 hosts have incomplete hours.");
    const [all, ...hosts] = await cellsOf(page.getByRole("table"));
    expect(all?.[2]).toBe("In the worst hour, 11 hosts are incomplete.");
    // Core was out from 03:05 to 03:20, which lost nothing: the accounts of that hour came later.
    expect(hosts.map(([host, , missing]) => [host, missing?.split(".")[0]]).toSorted()).toEqual(
      [
        ...dark.map((host) => [
          `${host}9 hours`,
          "Silent7 hours from 2026-11-27 04:00 UTCIt sends no heartbeats",
        ]),
        ["web-11 hour", "Short1 hour from 2026-11-27 10:00 UTC310 records dropped at the host"],
        ["web-81 hour", "Short1 hour from 2026-11-27 02:00 UTC40 records rejected by core"],
      ].toSorted(),
    );
  },
);

answer(
  "is it this host, or a rack, a version, a config, a core",
  "/fleet",
  1,
  async ({ page, click }) => {
    await click(page.getByRole("button", { name: "In common" }));
    const panel = page.getByRole("region", { name: "In common" });
    await waitForHeading(panel, "In common: hosts that need attention");
    await see(panel, "label rack:r3");
    expect(await panel.getByRole("listitem").allTextContents()).toEqual([
      "label rack:r310 of 10 here, 0 of 50 elsewhere",
    ]);
  },
);

answer("what changed before it broke, and who did it", "/fleet", 1, async ({ page, click }) => {
  await click(page.getByRole("link", { name: "web-7", exact: true }));
  const events = page.getByRole("dialog").locator(".timeline li");
  await events.first().waitFor();
  const [outage, assigned] = await events.allTextContents();
  expect(outage).toContain("2026-11-27 03:05:00 UTCCore could not receive for 15 min");
  expect(assigned).toMatch(
    /^2026-11-27 02:10:00 UTC · ada@example\.testassigned the config [0-9a-f]{6}.* to web-7/,
  );
});

answer("what is wrong with a host that runs twice", "/fleet", 1, async ({ page, click }) => {
  await click(page.getByRole("link", { name: "web-10", exact: true }));
  const clone = page
    .getByRole("dialog")
    .locator(".timeline li", { hasText: "is used by two processes at once" });
  await clone.getByText("2026-11-27 04:01:00 UTC").waitFor();
});

answer("is the new version worse than the old", "/fleet", 1, async ({ page, click }) => {
  await click(page.getByRole("button", { name: "Changes" }));
  const change = page
    .getByRole("region", { name: "Upgrades and changes of labels" })
    .getByRole("listitem");
  const upgraded = change.filter({ hasText: "version 1.2.3 to 2.0.0" });
  await upgraded.getByText(/^25 hosts, 2026-11-27 05:09:00 UTC/).waitFor();
  await upgraded
    .getByText(/^Worse: memory \+25 % .*, 25 changed hosts against 25 similar unchanged ones\.$/)
    .waitFor();
});

answer("is the new config worse than the old", "/fleet", 2, async (operator) => {
  await operator.click(mainLink(operator, "Changes"));
  await operator.click(operator.page.getByRole("link", { name: "Rollouts", exact: true }));
  const verdict =
    "Wave 1: Worse: memory +50 % (+50 to +50), 24 changed hosts against 24 similar unchanged ones.";
  expect(night.paused).toEqual({ code: "worse_than_control", detail: verdict });
  await operator.page.getByRole("cell", { name: "Paused" }).getByText(verdict).waitFor();
});

answer("will everything live through the long weekend", "/fleet", 1, async ({ page, click }) => {
  await click(page.getByRole("button", { name: "Next 72 h" }));
  const panel = page.getByRole("region", { name: "Next 72 h" });
  await see(panel, "Unless somebody acts, by 2026-11-30 11:30:00 UTC:");
  for (const words of [
    "10 hosts lose their certificates: renewal late or failed, or host stale",
    "1 queue will be full at its present rate",
    // 73,728,000 bytes of room at 10,240 a second.
    "web-5 35.1 MiB of 105 MiB, 35.1 MiB more in 1 h: full 2026-11-27 13:30:00 UTC, in 2 h",
    "No bootstrap token expires.",
    "No certificate of core expires.",
  ])
    expect(await panel.textContent()).toContain(words);
});

answer("who sends most, and what does it take on disk", "/", 2, async (operator) => {
  const { page, click } = operator;
  await click(mainLink(operator, "Data"));
  await click(page.getByRole("link", { name: "Volume" }));
  const table = page.getByRole("table");
  await table.getByText("web-2", { exact: true }).waitFor();
  const [first] = await cellsOf(table);
  // 14 hours of 200 MiB. Of a payload byte of yesterday, the disk of its partitions; and 30 days like the range, from 11:00 to 11:30.
  const [yesterday] = await web.core.db.execute<{ disk: string; payload: string }>(sql`
    select pg_total_relation_size('ingest_block_20261126') + pg_total_relation_size('ingest_envelope_20261126') as disk,
      (select sum(payload_bytes) from ingest_hour where hour < '2026-11-27T00:00Z') as payload`);
  const share = Number(yesterday?.disk) / Number(yesterday?.payload);
  const disk = ((14 * 200 * 1024 * 1024 * dayMs) / (24.5 * hourMs)) * 30 * share;
  expect(first).toEqual([
    "web-2",
    "2.7 GiB",
    "79 %",
    "14,000",
    formatBytes(Math.round(disk)),
    "not known yet",
  ]);
});

answer("why is data of 10:00 to 10:20 missing", "/fleet", 2, async ({ page, click }) => {
  await click(page.getByRole("link", { name: "Last 24 h 12 of 60 hosts incomplete" }));
  await click(
    page.getByRole("row", { name: /^web-1 / }).getByRole("link", { name: "2026-11-27 10:00" }),
  );
  const account = page.getByRole("region", { name: "Hour from 2026-11-27 10:00 UTC" });
  await see(account, "310 records dropped at the host.");
  expect(await account.textContent()).toMatch(/Dropped: the queue was full310/);
});

answer("which hosts should exist and never enrolled", "/fleet", 1, async ({ page, click }) => {
  await click(page.getByRole("link", { name: "2 missing" }));
  const table = page.getByRole("table");
  await see(table, "db-1");
  expect((await cellsOf(table)).map(([host, status]) => [host, status])).toEqual([
    ["db-1", "Never enrolled"],
    ["db-2", "Never enrolled"],
  ]);
});

answer("are core, database and export well", "/fleet", 2, async ({ page, click }) => {
  await click(page.getByRole("button", { name: /Menu$/ }));
  await click(page.getByRole("link", { name: "System" }));
  await see(page, "1 of 5 components needs attention");
  const rows = await cellsOf(page.getByRole("table", { name: /^Components/ }));
  expect(rows[0]?.at(-1)).toMatch(/^Commits: the last commit failed: no space left on device/);
  expect(rows.map(([component]) => component)).toEqual([
    "Ingestnot ready",
    "Webready",
    "Databaseready",
    "Export backendready",
    "Certificatesready",
  ]);
});

answer("what did the page say at 02:41", "/fleet", 1, async ({ page, query }) => {
  await query("at:02:41");
  await see(page, "The past, at 2026-11-27 02:41:00 UTC");
  expect(night.at0241).toMatchObject({
    needs_attention: 10,
    enrolled: 60,
    by_state: { stale: 10, healthy: 50 },
  });
  await see(page, "10 hosts need attention, of 60 hosts");
  await expect
    .poll(() => page.locator(".chip", { hasText: "Stale" }).locator("b").textContent())
    .toBe("10");
});
