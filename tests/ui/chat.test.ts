import { generateKeyPairSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ChatSql, createChatSql } from "#functions/chat-sql/create-chat-sql.ts";
import { createReceiptSigner } from "#functions/domain/chat/receipt-signer.ts";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { createMockInference } from "#functions/inference/create-mock-inference.ts";
import type { Inference } from "#functions/inference/inference.ts";
import { Problem } from "#functions/problems.ts";
import { systemClock } from "#kit/clock.ts";
import { ReceiptFile } from "#proto/chat/receipt.ts";
import { verifyReceipts } from "#proto/chat/verify-receipts.ts";
import { measureBytes } from "#scripts/bench/ui/measure-ui.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import type { VisitOptions } from "#scripts/lab/visit-page.ts";
import { expectAccessible, flawsOf } from "#tests/support/ui-states.ts";
import { createTestChat } from "../support/core.ts";
import {
  expectCount,
  expectFocus,
  follow,
  press,
  see,
  startWebInBrowser,
  waitForHeading,
} from "../support/web-in-browser.ts";

const hostile = [
  '<img src=x onerror="globalThis.taken=1"><script>globalThis.taken=1</script>',
  "[click](javascript:globalThis.taken=1) ![picture](https://evil.example/x.png) https://evil.example/",
  "//evil.example/fleet /fleet/../api/auth/login javascript:/fleet \u202Ereversed\u2066",
  "and /fleet?state=stale. [it](/fleet?q=<b>)",
].join("\n");

/** The mock, and answers that it does not give. */
const createScriptedInference = (stopped: () => void): Inference => {
  const mock = createMockInference("mock");
  let failures = 0;
  return {
    ...mock,
    async *stream(request) {
      const asked = request.messages.findLast(({ role }) => role === "user");
      const question = asked?.role === "user" ? asked.text : "";
      if (question === "hostile") yield { type: "text", text: hostile };
      else if (question === "slow") {
        for (let line = 1; !request.signal.aborted; line++) {
          yield { type: "text", text: `Line ${line}.\n` };
          await new Promise((resolve) => setTimeout(resolve, 30));
        }
        stopped();
        throw request.signal.reason;
      } else if (question === "fail once") {
        failures += 1;
        if (failures === 1)
          throw new Problem("inference_failed", { detail: "The model answered with status 500" });
        yield { type: "text", text: "The second attempt worked." };
      } else yield* mock.stream(request);
    },
  };
};

let sql: ChatSql | null = null;
let stops = 0;
const tools = (): ChatSql => {
  if (sql === null) throw new Error("no SQL tools");
  return sql;
};
const pem = generateKeyPairSync("ed25519")
  .privateKey.export({ type: "pkcs8", format: "pem" })
  .toString();
const chat = await createTestChat({
  inference: createScriptedInference(() => {
    stops += 1;
  }),
  signer: await createReceiptSigner({ pem, id: "receipts-2026" }),
  // The database of the tools is not known before the core is.
  sql: {
    relations: () => tools().relations(),
    describe: (name) => tools().describe(name),
    query: (statement, signal) => tools().query(statement, signal),
    close: () => tools().close(),
  },
  sqlOffReason: null,
});
const env = { SVC_INFERENCE_CHAT_MODEL: "mock" };
const started = await startWebInBrowser({ clock: systemClock, core: { env, core: { chat } } });
const { web, browser } = started;
beforeAll(async () => {
  const { core } = web;
  await seedFleet(core.db, { count: 60, now: new Date() });
  const created = await createChatSql({
    db: core.db,
    locate: async () => core.databaseUrl,
    url: null,
    secret: core.config.authTokenSecret.reveal(),
    thresholds: fleetThresholds(core.config),
    readRules: () => readFleetRules(core.core),
    revokePublic: false,
  });
  sql = created.sql;
});
afterAll(() => sql?.close());

