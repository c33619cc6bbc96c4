import { sql } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import type { ConfigDetail } from "#proto/fleet-health/config-report.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { seedConfigs, seededConfigId } from "#tests/support/seed-configs.ts";
import { seedEnrollment, seededPolicyId } from "#tests/support/seed-enrollment.ts";
import { unwieldyName } from "#tests/support/ui-states.ts";
import {
  addressOf,
  expectAddress,
  expectCount,
  follow,
  see,
  startWebInBrowser,
  waitForHeading,
  waitForPage,
} from "../support/web-in-browser.ts";

const { web, visit: open, flawsAt } = await startWebInBrowser();
beforeAll(async () => {
  const now = new Date(web.clock.now());
  await web.core.seedFleet(320);
  await seedConfigs(web.core.db, { count: 12, now });
  await seedEnrollment(web.core.db, now);
});

const newest = seededConfigId(11);
const visit = (path: string) => open(path, { now: web.clock.now() });
const get = async <Body>(path: string) => await web.core.auditor.read<Body>(path);
/** How many hosts core lists at an address of the fleet page. */
const hostsAt = async (href: string) => {
  const { search } = new URL(href, web.origin);
  return (await get<FleetHealthReport>(`/v1/collector/health${search}&limit=1000`)).items.length;
};

describe("the pages of configs in a browser", () => {
  it("answer whether all hosts run a config and which are left, in two clicks from the fleet", async () => {
    const { page, messages, layoutShift } = await visit("/changes/configs");
    await waitForHeading(page, "Running, never published");
    expect(await layoutShift()).toBeLessThan(0.01);
    const { hosts } = await get<ConfigDetail>(`/v1/collector/configs/${newest}`);
    await page.getByRole("link", { name: "databases r11", exact: true }).click();
    await waitForPage(page, "databases r11");
    const left = hosts.desired - hosts.running - hosts.silent_running;
    const sentence = page.getByRole("link", {
      name: `${left} of ${hosts.desired} hosts left: not finished.`,
    });
    await sentence.waitFor();
    expect(await hostsAt((await sentence.getAttribute("href")) ?? "")).toBe(left);
    await sentence.click();
    await see(page, `1 to ${left} of ${left}`);
    expect(messages).toEqual([]);
  });

  it("link every figure to exactly its rows", async () => {
    for (const path of ["/changes/configs", `/changes/configs/${newest}`]) {
      const { page } = await visit(path);
      await page.locator("a[href^='/fleet?']").first().waitFor();
      // The parts of the page arrive one after the other.
      await page.waitForLoadState("networkidle");
      const figures = await page.locator(".page a[href^='/fleet?']").evaluateAll((links) =>
        links.map((link) => ({
          href: link.getAttribute("href") ?? "",
          figure: Number(/^[\d,]+/.exec(link.textContent ?? "")?.[0].replaceAll(",", "")),
        })),
      );
      expect(figures.length).toBeGreaterThan(5);
      for (const { href, figure } of figures)
        expect({ href, figure: await hostsAt(href) }).toEqual({ href, figure });
    }
  });

  it("show the text with line numbers and copy it, and its changes from another config, by keyboard alone", async () => {
    const { page, messages } = await visit(`/changes/configs/${newest}`);
    const { yaml } = await get<ConfigDetail>(`/v1/collector/configs/${newest}`);
    const lines = page.locator(".code-lines li");
    await expectCount(lines, yaml.trimEnd().split("\n").length);
    expect(await lines.nth(0).textContent()).toBe(yaml.split("\n")[0]);
    await page.getByRole("button", { name: "Compare with another config" }).focus();
    await page.keyboard.press("Enter");
    const choice = page.getByLabel("Compare with");
    await choice.selectOption(seededConfigId(10));
    await page.getByRole("button", { name: "Compare", exact: true }).focus();
    await page.keyboard.press("Enter");
    await waitForHeading(page, "Changes from web servers r10");
    const changed = async (kind: string) =>
      (await page.locator(`[data-kind=${kind}]`).allTextContents()).join("\n");
    expect(await changed("added")).toContain("# databases, revision 11");
    expect(await changed("removed")).toContain("# web servers, revision 10");
    expect(addressOf(page)).toBe(`/changes/configs/${newest}?compare=${seededConfigId(10)}`);
    await page.goBack();
    await lines.first().waitFor();
    expect(messages).toEqual([]);
  });

  it("filter the assigned hosts by the address, search the configs, and say what an unknown one is", async () => {
    const { page } = await visit(`/changes/configs/${newest}`);
    const history = page.getByRole("table", { name: /^Assignments/ });
    const link = history.getByRole("link").first();
    const assigned = Number(await link.textContent());
    await link.click();
    await see(page, "Assigned in the minute of");
    await expectCount(
      page.getByRole("table", { name: "Assigned hosts, newest first" }).getByRole("row"),
      assigned + 1,
    );
    await page.goto("/changes/configs");
    await page.getByLabel("Name, or the beginning of a hash").fill("r1");
    await page.keyboard.press("Enter");
    await expectAddress(page, "/changes/configs?q=r1");
    await see(page, "3 configs, all of them");
    expect(await page.getByRole("link", { name: "CSV" }).getAttribute("href")).toBe(
      "/api/core/collector/configs/export.csv?q=r1",
    );
    await page.goto("/changes/configs?colour=red");
    await waitForHeading(page, "The configs could not be loaded");
    await page.goto("/changes/configs/01920000-0000-7000-8000-0000000000ff");
    await waitForHeading(page, "No such config");
  });
});

