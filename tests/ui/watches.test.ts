import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import type { Watch } from "#proto/watch/watch.ts";
import { createTestToken } from "../support/collector.ts";
import { unwieldyName } from "../support/ui-states.ts";
import {
  expectCount,
  follow,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
  waitForPage,
} from "../support/web-in-browser.ts";

const receivers = `web_url: https://fleet.test
receivers:
  - {kind: webhook, name: on-call, url: 'https://hook.test', secret: 'whsec_${btoa("a secret of 24 bytes at least")}'}
  - {kind: alertmanager, name: am, url: 'https://am.test'}`;

const { web, visit, flawsAt } = await startWebInBrowser({
  clock: systemClock,
  core: { env: { SVC_WATCH_RECEIVERS: receivers } },
});
beforeAll(async () => {
  const { enroll } = await createTestToken(web.core);
  await enroll("edge-1");
}, 180_000);

/** Reports whether the browser refuses to send a field as it is. */
const isInvalid = (field: Element) => field.matches(":invalid");

let names = 0;
const create = async (fields: object = {}) =>
  (
    await web.core.admin.post<Watch>("/v1/collector/watches", {
      name: `watch ${++names}`,
      filter: "state:enrolling",
      receivers: ["on-call"],
      ...fields,
    })
  ).body;

it("count the hosts that a query selects now, and keep what was typed through a reload", async () => {
  const { page } = await visit("/watches", { as: "admin" });
  await follow(page, "Create a watch");
  await see(page, "1 host matches now.");
  await follow(page, "Stale");
  await see(page, "0 hosts match now.");
  const hosts = page.getByLabel("Hosts");
  expect(await hosts.inputValue()).toBe("state:stale");
  await hosts.fill("stat:stale");
  await see(page.getByRole("status"), /^There is no stat:/);
  await hosts.fill("-state:stale");
  const matching = page.getByRole("link", { name: "1 host" });
  expect(await matching.getAttribute("href")).toMatch(/^\/fleet\?state=/);
  await page.getByLabel("on-call").check();
  await page.reload();
  await matching.waitFor();
  expect(await hosts.inputValue()).toBe("-state:stale");
  await expect.poll(() => page.getByLabel("on-call").isChecked()).toBe(true);
  await follow(page, "Show all watches");
  await page.goBack();
  await see(page, "0 hosts match now.");
});

it("lead an admin from a view of the fleet to a watch of it, by the keyboard", async () => {
  const { page, messages } = await visit("/fleet?state=enrolling&device=edge-1", { as: "admin" });
  await page.getByRole("link", { name: "Watch this view" }).press("Enter");
  await waitForPage(page, "New watch");
  expect(await page.getByLabel("Hosts").inputValue()).toBe("state:enrolling device:edge-1");
  await page.getByText("1 host matches now.").waitFor();
  await page.getByLabel("Name").fill("edge without a report");
  await page.getByLabel("For", { exact: true }).fill("15m");
  await page.getByLabel("on-call").press("Space");
  await page.getByRole("button", { name: "Create the watch" }).press("Enter");
  await waitForPage(page, "edge without a report");
  await see(page, "any host for 15 min");
  await page.getByRole("cell", { name: "on-call" }).waitFor();
  await follow(page, "state:enrolling device:edge-1");
  await waitForPage(page, "Fleet");
  expect(new URL(page.url()).search).toBe("?state=enrolling&device=edge-1");
  expect(messages).toEqual([]);
});

it("say what is wrong with a watch, keep what was typed, and make nothing", async () => {
  const { page } = await visit("/watches/new?state=stale&not_label=env%3Atest", { as: "admin" });
  const hosts = page.getByLabel("Hosts");
  expect(await hosts.inputValue()).toBe("state:stale -label.env:test");
  const create = page.getByRole("button", { name: "Create the watch" });
  for (const [label, wrong, fault] of [
    ["Hosts", "stat:stale", "Hosts: There is no stat:"],
    ["For", "99999d", "For: must be"],
  ] as const) {
    await page.getByLabel("Name").fill('"><b>');
    await page.getByLabel(label, { exact: true }).fill(wrong);
    await create.click();
    await page.getByRole("alert").getByText(fault).waitFor();
    expect(await page.getByLabel("Name").inputValue()).toBe('"><b>');
    await page.getByLabel(label, { exact: true }).fill(label === "For" ? "5m" : "state:stale");
  }
  // The browser asks for these itself.
  for (const [label, wrong] of [
    ["For", "soon"],
    ["More than", "-1"],
    ["Name", ""],
  ] as const) {
    await page.getByLabel(label, { exact: true }).fill(wrong);
    await create.click();
    expect(await page.getByLabel(label, { exact: true }).evaluate(isInvalid)).toBe(true);
  }
  const { items } = await web.core.auditor.read<{ items: Watch[] }>("/v1/collector/watches");
  expect(items.filter(({ name }) => name === '"><b>')).toEqual([]);
});

