import { readFile } from "node:fs/promises";
import { eq, type SQL, sql } from "drizzle-orm";
import type { BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { authenticationIdentity, person } from "../../drizzle/schema/operator.ts";
import type { ExportKind } from "../../proto/fleet-health/vocabulary.ts";
import { type PersonName, people } from "../../scripts/lab/people.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { visitPage } from "../../scripts/lab/visit-page.ts";
import { readCsv } from "../support/csv.ts";
import { startWebInBrowser } from "../support/web-in-browser.ts";

const { web, browser } = await startWebInBrowser({
  core: { env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } },
});
let now: Date;
beforeAll(async () => {
  now = new Date(web.clock.now());
  await seedFleet(web.core.db, { count: 320, now });
});

/** Opens a page without a session. */
const openPage = async (options: BrowserContextOptions = {}): Promise<Page> => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(60_000);
  return context.newPage();
};
const addressOf = (page: Page): string => page.url().slice(web.origin.length);
const heading = (page: Page, name: string | RegExp) =>
  page.getByRole("heading", { name }).waitFor();
const setStatus = (name: PersonName, status: typeof person.$inferInsert.status) =>
  web.core.db.update(person).set({ status }).where(eq(person.userId, people[name].userId));
/** Signs in through the pages of web and of the provider. */
const signIn = async (page: Page, name: PersonName) => {
  await page.getByRole("link", { name: "Sign in with Example ID" }).click();
  await page.getByRole("button", { name: people[name].email }).click();
};
const query = async <Row extends Record<string, unknown>>(statement: SQL): Promise<Row[]> =>
  (await web.core.db.execute(statement)) as unknown as Row[];
/** The tables that core writes, not the one that it reads the report from. */
const ofHosts = sql`from collector_identity i left join collector_health h on h.identity_id = i.id
  left join ingest_host e on e.host_id = i.identity
  left join config_assignment a on a.identity_id = i.id left join collector_config k on k.id = a.config_id`;