/** Opens a page as an auditor, with the panel of `?chat=`. */
const visit = async (path: string, viewport?: VisitOptions) => {
  const opened = await started.visit(path, viewport);
  const { page } = opened;
  const shown = page.getByRole("region", { name: "Conversation" });
  return {
    ...opened,
    panel: page.locator(".chat"),
    shown,
    field: page.getByRole("textbox", { name: "Question" }),
  };
};
const ask = async (page: Page, question: string) => {
  const field = page.getByRole("textbox", { name: "Question" });
  await field.fill(question);
  await field.press("Enter");
};
const badges = (page: Page, word: string, count = 1) =>
  expectCount(page.locator(".receipt > summary", { hasText: word }), count);
const conversationOf = (page: Page) => new URL(page.url()).searchParams.get("chat") ?? "";

it("T1: streams an answer with its SQL, rows and a receipt that the browser and the download verify", async () => {
  const { page, panel, messages } = await visit("/fleet");
  await page.locator(".row-link").first().waitFor();
  await page.keyboard.press("a");
  await press(panel, "Which certificates expire within 7 days?");
  await badges(page, "Verified");
  expect(conversationOf(page)).toMatch(/^[0-9a-f-]{36}$/);
  const call = panel.locator(".tool-call").last();
  const outcome = (await call.locator(".tool-outcome").textContent()) ?? "";
  expect(outcome).toMatch(/^\d+ rows?$/);
  await call.locator("summary").click();
  expect(await call.getByRole("figure", { name: "Statement" }).textContent()).toMatch(
    /select[\s\S]*from/i,
  );
  expect(await call.locator("tbody tr").count()).toBe(Math.min(20, Number.parseInt(outcome, 10)));
  await panel.locator(".receipt > summary").click();
  await see(panel, "receipts-2026");
  await see(panel, "It cannot check whether the answer is right.");

  const [download] = await Promise.all([
    page.waitForEvent("download"),
    follow(panel, "Download the conversation"),
  ]);
  const file = v.parse(ReceiptFile, JSON.parse(await readFile(await download.path(), "utf8")));
  expect(await verifyReceipts(file)).toMatchObject({ turns: 1, fault: null });

  const answer = await panel.locator(".chat-text").allTextContents();
  await page.reload();
  await badges(page, "Verified");
  expect(await panel.locator(".chat-text").allTextContents()).toEqual(answer);
  expect(messages).toEqual([]);
});

it("T5: calls an answer unverified whose receipt, text or key is another one", async () => {
  const { page, panel } = await visit("/?chat=new");
  await ask(page, "Hello");
  await badges(page, "Verified");
  const edits: Record<string, (body: string) => string> = {
    "**/receipts": (body) => body.replace(/"text":"/, '"text":"Not '),
    [`**/sessions/${conversationOf(page)}`]: (body) =>
      body.replace(/("assistant".*?"text":")/, "$1Not "),
    "**/receipt-keys": (body) => body.replaceAll("receipts-2026", "another"),
  };
  for (const [path, edit] of Object.entries(edits)) {
    await page.route(path, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: edit(await response.text()) });
    });
    await page.reload();
    await badges(page, "Unverified");
    await page.unroute(path);
  }
  await panel.locator(".receipt > summary").click();
  await see(panel, "its key is not one of this core's");
});

it("T1: stops an answer, keeps what arrived and its receipt, and lets the operator type meanwhile", async () => {
  const { page, panel, shown, field } = await visit("/?chat=new");
  await ask(page, "slow");
  await see(shown, "Line 3.");
  await field.fill("A draft");
  const before = stops;
  await press(panel, "Stop");
  await see(shown, "Stopped before the end.");
  await expect.poll(() => stops).toBe(before + 1);
  await badges(page, "Verified");
  await see(shown, "Line 3.");
  expect(await field.inputValue()).toBe("A draft");
});

