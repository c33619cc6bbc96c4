import { readFile } from "node:fs/promises";
import { isNull, sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { hostDiag } from "#drizzle/schema/diag.ts";
import { chainAuditEvents, verifyChain } from "#functions/domain/audit/chain.ts";
import { systemClock } from "#kit/clock.ts";
import { flawsOf, unwieldyName } from "#tests/support/ui-states.ts";
import { createTestToken, manage, type TestCollector } from "../support/collector.ts";
import { readCsv } from "../support/csv.ts";
import {
  expectAddress,
  expectCount,
  follow,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
  waitForPage,
} from "../support/web-in-browser.ts";

const yaml =
  "forwarder: {endpoint: 'core:8443', mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}\nbuffer: {dir: data}\n";

const { web, visit } = await startWebInBrowser({ clock: systemClock });
let revoked: TestCollector;
let odd: TestCollector;
beforeAll(async () => {
  const { core } = web;
  const { enroll } = await createTestToken(core, { name: "edge hosts" });
  revoked = await enroll("edge-1");
  odd = await enroll("db%1");
  const config = await core.admin.post("/v1/collector/configs", { name: "edge", yaml });
  await core.admin.put(`/v1/collector/identities/${revoked.identityId}/desired-config`, {
    config_id: config.body.id,
  });
  await core.admin.post(`/v1/collector/identities/${revoked.identityId}/revoke`, {
    reason_code: "laptop_lost",
  });
  await chainAuditEvents(core.core);
  await verifyChain({ ...core.core, clock: systemClock });
});

describe("the audit page", () => {
  it("shows sentences with names and links, reasons, and the verified part of the chain", async () => {
    const { page, messages } = await visit("/changes/audit");
    const row = page.getByRole("row").filter({ hasText: "revoked the host" });
    await see(row, "laptop_lost");
    expect(await row.getByRole("link", { name: web.core.people.admin.email }).count()).toBe(1);
    expect(await row.getByRole("link", { name: "edge-1" }).getAttribute("href")).toBe(
      `/hosts/${revoked.identityId}`,
    );
    const [{ head = 0 } = {}] = await web.core.db.execute<{ head: number }>(
      sql`select max(seq)::int as head from audit_chain`,
    );
    await see(page, `Hash chain verified up to event ${head} of ${head}`);
    await page
      .getByRole("row")
      .filter({ hasText: "assigned the config" })
      .getByRole("link", { name: /^[0-9a-f]{6} edge$/ })
      .waitFor();
    expect(await page.getByRole("table").textContent()).not.toMatch(
      /(host|config|policy|certificate) [0-9a-f]{8}-/,
    );
    expect(messages).toEqual([]);
  });

  it("opens with what people changed in the last 7 days, and has the rest a click away", async () => {
    const { page } = await visit("/changes/audit");
    const revocation = page.getByRole("row").filter({ hasText: "revoked the host" });
    await revocation.waitFor();
    const enrolled = page.getByRole("row").filter({ hasText: "enrolled with" });
    expect(await enrolled.count()).toBe(0);
    expect(await page.locator(".filters [aria-current]").allTextContents()).toEqual([
      "People’s changes",
      "7 d",
    ]);
    expect(await page.getByRole("combobox", { name: "Action" }).count()).toBe(0);
    await follow(page, "Machine events");
    await expectAddress(page, "/changes/audit?within_seconds=604800&by=machines");
    await enrolled.first().waitFor();
    await expectCount(revocation, 0);
    await follow(page, "Everything");
    await follow(page, "All time");
    await expectAddress(page, "/changes/audit?all=true");
    await enrolled.first().waitFor();
    await revocation.waitFor();
  });

  it("has a heading for each day, and one row for a burst of the same", async () => {
    const { page } = await visit("/changes/audit?by=machines");
    const burst = page.getByRole("row").filter({ hasText: "and 1 more of the same" });
    await see(burst, "and 1 other host");
    await waitForHeading(page, /^Today, \d{4}-\d\d-\d\d$/);
    await burst.getByText("and 1 more of the same").click();
    await see(burst, "edge-1");
    await see(burst, "db%1");
  });

  it("filters by time, action, actor, target and outcome, all in the address", async () => {
    const { page } = await visit("/changes/audit");
    await page.getByText("More filters").click();
    await follow(page, "Last hour");
    await page.getByRole("combobox", { name: "Action" }).selectOption({ label: "Revocations" });
    await page.getByRole("row").filter({ hasText: "revoked the host" }).waitFor();
    await expectCount(page.getByRole("row"), 3);
    await page.getByRole("combobox", { name: "Action" }).selectOption("config.publish");
    await expectAddress(page, "/changes/audit?within_seconds=3600&action=config.publish");
    await page.goto("/changes/audit?all=true");
    await page.getByText("More filters").click();
    await page.getByRole("searchbox", { name: "Target" }).fill("edge-1");
    await page.keyboard.press("Enter");
    await expectAddress(page, "/changes/audit?target=edge-1");
    await see(page, "3 events, all of them");
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("failure");
    await waitForHeading(page, "No event matches");
    await page.evaluate(() => history.back());
    await see(page, "3 events, all of them");
    await follow(page, "Clear all filters");
    await expectAddress(page, "/changes/audit");
  });

  it("leaves actions and an actor out, and shows them again", async () => {
    const { page } = await visit("/changes/audit?all=true");
    await page.getByText("More filters").click();
    const revocation = page.getByRole("row").filter({ hasText: "revoked the host" });
    await revocation.waitFor();
    await page.getByRole("combobox", { name: "Leave out" }).selectOption("identity.revoke");
    await expectAddress(page, "/changes/audit?not_action=identity.revoke");
    await expectCount(revocation, 0);
    expect(await page.getByRole("row").count()).toBeGreaterThan(1);
    await follow(page, "Show again: identity.revoke");
    await expectAddress(page, "/changes/audit?all=true");
    await revocation.waitFor();
    const { email } = web.core.people.admin;
    await page.getByRole("searchbox", { name: "Not by" }).fill(email);
    await page.keyboard.press("Enter");
    await expectAddress(page, `/changes/audit?not_actor=${encodeURIComponent(email)}`);
    await expectCount(page.getByRole("row").filter({ hasText: email }), 0);
  });

  it("refuses a mangled link and names the parameter, and shows no events then", async () => {
    const { page } = await visit("/changes/audit?sate=stale");
    await waitForHeading(page, "The events could not be loaded");
    await see(page, "sate");
    expect(await page.getByRole("table").count()).toBe(0);
  });

  it("exports the rows of its filter", async () => {
    const { page } = await visit("/changes/audit?target=edge-1");
    const [download] = await Promise.all([page.waitForEvent("download"), follow(page, "CSV")]);
    const chunks: Uint8Array[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    const rows = readCsv(Buffer.concat(chunks).toString());
    expect(rows.map(({ action }) => action)).toEqual([
      "identity.revoke",
      "config.assign",
      "collector.enroll",
    ]);
  });

  it("reports a fault of the chain", async () => {
    const { page } = await visit("/");
    await page.route("**/api/core/audit-events/chain", (route) =>
      route.fulfill({
        json: {
          head: { seq: 9, hash: "00" },
          pending: 0,
          verified: {
            seq: 4,
            hash: "00",
            checked_at: "2026-11-20T00:00:00.000Z",
            checked_since: "2026-11-20T00:00:00.000Z",
          },
          fault: { kind: "event_edited", seq: 5 },
        },
      }),
    );
    await page.goto("/changes/audit");
    await page
      .getByRole("alert")
      .getByText("The hash chain has a fault: event 5 was edited")
      .waitFor();
    expect(await page.getByText("verified up to").count()).toBe(0);
  });
});

describe("the page of a host", () => {
  it("shows who revoked it and why, its certificates and its configs", async () => {
    const { page, messages } = await visit(`/hosts/${revoked.identityId}`);
    await waitForPage(page, "edge-1");
    const timeline = page.getByRole("region", { name: "Timeline" });
    const entry = timeline.getByRole("listitem").filter({ hasText: "revoked the host" });
    await see(entry, "laptop_lost");
    expect(await entry.textContent()).toContain(web.core.people.admin.email);
    const certificates = page.getByRole("table", { name: "Certificates" });
    await certificates.getByRole("cell", { name: /^revoked since/ }).waitFor();
    const configs = page.getByRole("region", { name: "Config history" });
    await configs.getByText("assigned the config").waitFor();
    await configs.getByText("The host has not reported its config.").waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const why = await page.getByRole("heading", { name: "Why" }).boundingBox();
    expect(why?.y).toBeLessThan(500);
    expect(messages).toEqual([]);
  });

  it("pauses all of its parts", async () => {
    const { page } = await visit("/login");
    await page.clock.install();
    await page.goto(`/hosts/${odd.identityId}`);
    await page.getByRole("table", { name: "Certificates" }).waitFor();
    await page.waitForLoadState("networkidle");
    await press(page, "Pause updates");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.clock.fastForward("05:00");
    await see(page, "Paused. This page shows old data.");
    const path = `/api/core/collector/health/${odd.identityId}`;
    const answer = page.waitForResponse((response) => response.url().endsWith(path));
    await press(page, "Refresh");
    await answer;
    expect(asked.filter((each) => each.startsWith("/api/core/"))).toEqual([path]);
  });

  it("fetches diagnostics for an admin: waits for the host, then links to the file, or says why there is none", async () => {
    const { core } = web;
    const { page, messages } = await visit(`/hosts/${odd.identityId}`, { as: "admin" });
    const section = page.getByRole("region", { name: "Diagnostics" });
    const fetchDiagnostics = section.getByRole("button", { name: "Fetch diagnostics" });
    const answer = async (over: object) => {
      await fetchDiagnostics.click();
      await see(section, "Waiting for the host, until");
      const [open] = await core.db.select().from(hostDiag).where(isNull(hostDiag.answeredAt));
      const sent_at = new Date().toISOString();
      return manage(core, odd, "diag", { sent_at, request_id: open?.id, ...over });
    };
    expect(await answer({ bundle: '{"version":"1.0.0"}' })).toMatchObject({ status: 200 });
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      follow(section, "Download the diagnostics"),
    ]);
    expect(download.suggestedFilename()).toMatch(/^diag-db-1_.*\.json$/);
    expect(await readFile(await download.path(), "utf8")).toBe('{"version":"1.0.0"}');
    expect(await answer({ refusal: "forbidden" })).toMatchObject({ status: 200 });
    await see(section, "management.remote_diag is false");
    expect(messages).toEqual([]);
    const auditor = await visit(`/hosts/${odd.identityId}`);
    await auditor.page.getByRole("heading", { level: 3, name: "Certificates" }).waitFor();
    expect(await auditor.page.getByRole("region", { name: "Diagnostics" }).count()).toBe(0);
  });

  it("is found by its identity, pasted or escaped, and by its device id", async () => {
    const { page } = await visit("/login");
    for (const name of [
      revoked.identity,
      encodeURIComponent(revoked.identity),
      encodeURIComponent(odd.identity),
      "edge-1",
      "db%251",
    ]) {
      await page.goto(`/hosts/${name}`);
      const host = name.includes("db") ? odd : revoked;
      await expectAddress(page, `/hosts/${host.identityId}`);
    }
    await page.goto("/hosts/nobody");
    await waitForHeading(page, "No such host");
  });

  it("answers in two clicks from the fleet", async () => {
    const { page } = await visit("/fleet?state=revoked");
    await follow(page, "edge-1");
    await follow(page, "Everything about this host");
    const entry = page.getByRole("listitem").filter({ hasText: "revoked the host" });
    await see(entry, "laptop_lost");
  });
});

/** Visible elements that reach over the right edge of the page. A narrow table hides its head by clipping it. */
const tooWide = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("main *")]
      .filter(
        (element) =>
          element.getBoundingClientRect().right > innerWidth + 0.5 && !element.closest("thead"),
      )
      .map(({ outerHTML }) => outerHTML.slice(0, 80))
      .slice(0, 3),
  );

it.each([
  ["/changes/audit", () => "", "revoked the host"],
  ["/hosts/", () => revoked.identityId, "laptop_lost"],
])(
  "has no axe violation, no sideways scroll and no clipped element: %s",
  async (path, id, ready) => {
    await web.core.db.execute(sql`update collector_identity set device_id = ${unwieldyName},
      reported_labels = ${JSON.stringify({ env: unwieldyName })}::jsonb where id = ${revoked.identityId}`);
    const { page, messages } = await visit(path + id());
    await see(page, ready);
    await page.waitForLoadState("networkidle");
    expect(await flawsOf(page, { check: tooWide })).toEqual([]);
    expect(messages).toEqual([]);
  },
);
