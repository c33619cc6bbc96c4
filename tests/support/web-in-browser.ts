import type { Locator, Page } from "playwright-core";
import { afterEach, expect } from "vitest";
import { launchBrowser } from "#scripts/lab/browser.ts";
import { buildUi } from "#scripts/lab/built-ui.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import { type VisitOptions, visitPage } from "#scripts/lab/visit-page.ts";
import { isSlow } from "./is-slow.ts";
import { flawsOf, viewports } from "./ui-states.ts";
import { type TestWebOptions, useTestWeb } from "./web.ts";

/** The build, and the browser of this worker's test files, which ends with the worker. */
let shared: ReturnType<typeof prepare> | undefined;
const prepare = async () => ({ ui: await buildUi(), browser: await launchBrowser() });

/** Returns the build of the UI and a browser, whose pages close after each test. */
export const openTestBrowser = async (): ReturnType<typeof prepare> => {
  shared ??= prepare();
  const { ui, browser } = await shared;
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));
  return { ui, browser };
};

/** Waits until this text is there to be seen. The same text may stand hidden before it, as in a folded part. */
export const see = (within: Page | Locator, text: string | RegExp) =>
  within.getByText(text).filter({ visible: true }).first().waitFor();

/** Returns the path and the query of a page. */
export const addressOf = (page: Page) => {
  const { pathname, search } = new URL(page.url());
  return pathname + search;
};

/** Waits until a page is at this path and query. */
export const expectAddress = (page: Page, address: string) =>
  expect.poll(() => addressOf(page)).toBe(address);

/** Waits until keys go to this field. */
export const expectFocus = (field: Locator) =>
  expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);

/** Waits until there are so many of something. */
export const expectCount = (of: Locator, count: number) =>
  expect.poll(() => of.count()).toBe(count);

/** Clicks the link of this name. */
export const follow = (within: Page | Locator, name: string | RegExp) =>
  within.getByRole("link", { name }).click();

/** Clicks the button of this name. */
export const press = (within: Page | Locator, name: string | RegExp) =>
  within.getByRole("button", { name }).click();

/** Opens the menu of the page's frame. */
export const openMenu = (page: Page) => press(page, /Menu$/);

/** Waits until there is a heading of this name. */
export const waitForHeading = (within: Page | Locator, name: string | RegExp) =>
  within.getByRole("heading", { name }).waitFor();

/** Waits until there is the page of this title. */
export const waitForPage = (page: Page, name: string | RegExp) =>
  page.getByRole("heading", { level: 1, name }).waitFor();

/** Starts web for a test file: at its top, or in a `describe`. */
export const startWebInBrowser = async (options: TestWebOptions = {}) => {
  const { ui, browser } = await openTestBrowser();
  const web = await useTestWeb({ ui, ...options });
  const visit = (
    path: string,
    { as = "auditor", ...rest }: VisitOptions & { as?: PersonName | null } = {},
  ) => visitPage({ browser, web }, as, path, rest);
  const flawsAt = async (path: string, ready: string | RegExp, as: PersonName = "auditor") => {
    const { page } = await visit(path, { as });
    await see(page, ready);
    await page.waitForLoadState("networkidle");
    return flawsOf(page, { axeAt: isSlow ? viewports : viewports.slice(1) });
  };
  return {
    web,
    browser,
    /** Opens a page, as an auditor unless told otherwise. */
    visit,
    /** Returns what `flawsOf` finds at a path once its text `ready` is there: by axe on a wide screen, with --slow on a narrow one too. */
    flawsAt,
  };
};