it("sticks to the end only while the reader is there, without layout shift", async () => {
  const { page, panel, shown, layoutShift } = await visit("/fleet?chat=new", { height: 500 });
  await see(panel, "Which certificates expire");
  await page.locator(".row-link").first().waitFor();
  await page.waitForLoadState("networkidle");
  expect(await layoutShift()).toBe(0);
  await ask(page, "slow");
  // The answer replaces the suggested questions.
  await see(shown, "Line 2.");
  const begun = await layoutShift();
  await see(shown, "Line 30.");
  const fromEnd = () =>
    shown.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
  await expect.poll(fromEnd).toBeLessThan(24);
  await shown.evaluate((element) => element.scrollTo(0, 40));
  await panel.getByRole("button", { name: "Latest" }).waitFor();
  await see(shown, "Line 45.");
  expect(await shown.evaluate((element) => element.scrollTop)).toBe(40);
  await press(panel, "Latest");
  await expect.poll(fromEnd).toBeLessThan(24);
  expect(await layoutShift()).toBe(begun);
  await press(panel, "Stop");
});

it("T2: shows a hostile answer as text, and links only to pages of ours", async () => {
  const { page, panel, messages } = await visit("/?chat=new");
  const requested: string[] = [];
  page.on("request", (request) => requested.push(request.url()));
  await ask(page, "hostile");
  await badges(page, "Verified");
  const text = hostile.replace("\u202E", "[U+202E]").replace("\u2066", "[U+2066]");
  expect(await panel.locator(".chat-text").textContent()).toBe(text);
  const links = panel.locator(".chat-text a");
  expect(await links.evaluateAll((all) => all.map((link) => link.getAttribute("href")))).toEqual([
    "/fleet?state=stale",
    "/fleet?q=<b",
  ]);
  expect(await panel.locator("img, iframe, script, .chat-answer [style]").count()).toBe(0);
  expect(await page.evaluate(() => "taken" in globalThis)).toBe(false);
  expect(requested.filter((url) => !url.startsWith(web.origin))).toEqual([]);
  await links.first().click();
  await waitForHeading(page, "Fleet");
  expect(new URL(page.url()).searchParams.get("state")).toBe("stale");
  expect(await panel.isVisible()).toBe(true);
  await page.evaluate(() => history.back());
  await expect.poll(() => new URL(page.url()).pathname).toBe("/");
  expect(messages).toEqual([]);
});

it("reports a failure of the model with Retry, and a lost connection with what arrived", async () => {
  const { page, panel, shown } = await visit("/?chat=new");
  await ask(page, "fail once");
  await see(shown, "The model answered with status 500");
  await press(panel, "Retry");
  await see(shown, "The second attempt worked.");
  await badges(page, "Verified", 2);
  await page.route("**/messages", (route) =>
    route.fulfill({
      contentType: "text/event-stream",
      body: 'event: text_delta\ndata: {"text":"Half"}\n\n',
    }),
  );
  await page.route("**/sessions/*", (route) => route.abort());
  await ask(page, "Hello");
  await see(shown, "The connection was lost.");
  await see(shown, "Half");
  await panel.getByRole("button", { name: "Retry" }).waitFor();
});

it("lists, renames and deletes conversations", async () => {
  const { page, panel } = await visit("/?chat=new");
  await ask(page, "Hello, rename me");
  await badges(page, "Verified");
  await press(panel, "History");
  await press(panel, "Rename Hello, rename me");
  const title = page.getByRole("textbox", { name: "Title" });
  await title.fill("Rollout 1.4.2");
  await page.reload();
  await press(panel, "History");
  await expect.poll(() => title.inputValue()).toBe("Rollout 1.4.2");
  await title.press("Enter");
  await press(panel, /^Rollout 1.4.2/);
  await panel.locator(".chat-title", { hasText: "Rollout 1.4.2" }).waitFor();
  await page.reload();
  await panel.locator(".chat-title", { hasText: "Rollout 1.4.2" }).waitFor();
  const address = page.url();
  await press(panel, "History");
  await press(panel, "Delete Rollout 1.4.2");
  await panel.getByRole("button", { name: "Delete", exact: true }).click();
  await expect.poll(() => conversationOf(page)).toBe("new");
  await expectCount(panel.getByText("Rollout 1.4.2"), 0);
  await page.goto(address);
  await see(panel, "No conversation of yours has this address");
});

