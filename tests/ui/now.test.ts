import { eq, sql } from "drizzle-orm";
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { systemClock } from "#kit/clock.ts";
import type { NowReport } from "#proto/now/report.ts";
import type { Watch } from "#proto/watch/watch.ts";
import { people } from "#scripts/lab/people.ts";
import { createTestToken } from "../support/collector.ts";
import { preparedFleets } from "../support/prepared-fleets.ts";
import { flawsOf } from "../support/ui-states.ts";
import {
  expectAddress,
  expectFocus,
  follow,
  press,
  see,
  startWebInBrowser,
  waitForPage,
} from "../support/web-in-browser.ts";

const { web, visit } = await startWebInBrowser({ clock: systemClock });
let watch: Watch;
beforeAll(async () => {
  const { enroll } = await createTestToken(web.core);
  await enroll("edge-1");
  const body = { name: "enrolling hosts", filter: "state:enrolling", receivers: [] };
  watch = (await web.core.admin.post<Watch>("/v1/collector/watches", body)).body;
  await web.core.db.execute(
    sql`update watch set is_firing = true, firing_since = now() - interval '12 minutes', count = 1`,
  );
}, 180_000);

const now = "**/api/core/now";
/** Makes the page request its report at once. */
const askAgain = (page: Page) => page.evaluate(() => dispatchEvent(new Event("online")));
const lineOf = (page: Page) => page.getByRole("listitem").filter({ hasText: "enrolling hosts" });
const report = () => web.core.auditor.read<NowReport>("/v1/now");

