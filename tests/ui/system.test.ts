import { describe, expect, it } from "vitest";
import { createCoreReporter } from "#functions/ops/report-core.ts";
import { insertCaBundle } from "#functions/store/system/ca-bundles.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestToken } from "../support/collector.ts";
import { press, see, startWebInBrowser } from "../support/web-in-browser.ts";

const { web, visit, flawsAt } = await startWebInBrowser({ clock: systemClock });
/** Whether the disk of core-2's database is full. */
let isFull = true;

/** In 20 days: neither the calendar nor the part of a core warns yet. */
const soon = new Date(Date.now() + 20 * 86_400_000).toISOString();

const reportAs = (machine: string, isWell: () => boolean) =>
  createCoreReporter(
    { ...web.core.core, clock: systemClock },
    {
      machine,
      version: "1.2.3",
      clockAheadMs: () => 40,
      streams: () => 312,
      isStopping: () => false,
      checks: {
        core: [{ name: "database", find: () => ({ status: "ready", detail: "PostgreSQL 18" }) }],
        ingest: [
          {
            name: "committer",
            find: () =>
              isWell()
                ? { status: "ready", detail: "commits" }
                : {
                    status: "not_ready",
                    detail: "the last commit failed: no space left on device",
                  },
          },
        ],
      },
      credentials: () => [
        {
          name: "ingest_server",
          endsAt: soon,
          parts: [{ subject: "CN=ingest.example", endsAt: soon }],
          changedAt: null,
        },
      ],
    },
  ).report;

await reportAs("core-1", () => true)();

describe("the page of the system", () => {
  it("says first what needs attention, since when, and that it is well again", async () => {
    const report = reportAs("core-2", () => !isFull);
    await report();
    const { page, messages, layoutShift } = await visit("/system");
    await see(page, /^1 of \d+ components needs attention$/);
    const first = page
      .getByRole("table", { name: /^Components/ })
      .getByRole("row")
      .nth(1);
    await first.getByText("Ingest", { exact: true }).waitFor();
    await first.getByText("not ready", { exact: true }).first().waitFor();
    await first
      .getByText(/^Commits: the last commit failed: no space left on device/)
      .first()
      .waitFor();
    await first.getByText(/^What to do: Check PostgreSQL's disk/).waitFor();
    expect(await layoutShift()).toBeLessThan(0.01);
    await first.getByText("2 checks").click();
    await first.getByText(/^core-1 since/).waitFor();
    expect(await page.getByRole("table", { name: "Cores" }).getByRole("row").count()).toBe(3);
    const database = page.getByRole("row").filter({ hasText: "Database" });
    await database.getByText("2 checks").click();
    isFull = false;
    await report();
    await press(page, "Refresh");
    await see(page, /^All \d+ components are ready$/);
    await see(database, /Retention: /);
    expect(messages).toEqual([]);
  });

  it("says what ends next, what changes it, and what has no end", async () => {
    const { page, messages } = await visit("/system");
    const first = page
      .getByRole("table", { name: /^Expiry dates/ })
      .getByRole("row")
      .nth(1);
    await first.getByText("CN=ingest.example").waitFor();
    await first.getByText("in 19 d 23 h", { exact: true }).or(first.getByText("in 19 d")).waitFor();
    await first.getByText("docs/rotate.md#server-certificate-of-ingest").waitFor();
    await page.getByText("without a known expiry").click();
    const rows = page.getByRole("table", { name: /^Credentials without/ }).getByRole("row");
    await rows.filter({ hasText: "bridge tokens" }).getByText("no end").waitFor();
    expect(messages).toEqual([]);
  });

  it("says which hosts lack the newest roots, and what they need", async () => {
    const { enroll } = await createTestToken(web.core);
    await enroll("without-roots");
    const pem = (await createTestCa({ name: "New root" })).pem;
    const bundle = { number: 2, pem, sha256: "ab".repeat(32), publishedAt: new Date() };
    await insertCaBundle(web.core.db, { ...bundle, channel: "ingest" });
    const { page, messages } = await visit("/system");
    const part = page.getByRole("region", { name: "Roots that hosts trust" });
    await see(part, "1 of 1 hosts lack bundle 2: servers must not use its new roots yet.");
    await see(part, /^CN=New root, until/);
    await see(part, "Hosts: 1 that do not report it.");
    const row = part.getByRole("row").filter({ hasText: "without-roots" });
    await row.getByText("never", { exact: true }).waitFor();
    await see(part, "svc-collector enroll --reenroll --ca-bundle FILE");
    await see(part, "No bundle is published: SVC_MANAGEMENT_CA_BUNDLE_FILE is not set.");
    expect(messages).toEqual([]);
  });

  it("has no axe violation and no sideways scroll", async () => {
    expect(await flawsAt("/system", /are ready|needs? attention/)).toEqual([]);
  });
});

it("asks for a list again without its rows while nothing has changed", async () => {
  await seedFleet(web.core.db, { count: 200, now: new Date() });
  const { page, messages } = await visit("/fleet?state=revoked");
  await page.getByText("host-53", { exact: true }).waitFor();
  const refresh = async () => {
    const answer = page.waitForResponse((each) =>
      each.url().includes("/api/core/collector/health?"),
    );
    await page.keyboard.press("r");
    return (await answer).status();
  };
  // The summary changes when a seeded host becomes stale.
  await expect.poll(refresh).toBe(304);
  expect([await page.getByText("host-53", { exact: true }).count(), messages]).toEqual([1, []]);
});