it("works by keyboard alone, announces the answer in sentences, and keeps a draft", async () => {
  const { page, panel, field } = await visit("/fleet", { width: 800 });
  await page.locator(".row-link").first().waitFor();
  const focused = (name: string) =>
    expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(name);
  await page.keyboard.press("a");
  await panel.waitFor();
  await expectFocus(field);
  await page.keyboard.type("Which hosts need attention");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("and why?");
  await page.keyboard.press("Enter");
  await badges(page, "Verified");
  const announced = await panel.getByRole("log").locator("p").allTextContents();
  expect(announced).toContain("Running a query");
  expect(announced.at(-1)).toBe("Answer complete");
  expect(announced.filter((text) => !text.includes(" "))).toEqual([]);
  expect(await panel.locator(".chat-question").textContent()).toContain(
    "Which hosts need attention\nand why?",
  );
  await page.keyboard.type("A draft");
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await focused("Ask");
  await page.keyboard.press("Enter");
  await expect.poll(() => field.inputValue()).toBe("A draft");
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await page.keyboard.press("?");
  await see(page, "Ask about the fleet");
});

it("limits a question to 32 KiB, with a count near the limit", async () => {
  const { panel, field } = await visit("/?chat=new");
  await field.fill("é".repeat(16_384));
  await panel.getByText("32.0 KiB of 32 KiB").or(panel.getByText("32 KiB of 32 KiB")).waitFor();
  await field.fill("é".repeat(16_385));
  await see(panel, "shorten the question");
  await field.press("Enter");
  expect(await panel.locator(".chat-question").count()).toBe(0);
});

it("leaves room beside it for eight rows of the fleet", async () => {
  const { page, panel } = await visit("/fleet?chat=new");
  await see(panel, "Which certificates expire");
  for (const width of [1440, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    const row = page.locator("tr[data-id]").nth(7);
    await row.waitFor();
    const { y, height } = (await row.boundingBox()) ?? { y: 900, height: 0 };
    expect(y + height, `${width} px`).toBeLessThanOrEqual(900);
    expect(await page.locator("details.charts[open]").count()).toBe(0);
  }
});

it("has no axe violation and no sideways scroll", async () => {
  const { page, panel, messages } = await visit("/?chat=new");
  await see(panel, "Which certificates expire");
  expect(await flawsOf(page)).toEqual([]);
  await ask(page, "Which hosts need attention, and why?");
  await badges(page, "Verified");
  for (const call of await panel.locator(".tool-call > summary").all()) await call.click();
  await panel.locator(".receipt > summary").click();
  // Another width closes the calls.
  await expectAccessible(page);
  expect(await flawsOf(page)).toEqual([]);
  await press(panel, "History");
  await panel
    .getByRole("button", { name: /^Delete / })
    .first()
    .click();
  expect(await flawsOf(page)).toEqual([]);
  expect(messages).toEqual([]);
});

it("is not in the script of a page until it opens, and not offered without the scope", async () => {
  const fleet = await measureBytes({ browser, web }, "/fleet");
  expect(fleet.js).toBeLessThan(70 * 1024);
  const open = await measureBytes({ browser, web }, "/fleet?chat=new");
  expect(open.js).toBeGreaterThan(fleet.js + 10_000);
  const { page } = await started.visit("/?chat=new", { as: "reader" });
  await see(page, "Your scopes");
  expect(await page.getByRole("button", { name: "Ask" }).count()).toBe(0);
  expect(await page.locator(".chat").count()).toBe(0);
});
