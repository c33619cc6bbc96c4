import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { Rollout, RolloutPreview, RolloutTargetPage } from "#proto/rollout/rollout.ts";
import { seededRolloutId, seededRollouts, seedRollouts } from "#scripts/lab/seed-rollouts.ts";
import { seedConfigs, seededConfigId } from "#tests/support/seed-configs.ts";
import { seedEnrollment } from "#tests/support/seed-enrollment.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { isSlow } from "../support/is-slow.ts";
import {
  expectCount,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

const { web, visit: open, flawsAt } = await startWebInBrowser();
beforeAll(async () => {
  const now = new Date(web.clock.now());
  await web.core.seedFleet(320);
  await seedConfigs(web.core.db, { count: 12, now });
  await seedRollouts(web.core.db, { now, entropy: createSeededEntropy(1) });
  await seedEnrollment(web.core.db, now);
});

const visit = (path: string, now = web.clock.now()) => open(path, { now });
const get = async <Body>(path: string) => await web.core.auditor.read<Body>(path);
/** How many targets core lists at an address of the page of a rollout. */
const targetsAt = async (href: string) => {
  const { pathname, search } = new URL(href, web.origin);
  const query = search === "" ? "?limit=1000" : `${search}&limit=1000`;
  return (
    await get<RolloutTargetPage>(`/v1/collector${pathname.replace("/changes", "")}/targets${query}`)
  ).items.length;
};
/** The figures of a page that link to the hosts of a rollout. */
const figuresOf = (page: Page) =>
  page.locator(".page a[href^='/changes/rollouts/'][href$='#targets']").evaluateAll((links) =>
    links.flatMap((link) => {
      const figure = /[\d,]+(?=$| hosts)/.exec(link.textContent ?? "")?.[0];
      return figure === undefined || /^Wave/.test(link.textContent ?? "")
        ? []
        : [{ href: link.getAttribute("href") ?? "", figure: Number(figure.replaceAll(",", "")) }];
    }),
  );

describe("the list of rollouts", () => {
  it("shows each one's state in words, wave, progress and who started it, and filters by state", async () => {
    const { page, messages } = await visit("/changes/rollouts");
    const table = page.getByRole("table", { name: "Rollouts, worst first" });
    await expectCount(table.getByRole("row"), seededRollouts.length + 1);
    const rows = await table.getByRole("row").allTextContents();
    // It waits for a decision.
    expect(rows[1]).toContain("Paused");
    expect(rows[1]).toContain("by the gate");
    expect(rows[2]).toContain("Running");
    expect(rows[2]).toContain("2 of 3");
    expect(rows[2]).toContain("platform:linux/amd64 -label.env:dev");
    expect(rows[2]).toContain(web.core.people.admin.email);
    for (const [name, count] of [
      ["Open", 3],
      ["Paused", 1],
      ["Rolled back", 1],
      ["Completed", 1],
      ["All", seededRollouts.length],
    ] as const) {
      await page
        .getByRole("navigation", { name: "Rollouts by state" })
        .getByRole("link", { name, exact: true })
        .click();
      await expectCount(table.getByRole("row"), count + 1);
    }
    expect(messages).toEqual([]);
  });

  it("says that there are none, that none matches, and what is wrong with a link", async () => {
    const { page, messages } = await visit("/login");
    const none = { items: [], next_cursor: null };
    await page.route("**/api/core/collector/rollouts**", (route) => route.fulfill({ json: none }));
    await page.goto("/changes/rollouts");
    await waitForHeading(page, "No config has been rolled out in waves");
    await page.goto("/changes/rollouts?state=paused");
    await waitForHeading(page, "No rollout matches");
    expect(messages).toEqual([]);
    await page.unrouteAll();
    await page.goto("/changes/rollouts?colour=red");
    await waitForHeading(page, "The rollouts could not be loaded");
    await page.goto("/changes/rollouts/01920000-0000-7000-8000-0000000000ff");
    await waitForHeading(page, "No such rollout");
    await page.goto("/changes/rollouts/not-an-id");
    await waitForHeading(page, /No such rollout|could not be loaded/);
  });
});

describe("the page of a rollout", () => {
  it("shows each figure as a link to exactly its hosts, in every state", async () => {
    const { page, messages } = await visit("/changes/rollouts");
    for (const { state } of seededRollouts) {
      await page.goto(`/changes/rollouts/${seededRolloutId(state)}`);
      const rollout = await get<Rollout>(`/v1/collector/rollouts/${seededRolloutId(state)}`);
      await page.getByRole("table", { name: "Hosts in the order of the waves" }).waitFor();
      const figures = await figuresOf(page);
      expect(figures.length).toBeGreaterThan(6);
      for (const { href, figure } of figures)
        expect({ state, href, figure: await targetsAt(href) }).toEqual({ state, href, figure });
      expect(await page.locator(".waves > li").count()).toBe(3);
      expect(await page.locator(".waves > [aria-current=step]").count()).toBe(
        rollout.ended_at === null ? 1 : 0,
      );
    }
    expect(messages).toEqual([]);
  });

  it("shows why the gate was breached, with each host's evidence as a link to the host", async () => {
    const { page, messages } = await visit(`/changes/rollouts/${seededRolloutId("paused")}`);
    const { breach } = await get<Rollout>(`/v1/collector/rollouts/${seededRolloutId("paused")}`);
    const evidence = page.getByRole("table", { name: "Hosts that failed" });
    await see(page, `In wave 2, ${breach?.failed} hosts failed`);
    expect(
      await evidence
        .getByRole("link")
        .evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
    ).toEqual(breach?.evidence.map(({ identity_id: id }) => `/hosts/${id}`));
    expect(await evidence.textContent()).toContain(breach?.evidence[0]?.detail);
    await evidence.getByRole("link").first().click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/hosts/${breach?.evidence[0]?.identity_id}`);
    expect(messages).toEqual([]);
  });

  it("lists the hosts of a wave and a status, page by page, and refuses a mangled link", async () => {
    const id = seededRolloutId("running");
    const { page } = await visit(`/changes/rollouts/${id}?wave=2&status=assigned#targets`);
    const table = page.getByRole("table", { name: "Hosts in the order of the waves" });
    const rollout = await get<Rollout>(`/v1/collector/rollouts/${id}`);
    await expectCount(table.getByRole("row"), (rollout.waves[1]?.assigned ?? 0) + 1);
    expect(await page.getByRole("link", { name: "CSV of the hosts" }).getAttribute("href")).toBe(
      `/api/core/collector/rollouts/${id}/targets/export.csv?wave=2&status=assigned`,
    );
    await page.goto(`/changes/rollouts/${id}?stat=failed`);
    await see(page, "The hosts could not be loaded");
    await see(page, "stat");
  });

  it("shows the timeline with names, and commands to copy in place of buttons that change something", async () => {
    const { page, messages } = await visit(`/changes/rollouts/${seededRolloutId("paused")}`);
    const timeline = page.locator(".timeline");
    await see(timeline, "began the rollout");
    expect(await timeline.textContent()).toContain("started wave 2 of the rollout");
    for (const verb of ["resume", "abort", "roll-back"])
      await see(page, `svc-admin rollouts ${verb} ${seededRolloutId("paused")}`);
    const buttons = await page.locator("main button").allTextContents();
    expect(buttons.filter((text) => !/Pause updates|Refresh|Copy/.test(text))).toEqual([]);
    await page.goto(`/changes/rollouts/${seededRolloutId("completed")}`);
    await see(page, "Completed at");
    expect(await page.getByText("svc-admin rollouts").count()).toBe(0);
    expect(messages).toEqual([]);
  });

  it("is linked by its config, by each of its hosts", async () => {
    const id = seededRolloutId("paused");
    const rollout = await get<Rollout>(`/v1/collector/rollouts/${id}`);
    const host = rollout.breach?.evidence[0]?.identity_id;
    for (const path of [`/changes/configs/${rollout.config.id}`, `/hosts/${host}`]) {
      const { page, messages } = await visit(path);
      const link = page
        .locator(".rollouts-of")
        .getByRole("link", { name: rollout.config.name ?? "" });
      expect(await link.getAttribute("href")).toBe(`/changes/rollouts/${id}`);
      const figures = await page.locator(".rollouts-of").getByRole("link").allTextContents();
      expect(figures).toContain(`${rollout.applied} hosts applied it`);
      expect(messages).toEqual([]);
    }
  });

  it("keeps its rows and says that they are old while core is unavailable, and says so from the start", async () => {
    const { page } = await visit(`/changes/rollouts/${seededRolloutId("running")}`);
    await page.getByRole("table", { name: "Hosts in the order of the waves" }).waitFor();
    const unavailable = {
      status: 503,
      contentType: "application/problem+json",
      json: {
        type: "urn:svc:problem:core_unavailable",
        title: "Core is unavailable",
        status: 503,
        action: "retry",
        detail: "Core cannot be reached",
        code: "core_unavailable",
        request_id: "down",
      },
    };
    await page.route("**/api/core/collector/**", (route) => route.fulfill(unavailable));
    await press(page, "Refresh");
    await see(page, "These rows are old");
    expect(await page.getByRole("table", { name: "Hosts in the order of the waves" }).count()).toBe(
      1,
    );
    await page.reload();
    await waitForHeading(page, "The rollout could not be loaded");
  });
});

describe("the preview on the page of a config", () => {
  it("shows what a rollout would change, from what, with each figure as core counts it", async () => {
    const id = seededConfigId(11);
    const filter = "platform:linux";
    const { page, messages } = await visit(`/changes/configs/${id}`);
    await page.getByRole("searchbox", { name: /^Hosts, as a query/ }).fill(filter);
    await press(page, "Preview");
    const preview = await get<RolloutPreview>(
      `/v1/collector/configs/${id}/preview?${new URLSearchParams({ filter })}`,
    );
    expect(preview.from.length).toBeGreaterThan(1);
    const panel = page.getByRole("region", { name: "What would a rollout change?" });
    await see(panel, `${preview.will_change} would change`);
    const hosts = panel.getByRole("link", { name: `${preview.hosts} hosts`, exact: true });
    const { search } = new URL((await hosts.getAttribute("href")) ?? "", web.origin);
    const fleet = await get<FleetHealthReport>(`/v1/collector/health${search}&limit=1000`);
    expect(fleet.items.length).toBe(preview.hosts);
    for (const { config } of preview.from.filter((each) => each.config !== null))
      expect(await panel.locator(`a[href="/changes/configs/${config?.id}"]`).count()).toBe(1);
    await panel.getByText("Changes from").first().click();
    await panel.locator("[data-kind=added]").first().waitFor();
    await see(panel, "A rollout would be refused");
    await see(panel, `svc-admin rollouts create ${id} '${filter}'`);
    expect(await panel.locator("a[href^='/changes/rollouts/']").count()).toBe(
      preview.in_other_rollouts.length,
    );
    expect(messages).toEqual([]);
  });

  it("says what is wrong with a query, and keeps the assigned hosts", async () => {
    const { page, messages } = await visit(
      `/changes/configs/${seededConfigId(11)}?preview=stat:stale`,
    );
    await page.locator("section:has(#preview) [role=alert]").waitFor();
    await page.getByRole("table", { name: "Assigned hosts, newest first" }).waitFor();
    expect(messages).toEqual([]);
  });
});

it.each([
  ["/changes/rollouts", "Rolled back"],
  [`/changes/configs/${seededConfigId(11)}?preview=platform:linux`, "would change"],
  // Few rows: axe looks at each of them.
  [`/changes/rollouts/${seededRolloutId("running")}?wave=2`, "started wave"],
  [`/changes/rollouts/${seededRolloutId("paused")}?status=failed`, "started wave"],
  [`/changes/rollouts/${seededRolloutId("rolled_back")}?status=reverted`, "started wave"],
])("has no axe violation and no sideways scroll: %s", async (path, ready) => {
  expect(await flawsAt(path, ready)).toEqual([]);
});

/** What a page says: its text, and the tooltips that date it. The age of the answer itself counts seconds. */
const wordsOf = async (page: Page, ready: string) => {
  await see(page, ready);
  return page.evaluate(() => [
    ...document.body.textContent.replace(/(Updated|Last checked) \d+ \w+ ago/, "").split("\n"),
    ...[...document.querySelectorAll("[title]")].map(
      (element) => element.getAttribute("title") ?? "",
    ),
  ]);
};

it("V4: pages whose browser has a wrong clock say the same as with a right one, since every age and state is by core's time", {
  timeout: 120_000,
}, async () => {
  const [host] = (await get<FleetHealthReport>("/v1/collector/health?limit=1&sort=severity")).items;
  const nineDaysMs = 9 * 86_400_000;
  const aheadMs = [0, isSlow ? -nineDaysMs : nineDaysMs];
  const pages = aheadMs.map(async (ms) => (await visit("/login", web.clock.now() + ms)).page);
  const [right, ...wrong] = await Promise.all(pages);
  if (right === undefined) throw new Error("no page");
  const shown: [path: string, ready: string][] = [
    ["/access/enrollment", "token unknown"],
    [`/hosts/${host?.identity_id}`, "Timeline"],
    [`/changes/rollouts/${seededRolloutId("paused")}`, "started wave 2"],
    ["/", "Last checked"],
  ];
  const silentSince = `${new Date(web.clock.now()).toISOString().slice(0, 19)}Z`;
  const more: typeof shown = [
    [`/fleet?q=host-22&silent_since=${silentSince}`, "1 to "],
    [`/fleet?q=host-22&id=${host?.identity_id}`, "Timeline"],
    ["/changes/rollouts", "Rolled back"],
    ["/changes/audit", "Hash chain"],
    [`/changes/configs/${seededConfigId(11)}`, "Assignment history"],
  ];
  for (const [path, ready] of isSlow ? [...shown, ...more] : shown) {
    // Web limits the requests of a person by this clock.
    await web.clock.advance(10_000);
    await Promise.all(
      [right, ...wrong].map((page) => page.goto(path, { waitUntil: "networkidle" })),
    );
    for (const page of wrong)
      await expect
        .poll(async () => {
          const [said, expected] = await Promise.all([wordsOf(page, ready), wordsOf(right, ready)]);
          return said.flatMap((word, index) =>
            word === expected[index] ? [] : [[path, word, expected[index]]],
          );
        })
        .toEqual([]);
  }
});
