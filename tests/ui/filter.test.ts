import { type SQL, sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../kit/clock.ts";
import { terms } from "../../proto/fleet-health/query-language/terms.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { axeViolationsOf } from "../../scripts/lab/ui-states.ts";
import { visitPage } from "../../scripts/lab/visit-page.ts";
import { questions } from "../../ui/app/fleet/query-language/suggest.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

const { web, browser } = await startWebInBrowser({ clock: systemClock });
await seedFleet(web.core.db, { count: 150, now: new Date() });

const open = (path: string) => visitPage({ browser, web }, "auditor", path);
const addressOf = (page: Page): string => decodeURIComponent(new URL(page.url()).search);
const countOf = async (where: SQL): Promise<number> => {
  const [row] = await web.core.db.execute<{
    count: number;
  }>(sql`select count(*)::int as count from collector_identity i
    left join collector_health h on h.identity_id = i.id left join ingest_host e on e.host_id = i.identity where ${where}`);
  return row?.count ?? -1;
};
const minuteAgo = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const at = new Date(Date.now() - 60_000);
    return [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
      .map((part) => String(part).padStart(2, "0"))
      .join(":");
  });

describe("the query bar in a browser", () => {
  it("finds the hosts that the database has, for each kind of term", async () => {
    const { page, messages } = await open("/fleet");
    const bar = page.getByRole("combobox", { name: "Search and filter hosts" });
    await bar.waitFor();
    const since = await minuteAgo(page);
    const [serial] = await web.core.db.execute<{ serial_number: string }>(
      sql`select serial_number from certificate where identity_id = '01920000-0000-7000-8000-000000000011' limit 1`,
    );
    await web.core.db.execute(sql`update certificate set serial_number = '0a1b2c3d4e' || ${serial?.serial_number ?? ""}
      where identity_id = '01920000-0000-7000-8000-000000000011'`);
    const questions: readonly (readonly [query: string, SQL])[] = [
      ["fwd>5m", sql`e.last_envelope_at < now() - interval '5 minutes'`],
      ["version<1.4", sql`coalesce(h.collector_version, i.collector_version) = '0.9.0'`],
      [
        "version:1.1*.*",
        sql`coalesce(h.collector_version, i.collector_version) in ('1.10.2', '1.11.0')`,
      ],
      ["-platform:linux,darwin", sql`coalesce(h.platform, i.platform) = 'windows/amd64'`],
      ["auth:failed", sql`i.last_auth_failure_at > now() - interval '1 day'`],
      ["dropped>3", sql`h.dropped_records_total + h.dead_letters > 3`],
      ["queue>0% queue>100KiB", sql`h.queue_bytes > 102400`],
      ["config:6b86b2 running:6b86b2", sql`h.running_config_hash like '6b86b2%'`],
      ["=host17", sql`h.hostname like '=host17%'`],
      ["01920000-0000-7000-8000-00000000000B", sql`i.id = '01920000-0000-7000-8000-00000000000b'`],
      ["0A:1B:2C:3D:4E:11", sql`i.id = '01920000-0000-7000-8000-000000000011'`],
      ["dc-3 host-1", sql`i.identity like '%dc-3%' and i.identity like '%host-1%'`],
    ];
    for (const [query, where] of questions) {
      const count = await countOf(where);
      expect(count, query).toBeGreaterThan(0);
      await bar.fill(query);
      await bar.press("Enter");
      await page
        .getByText(new RegExp(`^1 to ${count} of ${count} `))
        .first()
        .waitFor();
    }

    await bar.fill(`since:${since}`);
    await bar.press("Enter");
    await expect
      .poll(() => addressOf(page))
      .toMatch(/^\?silent_since=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const at = new URL(page.url()).searchParams.get("silent_since");
    const silent = await countOf(sql`e.last_envelope_at < ${at}::timestamptz`);
    await page
      .getByText(new RegExp(`^1 to ${silent} of ${silent} `))
      .first()
      .waitFor();
    expect(messages).toEqual([]);
    await page.context().close();
  });

  it("lists every term with an example when it gets the focus, and all of the language under ?", async () => {
    const { page } = await open("/fleet");
    await page.getByRole("combobox", { name: "Search and filter hosts" }).waitFor();
    await page.keyboard.press("/");
    await expect.poll(() => page.getByRole("option").count()).toBe(questions.length + terms.length);
    await page.getByRole("option", { name: /since:.*since:10:00/ }).waitFor();
    await page.getByRole("option", { name: /who keeps failing authentication/ }).waitFor();
    expect(await axeViolationsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Fleet" }).click();
    await page.keyboard.press("?");
    const help = page.getByRole("dialog");
    for (const example of ["version<1.4", "expires:weekend", "queue>10MiB", "-platform:linux -web"])
      await help.getByText(example, { exact: true }).waitFor();
    expect(await axeViolationsOf(page)).toEqual([]);
    await page.context().close();
  });

  it("refuses OR with what to write instead", async () => {
    const { page } = await open("/fleet");
    const bar = page.getByRole("combobox", { name: "Search and filter hosts" });
    await bar.fill("state:stale OR state:revoked");
    await bar.press("Enter");
    await page.getByText("Write several values with commas: state:stale,revoked.").waitFor();
    expect(addressOf(page)).toBe("");
    await page.context().close();
  });

  it("refuses a link with a misspelt value or parameter, in a sentence, without rows", async () => {
    const { page } = await open("/fleet?state=stal&drift=drifted&sate=healthy");
    await page.getByText("There is no parameter sate. Did you mean state?").waitFor();
    await page.getByText("state has no value stal. Did you mean stale?").waitFor();
    expect(await page.locator("tr[data-id]").count()).toBe(0);
    expect(await axeViolationsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "Show without these parts" }).click();
    await expect.poll(() => addressOf(page)).toBe("?drift=drifted");
    await page.locator("tr[data-id]").first().waitFor();
    await page.context().close();
  });
});