describe("signing in, in a browser", () => {
  it.each(["admin", "auditor", "reader"] as const)(
    "returns %s to the page, and shows what the scopes allow",
    async (name) => {
      const page = await openPage();
      await page.goto(`${web.origin}/fleet?state=stale`);
      await expect.poll(() => addressOf(page)).toBe("/login?return_to=%2Ffleet%3Fstate%3Dstale");
      await signIn(page, name);
      const { scopes, email } = people[name];
      await heading(page, scopes.includes("audit") ? "Fleet" : "This page needs the scope audit");
      await expect.poll(() => addressOf(page)).toBe("/fleet?state=stale");
      await page.getByRole("link", { name: "Home" }).click();
      await page.getByText(`Signed in as ${email}`).waitFor();
      const held = page.locator(".scope-rows [data-held] code");
      await expect.poll(() => held.allTextContents()).toEqual(scopes);
      const strip = page.getByRole("list", { name: "Fleet" });
      if (scopes.includes("audit")) await strip.waitFor();
      else expect(await strip.count()).toBe(0);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("button", { name: "Sign out of this provider too" }).click();
      await heading(page, "You are signed out");
      await page.getByText("was asked to sign you out there too").waitFor();
      await page.goto(`${web.origin}/fleet`);
      await heading(page, "Collector fleet");
      await page.context().close();
    },
  );

  it("rejects people who are not active in the directory in plain words, without JavaScript too", async () => {
    const page = await openPage({ javaScriptEnabled: false });
    const attempt = async (title: string) => {
      // The provider remembers a chosen account.
      await page.context().clearCookies();
      await page.goto(`${web.origin}/fleet`);
      await signIn(page, "reader");
      await heading(page, title);
      expect(await page.getByRole("alert").textContent()).toMatch(/Reference [0-9a-f-]{36}/);
      expect(new URL(page.url()).searchParams.get("return_to")).toBe("/fleet");
    };
    for (const [status, title] of [
      ["suspended", "Your account is suspended"],
      ["archived", "Your account is archived"],
      ["unverified", "Your email address is not verified"],
    ] as const) {
      await setStatus("reader", status);
      await attempt(title);
    }
    await setStatus("reader", "active");
    const mine = eq(authenticationIdentity.subject, people.reader.subject);
    const move = (tenantId: string) =>
      web.core.db.update(authenticationIdentity).set({ tenantId }).where(mine);
    await move("01920000-0000-7000-8000-0000000000ff");
    await attempt("You are not in the directory");
    await move(web.core.config.tenantId);
    await page.getByRole("link", { name: "Sign in with Example ID" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    await heading(page, "You did not sign in");
    await page.context().close();
  });
});

describe("the fleet page with a large fleet", () => {
  /** Opens `/fleet` as an auditor, and waits for the table. */
  const visitFleet = async (search = "") => {
    const visit = await visitPage({ browser, web }, "auditor", `/fleet${search}`);
    await visit.page
      .getByText(/^1 to \d/)
      .first()
      .waitFor();
    return visit;
  };
  const devices = (page: Page) => page.locator(".row-link").allTextContents();

  it("sorts by a column in both orders, and pages in that order", async () => {
    const { page } = await visitFleet();
    const order = async (direction: SQL) =>
      (
        await query<{ device_id: string }>(
          sql`select i.device_id ${ofHosts} order by coalesce(h.queue_bytes, -1) ${direction}, i.id ${direction}`,
        )
      ).map(({ device_id }) => device_id);
    const header = page.getByRole("columnheader", { name: "Queue" });
    for (const [direction, name] of [
      [sql`asc`, "ascending"],
      [sql`desc`, "descending"],
    ] as const) {
      await header.getByRole("link").click();
      await page.locator(`th[aria-sort=${name}].column-queue`).waitFor();
      await page.locator('table[aria-busy="false"]').waitFor();
      await expect.poll(() => devices(page)).toEqual((await order(direction)).slice(0, 200));
    }
    await page.getByRole("link", { name: "Next" }).first().click();
    await page.getByText("201 to 320 of 320").first().waitFor();
    await expect.poll(() => devices(page)).toEqual((await order(sql`desc`)).slice(200));
    await page.context().close();
  });

  it("shows drift in words, and equal hashes alike", async () => {
    const { page } = await visitFleet();
    for (const [drift, words] of [
      ["in_sync", "in sync"],
      ["drifted", "drifted"],
      ["on_last_known_good", "on last known good"],
      ["no_desired", "no desired"],
      ["unknown", "unknown"],
    ]) {
      await page.goto(`${web.origin}/fleet?drift=${drift}`);
      const row = page.locator("tr[data-id]").first();
      const cell = row.locator(".column-config");
      expect(await cell.locator("[data-tone]").first().textContent()).toBe(words);
      const [config] = await query<Record<"desired" | "running" | "good", string | null>>(sql`
        select coalesce(k.config_hash, h.desired_config_hash) as desired, h.running_config_hash as running,
          h.last_known_good_config_hash as good
        ${ofHosts} where i.id = ${await row.getAttribute("data-id")}::uuid`);
      const hashes = [config?.desired ?? null, config?.running ?? null, config?.good ?? null];
      const chips = cell.locator(".hash");
      await expect
        .poll(() => chips.allTextContents())
        .toEqual(hashes.map((hash) => hash?.slice(0, 6) ?? "none"));
      const groups = await chips.evaluateAll((all) =>
        all.map((chip) => chip.getAttribute("data-group")),
      );
      for (const [first, hash] of hashes.entries())
        expect(groups.map((group) => group === groups[first])).toEqual(
          hashes.map((other) => other === hash),
        );
    }
    await page.context().close();
  });

  it("downloads four CSVs under its filter, of as many rows as their links say", async () => {
    const { page } = await visitFleet("?platform=linux/amd64");
    const names: Readonly<Record<ExportKind, string>> = {
      stale: "Stale hosts",
      queue_risk: "Queue risk",
      renewal_failures: "Renewal failures",
      config_drift: "Config drift",
    };
    for (const [kind, name] of Object.entries(names)) {
      await page.keyboard.press("e");
      const link = page.locator("#export-menu .exports-link", { hasText: name });
      await link.getByText(/\d+ rows?/).waitFor();
      const count = Number(/(\d+) rows?/.exec((await link.textContent()) ?? "")?.[1]);
      const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
      const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
      expect(download.suggestedFilename()).toBe(
        `fleet-${kind.replace("_", "-")}_platform-linux-amd64_${time}.csv`,
      );
      const rows = readCsv(await readFile(await download.path(), "utf8"));
      expect(count).toBeGreaterThan(0);
      expect(rows.map(({ platform }) => platform)).toEqual(Array(count).fill("linux/amd64"));
    }
    await page.context().close();
  });
});

describe("a page whose session ends", () => {
  const visitUntilEnd = async (end: () => Promise<unknown>) => {
    const address = "/fleet?state=stale&q=dc-3";
    const { page } = await visitPage({ browser, web }, "auditor", address);
    await page.locator(".row-link").first().waitFor();
    await end();
    await page.keyboard.press("r");
    await page.getByText("Your session has ended: what this page shows is old").waitFor();
    await page.locator('[data-shown="stale"] .row-link').first().waitFor();
    await expect.poll(() => addressOf(page)).toBe(address);
    return page;
  };

  it("A3: reports a suspension, keeps rows and address, and explains a rejected sign-in", async () => {
    const page = await visitUntilEnd(() => setStatus("auditor", "suspended"));
    await page.getByRole("link", { name: "Sign in again" }).click();
    await page.getByRole("button", { name: people.auditor.email }).click();
    await heading(page, "Your account is suspended");
    await setStatus("auditor", "active");
    await signIn(page, "auditor");
    await page.locator(".row-link").first().waitFor();
    await expect.poll(() => addressOf(page)).toBe("/fleet?state=stale&q=dc-3");
    await page.context().close();
  });

  it("reports an expired session, and keeps the address through the sign-in page", async () => {
    const page = await visitUntilEnd(() => web.clock.advance(1_800_000));
    await page.reload();
    await heading(page, "Your session has ended");
    await expect
      .poll(() => addressOf(page))
      .toBe(
        `/login?reason=session_expired&${new URLSearchParams({ return_to: "/fleet?state=stale&q=dc-3" })}`,
      );
    await page.context().close();
  });
});