it("lets an admin take a line with a note by the keyboard, and release it", async () => {
  const { page, messages, layoutShift } = await visit("/", { as: "admin" });
  const line = lineOf(page);
  await line.getByText("1 host matches").waitFor();
  expect(await layoutShift()).toBe(0);
  const untaken = (await report()).lines.filter(({ taken }) => taken === null).length;
  await expect.poll(() => page.title()).toMatch(`(${untaken}) Now`);
  const note = page.getByLabel("Note for the next person");
  await line.getByRole("button", { name: "Take" }).press("Enter");
  await expectFocus(note);
  await page.keyboard.type("network team ist on it");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await expectAddress(page, "/");
  await page.reload();
  await line.getByRole("button", { name: "Take" }).press("Enter");
  // Typed text outlives a reload.
  expect(await note.inputValue()).toBe("network team ist on it");
  await note.fill("network team is on it");
  await page.keyboard.press("Enter");
  await see(line, /^ada@example\.test, \d\d:\d\d: network team is on it$/);
  expect((await report()).lines.find(({ key }) => key === `watch:${watch.id}`)?.taken?.note).toBe(
    "network team is on it",
  );
  await expect.poll(() => page.title()).not.toMatch(`(${untaken}) Now`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await press(page, "Copy handover");
  await expect
    .poll(() => page.evaluate(() => navigator.clipboard.readText()))
    .toContain("network team is on it");
  await press(line, "Release");
  await line.getByRole("button", { name: "Take" }).waitFor();
  expect(messages).toEqual([]);
});

it("shows why a line cannot be taken, in the dialog, with the note", async () => {
  const { page } = await visit("/", { as: "admin" });
  await press(lineOf(page), "Take");
  const key = `watch:${watch.id}`;
  const { body } = await web.core.admin.post<{ id: string }>("/v1/now/claims", { key });
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Note").fill("me too");
  await press(dialog, "Take");
  await see(dialog, "has taken this line");
  expect(await dialog.getByLabel("Note").inputValue()).toBe("me too");
  await web.core.admin.delete(`/v1/now/claims/${body.id}`);
});

it("is answered with 304 while nothing changes, which counts as checked, and says what is not known while core is away", async () => {
  const { page } = await visit("/");
  await see(page, "Last checked");
  const again = page.waitForResponse(now);
  await askAgain(page);
  expect((await again).status()).toBe(304);
  await lineOf(page).waitFor();
  await page.route(now, (route) => route.abort());
  await askAgain(page);
  await see(page, "This list is old: new lines may be missing.");
  await see(page, /^Last checked \d+ s ago\.$/);
  await expect.poll(() => page.title()).toMatch("(?) Now");
  await page.unroute(now);
  await askAgain(page);
  await see(page, /^(One|Two|Three|Four|Five|Six) things? needs? you/);
});

it("leads from a line's link to the line, from the line to its hosts, and says when the line has ended", async () => {
  const { page } = await visit(`/#watch:${watch.id}`);
  const line = page.locator(`li[aria-current=true][id="watch:${watch.id}"]`);
  await line.getByRole("link").click();
  await expectAddress(page, "/fleet?state=enrolling");
  await page.goto("/#watch:0192f000-0000-7000-8000-0000000000a1");
  await see(page, "The line of this link is gone");
});

it("keeps what a person saw in the browser, and marks what is new when they come back", async () => {
  const { page } = await visit("/");
  await lineOf(page).waitFor();
  const marks = page.getByText("New", { exact: true });
  expect([await marks.count(), await page.getByText("since you last looked").count()]).toEqual([
    0, 0,
  ]);
  await page.evaluate((name) => {
    const look = { at: Date.now() - 7 * 3_600_000, lines: [] };
    localStorage.setItem(name, JSON.stringify({ last: look }));
  }, `now:${people.auditor.userId}`);
  await page.reload();
  await see(page, "new since you last looked (7 h ago)");
  await marks.first().waitFor();
  // Following a line and coming back is no absence.
  await page.reload();
  await see(page, "new since you last looked (7 h ago)");
});

it("counts in the title of a tab out of view, which is no look at the page", async () => {
  const { page } = await visit("/watches");
  await page.clock.install();
  let fleet = "nothing-enrolled";
  await page.route(now, (route) => route.fulfill({ json: preparedFleets[fleet] }));
  await page.goto("/");
  await see(page, "Ask somebody with the scope admin to enroll the first host.");
  expect(await page.getByRole("link", { name: "Enroll the first host" }).count()).toBe(0);
  fleet = "calm";
  await askAgain(page);
  await see(page, "Nothing needs you.");
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  fleet = "forty-watches";
  await page.clock.fastForward(60_000);
  await expect.poll(() => page.title()).toMatch("(43) Now");
  const looks = (name: string) => localStorage.getItem(name) ?? "";
  expect(await page.evaluate(looks, `now:${people.auditor.userId}`)).toContain('"lines":[]');
});

it("says in a tab from before an upgrade that a page or an answer has changed, with a button that loads it", async () => {
  const { page } = await visit("/");
  await lineOf(page).waitFor();
  const script = /watches-page.*\.js/;
  await page.route(script, (route) => route.fulfill({ status: 404 }));
  await follow(page, "Watches");
  await see(page, "The server may have a newer version of this page.");
  await page.unroute(script);
  await press(page, "Reload");
  await waitForPage(page, "Watches");
  await page.route(now, (route) => route.fulfill({ json: {} }));
  await follow(page, "Overview");
  await see(page, "The page cannot read the server's answer");
  await page.unroute(now);
  await press(page, "Reload");
  await lineOf(page).waitFor();
  await page.route(now, (route) => route.fulfill({ json: {} }));
  await askAgain(page);
  // What it shows already stays.
  await see(page, "This page shows old data.");
  await lineOf(page).waitFor();
  await page.unroute(now);
  await press(page, "Reload");
  await lineOf(page).waitFor();
});

it("shows scopes alone once `audit` is taken away", async () => {
  const { page } = await visit("/", { as: "admin" });
  const holds = (scopes: (typeof person.$inferInsert)["scopes"]) =>
    web.core.db.update(person).set({ scopes }).where(eq(person.userId, people.admin.userId));
  await press(lineOf(page), "Take");
  await holds(["read"]);
  await press(page.getByRole("dialog"), "Take");
  await see(page, "See the health of every host");
  expect(await lineOf(page).count()).toBe(0);
  await expect.poll(() => page.title()).toMatch(/^Now/);
  await holds(["read", "audit", "admin"]);
});

it("has no flaw with forty watches, long and right-to-left names, and a browser whose clock is hours off", async () => {
  const { page, messages } = await visit("/?", { now: Date.now() + 5 * 3_600_000 });
  await page.route(now, (route) =>
    route.fulfill({
      json: preparedFleets["forty-watches"],
      headers: { "X-Core-Time": "2026-01-15T03:12:01.000Z" },
    }),
  );
  await page.goto("/");
  await see(page, "43 things need you");
  await see(page, "Began 59 min ago.");
  await see(page, "And 3 more");
  expect(await page.getByRole("button", { name: "Take" }).count()).toBe(0);
  await page.getByText("35 more firing watches").click();
  const last = "watch:0192f000-0000-7000-8000-000000000039";
  await page.locator(`[id="${last}"]`).waitFor();
  await page.getByText("35 more firing watches").click();
  // The link of a message opens what is folded.
  await page.evaluate((key) => {
    location.hash = key;
  }, last);
  await page.locator(`[id="${last}"][aria-current=true]`).waitFor();
  // A name that is written from right to left does not reorder the words after it.
  const [name, after] = await page
    .getByRole("link", { name: "שרת ראשי 1”" })
    .evaluate((link) =>
      [link.querySelector("bdi") ?? link, link].map((of) => of.getBoundingClientRect().right),
    );
  expect(name).toBeLessThan(after ?? 0);
  await page.setViewportSize({ width: 390, height: 844 });
  expect((await page.locator(".now-strip").boundingBox())?.height).toBeLessThan(96);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByText("Your scopes").click();
  await see(page, "directory has not been synced");
  expect(await page.getByText(/not( been)? synced/i).count()).toBe(1);
  expect(await flawsOf(page)).toEqual([]);
  await follow(page, "Watches");
  expect(messages).toEqual([]);
});