it("the page of enrollment in a browser shows tokens and policies by state, refusals of the last day, and no value of a token", async () => {
  const { page, messages, layoutShift } = await visit("/access/enrollment");
  await waitForHeading(page, "Refused in the last day");
  // Without the rule for parts that load it is 0.3.
  expect(await layoutShift()).toBeLessThan(0.1);
  for (const [name, rows] of [
    ["active", 2],
    ["used up", 1],
    ["policy frozen", 1],
    ["expired", 1],
    ["revoked", 2],
  ] as const) {
    const chip = page
      .getByRole("navigation", { name: "Tokens by state" })
      .getByRole("link", { name });
    const figure = Number(/\d+$/.exec((await chip.textContent()) ?? "")?.[0]);
    await chip.click();
    const table = page.getByRole("table", { name: "Bootstrap tokens, newest first" });
    await expectCount(table.getByRole("row"), figure + 1);
    expect([name, figure]).toEqual([name, name === "revoked" ? 1 : name === "expired" ? 2 : rows]);
  }
  const policies = page.getByRole("table", { name: "Enrollment policies, newest first" });
  expect(await policies.getByRole("link", { name: "team: web" }).getAttribute("href")).toBe(
    "/fleet?label=team%3Aweb",
  );
  await follow(page, "1 policy frozen");
  await expectAddress(
    page,
    `/access/enrollment?policy_id=${seededPolicyId(1)}&state=policy_frozen`,
  );
  const refusals = page.getByRole("table", { name: "Refusals by reason" });
  await see(refusals, "token unknown");
  expect((await refusals.textContent()) ?? "").toContain("240");
  expect(await page.content()).not.toMatch(/svcbt_[0-9A-Za-z]{20}/);
  expect(messages).toEqual([]);
  await page.goto("/access/enrollment?stat=active");
  await see(page, "The tokens could not be loaded");
  await see(page, "The policies could not be loaded");
});

it("a figure of the page of enrollment finds as many events as it counts", async () => {
  const { page } = await visit("/access/enrollment");
  for (const name of ["20 of 500", "40, no limit", "3 of 20"]) {
    await page.getByRole("link", { name, exact: true }).click();
    await see(page, `${/^\d+/.exec(name)?.[0]} events, all of them`);
    // Nothing links events here: said once, and not for each row.
    await expectCount(page.getByText("not linked into the hash chain"), 1);
    await page.goBack();
  }
});

it.each([
  ["/changes/configs", "Running, never published"],
  [`/changes/configs/${newest}`, "databases r11"],
  [`/changes/configs/${newest}?compare=${seededConfigId(10)}`, "lines added"],
  ["/access/enrollment", "token unknown"],
])(
  "the pages of configs and enrollment have no axe violation and no sideways scroll: %s",
  async (path, ready) => {
    const { db } = web.core;
    await db.execute(
      sql`update collector_config set name = ${unwieldyName} where id = ${seededConfigId(10)}`,
    );
    await db.execute(
      sql`update enrollment_policy set name = ${unwieldyName} where id = ${seededPolicyId(1)}`,
    );
    expect(await flawsAt(path, ready)).toEqual([]);
  },
);