it("say that core has no receiver", async () => {
  const { page } = await visit("/watches", { as: "admin" });
  await page.route("**/watches?limit=1", async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...(await response.json()), receivers: [] } });
  });
  await follow(page, "Create a watch");
  await see(page, "Core has no receiver");
});

it("silence, change, test and delete a watch", async () => {
  const { id } = await create({ more_than: 3 });
  const { page } = await visit(`/watches/${id}`, { as: "admin" });
  const change = () => follow(page, "Change, silence or test");
  await change();
  await page.getByLabel("Reason").fill("rack 4");
  await page.locator("#seconds").fill("31d");
  await press(page, "Silence");
  await page.getByRole("alert").getByText("For: must be").waitFor();
  await page.locator("#seconds").fill("30d");
  await press(page, "Silence");
  await page.getByText("by ada@example.test: rack 4", { exact: false }).first().waitFor();
  const { body } = await web.core.auditor.get<Watch>(`/v1/collector/watches/${id}`);
  expect((Date.parse(body.silence?.until ?? "") - Date.now()) / 86_400_000).toBeCloseTo(30, 2);
  await change();
  await press(page, "End the silence now");
  await see(page, "none");
  await change();
  await page.getByLabel("More than").fill("7");
  await press(page, "Save");
  await see(page, /^more than 7 hosts/);
  await change();
  await press(page, "Send a test message");
  await page.getByRole("heading", { level: 2, name: "History" }).waitFor();
  await change();
  await press(page, "Delete");
  expect(await page.getByLabel("Delete the watch and its history").evaluate(isInvalid)).toBe(true);
  await page.getByLabel("Delete the watch and its history").check();
  await press(page, "Delete");
  await waitForPage(page, "Watches");
  expect((await web.core.auditor.get(`/v1/collector/watches/${id}`)).status).toBe(404);
  await page.goto(`/watches/${id}/change`);
  await waitForHeading(page, "No such watch");
});

it("refuse a change that another one came before, and show what there is now", async () => {
  const watch = await create();
  const { page } = await visit(`/watches/${watch.id}/change`, { as: "admin" });
  const body = {
    name: watch.name,
    filter: watch.filter,
    more_than: 9,
    receivers: [],
    revision: 1,
  };
  await page.getByLabel("on-call").waitFor();
  await web.core.admin.put(`/v1/collector/watches/${watch.id}`, body);
  await press(page, "Save");
  await see(page, "The watch has changed since: it has revision 2");
  await expect.poll(() => page.getByLabel("More than").inputValue()).toBe("9");
});

it("show an auditor the watches, and no way to change one", async () => {
  const { id, name } = await create();
  await web.core.db.execute(
    sql`update watch set is_firing = true, firing_since = now(), count = 4 where id = ${id}`,
  );
  const { page } = await visit("/watches");
  const row = page.getByRole("row", { name });
  expect(await page.getByRole("link", { name: "Create a watch" }).count()).toBe(0);
  await row.getByText("Firing", { exact: true }).waitFor();
  await follow(page, "Inactive");
  await expectCount(page.getByRole("row", { name }), 0);
  await page.goto(`/watches/${id}`);
  await page.getByRole("cell", { name: "4", exact: true }).waitFor();
  expect(await page.getByRole("link", { name: "Change, silence or test" }).count()).toBe(0);
  await page.goto("/watches/new");
  await see(page, "This page needs the scope admin");
  await page.goto("/fleet");
  await page.getByRole("button", { name: "In common" }).waitFor();
  expect(await page.getByRole("link", { name: "Watch this view" }).count()).toBe(0);
});

it("have no axe violation and no sideways scroll", async () => {
  const { id } = await create({ name: unwieldyName.slice(0, 120) });
  await web.core.db.execute(
    sql`update watch set is_firing = true, firing_since = now(), count = 4 where id = ${id}`,
  );
  for (const [path, ready] of [
    ["/watches", "Firing"],
    [`/watches/${id}`, "Firing"],
    ["/watches/new?state=stale", "New watch"],
    [`/watches/${id}/change`, "Delete the watch"],
  ] as const)
    expect([path, await flawsAt(path, ready, "admin")]).toEqual([path, []]);
});
