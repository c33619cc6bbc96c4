import { createHash } from "node:crypto";
import { sql } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { noteQueues } from "#functions/store/ingest/queues.ts";
import { hourMs, systemClock } from "#kit/clock.ts";
import type { FleetCompleteness } from "#proto/completeness/report.ts";
import { exportThrough, storeAccount } from "../support/accounts.ts";
import { createTestToken, type TestCollector } from "../support/collector.ts";
import {
  expectCount,
  follow,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

const { web, visit, flawsAt } = await startWebInBrowser({ clock: systemClock });
let shop: TestCollector;
let gone: TestCollector;
const queueOf = ({ identity }: TestCollector) => createHash("md5").update(identity).digest("hex");
const thisHour = Date.now() - (Date.now() % hourMs);
/** The hour that is short, seven hours ago. */
const short = thisHour - 7 * hourMs;
const shortText = `${new Date(short).toISOString().slice(0, 10)} ${new Date(short).toISOString().slice(11, 16)}`;

beforeAll(async () => {
  const { core, db } = web.core;
  const { enroll } = await createTestToken(web.core);
  shop = await enroll("shop-3");
  const others = [await enroll("shop-1"), await enroll("shop-2")];
  gone = await enroll("shop-4");
  await db.execute(sql`update collector_identity set enrolled_at = now() - interval '30 days'`);
  await db.execute(sql`update fleet_status set enrolled_at = now() - interval '30 days'`);
  await db.execute(
    sql`update fleet_status set last_heartbeat_at = now() where identity <> ${gone.identity}`,
  );
  await db.execute(
    sql`update fleet_status set lost_records = 310 where identity = ${shop.identity}`,
  );
  await db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    values (${shop.identity}, 'log_line', ${new Date(thisHour).toISOString()}::timestamptz, 7, 2000)`);
  await exportThrough(db, 100);
  const first = thisHour - 30 * hourMs;
  for (let at = first; at < thisHour; at += hourMs) {
    await storeAccount(db, shop.identity, at, at === short ? { queueFull: 310 } : {});
    for (const { identity } of others)
      await storeAccount(db, identity, at, at > thisHour - 4 * hourMs ? { xid: 200n } : {});
    if (at < thisHour - 12 * hourMs)
      await storeAccount(db, gone.identity, at, {
        isStopped: at < first + 5 * hourMs,
        accepted: 0,
      });
  }
  // Of the hour after that one, the backend of the export rejected something.
  const after = (Math.floor((short + hourMs) / hourMs) - 1) * 1_000;
  await db.execute(sql`insert into export_rejection (host_id, queue_id, after_sequence, name, envelopes, items, last_at)
    values (${shop.identity}, decode(md5(${shop.identity}), 'hex'), ${after}::bigint, 'backend', 2, 7, now())`);
  await db.execute(sql`insert into completeness_progress (hour, received_before)
    values (${new Date(first - hourMs).toISOString()}::timestamptz, ${new Date(first).toISOString()}::timestamptz)`);
  const queue = { hostId: gone.identity, queueId: Uint8Array.fromHex(queueOf(gone)) };
  await noteQueues(db, [{ ...queue, sendsAccounts: true }], new Date());
  const settling = { owner: "01920000-0000-7000-8000-000000000001", retentionDays: 400 };
  for (let hour = 0; hour < 31; hour += 1)
    await settleHours({ ...core, clock: systemClock }, settling);
}, 180_000);

it("the hours of a host are squares that the keyboard reaches, and open the account of an hour", async () => {
  const { page, messages, layoutShift } = await visit(`/hosts/${shop.identityId}`);
  const square = page.getByRole("button", { name: `${shortText} UTC: Short of 310 records` });
  await square.waitFor();
  expect(await layoutShift()).toBeLessThan(0.01);
  await square.click();
  const account = page.getByRole("region", { name: `Hour from ${shortText} UTC` });
  await see(account, "310 records dropped at the host.");
  await see(account, "Accepted by the collector");
  expect(await account.getByText(/account/i).count()).toBe(0);
  await see(account, /sequences \d+ to \d+/);
  await account.getByText("delivered", { exact: true }).waitFor();
  expect(new URL(page.url()).searchParams.get("hour")).toBe(new Date(short).toISOString());
  await square.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  const next = new Date(short + hourMs).toISOString();
  await page
    .getByRole("region", { name: `Hour from ${next.slice(0, 10)} ${next.slice(11, 16)} UTC` })
    .waitFor();
  await see(page, "2 records rejected by the backend of an export.");
  await see(page, "7 spans, log records or data points rejected by the backend of an export.");
  await see(page, "delivered, 2 records rejected, 7 spans, log records or data points rejected");
  const statement = await page
    .getByRole("link", { name: "Download the statement" })
    .getAttribute("href");
  expect(statement).toContain(`/statements/${next}?host=`);
  expect(await page.locator(".hour-grid button[tabindex='0']").count()).toBe(1);
  expect(messages).toEqual([]);
});

describe("the completeness of the fleet", () => {
  it("is a line beside the charts, which leads to the hosts that are not complete", async () => {
    const { page, messages, layoutShift } = await visit("/fleet");
    await page.getByRole("link", { name: "Last 24 h 2 of 4 hosts incomplete" }).waitFor();
    // A row that moves by its height is 0.01.
    expect(await layoutShift()).toBeLessThan(0.001);
    await follow(page, "Last 24 h 2 of 4 hosts incomplete");
    await see(page, "2 of 4 hosts have incomplete hours.");
    const rows = page.getByRole("table").getByRole("row");
    // The head, all hosts together, and the two.
    expect(await rows.count()).toBe(4);
    // The one that lost records, though the other has more incomplete hours.
    await see(rows.nth(2), /310 records dropped at the host/);
    expect(await rows.nth(3).getByRole("link", { name: "shop-4" }).count()).toBe(1);
    await see(page, "The other 2 hosts have no incomplete hours.");
    await page.getByRole("link", { name: "Short", exact: true }).click();
    await expectCount(rows, 3);
    await rows.nth(2).getByRole("link", { name: "shop-3" }).click();
    await waitForHeading(page, "Completeness, last 7 days");
    expect(messages).toEqual([]);
  });

  it("is a column of the fleet on wide screens, by which it sorts", async () => {
    const { page, messages } = await visit("/fleet", { width: 2100 });
    const heading = page.getByRole("columnheader", { name: /^Completeness/ });
    for (const direction of ["ascending", "descending"]) {
      await heading.getByRole("link").click();
      await expect.poll(() => heading.getAttribute("aria-sort")).toBe(direction);
    }
    const cells = page.locator("td.column-completeness");
    await expect
      .poll(() => cells.allTextContents())
      .toEqual([
        expect.stringMatching(/^1\d hours incomplete$/),
        "2 hours incomplete",
        "complete",
        "complete",
      ]);
    expect(messages).toEqual([]);
  });

  it("is a picture of hours, each with its next step, its figure and a link", async () => {
    const { page, messages, layoutShift } = await visit("/data/completeness");
    const rows = page.getByRole("table").getByRole("row");
    await see(rows.nth(3), /^1\d hours from /);
    expect(await layoutShift()).toBe(0);
    await see(rows.nth(3), "It sends no heartbeats. Start its collector");
    await rows.nth(3).getByText("If its disk is lost, close queue").click();
    await see(rows.nth(3), `svc-admin queues close ${gone.identityId} ${queueOf(gone)}`);
    await see(rows.nth(2), "Enlarge its queue");
    expect(await page.getByText(/account/i).count()).toBe(0);
    await see(page, /^svc-admin completeness statement \S+Z > hour.txt$/);
    await page.getByText("Figures of each hour").click();
    await page.getByRole("link", { name: `${shortText} UTC`, exact: true }).click();
    await see(page, "2 of 4 hosts have incomplete hours.");
    expect(messages).toEqual([]);
  });

  it("says before the first hour what core has, and when that hour settles", async () => {
    const { page } = await visit("/");
    const settlesAt = new Date(thisHour + 1.25 * hourMs).toISOString();
    await page.route(/completeness\?limit/, async (route) => {
      const response = await route.fetch();
      const body: FleetCompleteness = await response.json();
      const empty = { hours: [], items: [], settled_until: null, settles_at: settlesAt, hosts: 0 };
      const { etag, ...headers } = response.headers();
      await route.fulfill({ response, headers, json: { ...body, ...empty } });
    });
    await page.goto("/data/completeness");
    const at = settlesAt.slice(11, 16);
    await see(page, `No hour has settled yet. The first settles at ${at} UTC.`);
    await see(page, "7 envelopes");
    const facts = page.locator(".completeness dl dd");
    await expect
      .poll(() => facts.allTextContents())
      .toEqual(["7 envelopes of 1 host, 1.9 KiB", "3 of 4", "1"]);
    expect(await page.getByText(/account/i).count()).toBe(0);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.getByRole("link", { name: "3", exact: true }).click();
    await see(page, "1 to 3 of 3");
  });

  it("has no axe violation and no sideways scroll", async () => {
    for (const [path, ready] of [
      ["/data/completeness", "have incomplete hours"],
      [
        `/hosts/${shop.identityId}?hour=${new Date(short).toISOString()}`,
        "310 records dropped at the host.",
      ],
    ] as const)
      expect(await flawsAt(path, ready)).toEqual([]);
  });
});
