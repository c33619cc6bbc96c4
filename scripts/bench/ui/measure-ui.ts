import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { uiPath } from "#scripts/bundle/bundle-ui.ts";
import { visitPage } from "#scripts/lab/visit-page.ts";

/** The browser, and web. */
export type Stage = Parameters<typeof visitPage>[0];

/** Compressed bytes that a page loads. */
export interface PageBytes {
  js: number;
  css: number;
}

/** Returns the bytes, compressed by gzip, of the scripts and styles that a page has loaded. */
export const loadedBytes = async (page: Page): Promise<PageBytes> => {
  const urls = await page.evaluate(() =>
    performance.getEntriesByType("resource").map(({ name }) => name),
  );
  const sum = async (extension: string) => {
    const paths = new Set(
      urls.map((url) => new URL(url).pathname).filter((each) => each.endsWith(extension)),
    );
    const files = await Promise.all([...paths].map((each) => readFile(join(uiPath, `${each}.gz`))));
    return files.reduce((total, { length }) => total + length, 0);
  };
  return { js: await sum(".js"), css: await sum(".css") };
};

/** Measures the bytes that a page loads until the network is idle; `act` may load more. */
export const measureBytes = async (
  stage: Stage,
  path: string,
  { signedIn = true, act }: { signedIn?: boolean; act?: (page: Page) => Promise<unknown> } = {},
): Promise<PageBytes> => {
  const { page } = await visitPage(stage, signedIn ? "auditor" : null, path);
  await page.waitForLoadState("networkidle");
  await act?.(page);
  const bytes = await loadedBytes(page);
  await page.context().close();
  return bytes;
};

/** Milliseconds since the navigation began. */
export interface NavigationTimes {
  /** To the first row. */
  firstRows: number;
  /** To the first row and the end of the last task of 50 ms or more: from here on the page responds at once. */
  interactive: number;
  /** To the last row of the page, also below the screen. */
  allRows: number;
  /** The share of the window by which content moved by itself. */
  layoutShift: number;
}

/** Measures `/fleet` with empty caches on a slow processor. */
export const measureArrival = async (stage: Stage, slowdown: number): Promise<NavigationTimes> => {
  const { page, layoutShift } = await visitPage(stage, "auditor", "/fleet", { slowdown });
  const whenRows = async (count: number) => {
    const handle = await page.waitForFunction(
      (wanted) => document.querySelectorAll(".row-link").length >= wanted && performance.now(),
      count,
    );
    return Number(await handle.jsonValue());
  };
  const firstRows = await whenRows(1);
  const allRows = await whenRows(200);
  // Later work, such as the charts' counts, may block the page again.
  await page.waitForLoadState("networkidle");
  const lastTask = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        new PerformanceObserver((list, observer) => {
          observer.disconnect();
          resolve(
            Math.max(...list.getEntries().map(({ startTime, duration }) => startTime + duration)),
          );
        }).observe({ type: "longtask", buffered: true });
        setTimeout(() => resolve(0), 500);
      }),
  );
  const shift = await layoutShift();
  await page.context().close();
  return { firstRows, interactive: Math.max(firstRows, lastTask), allRows, layoutShift: shift };
};

/** Measures the slowest responses in milliseconds, from the input to the next frame, by action. */
export const measureInteractions = async (
  stage: Stage,
  slowdown: number,
): Promise<Record<string, number>> => {
  const { page } = await visitPage(stage, "auditor", "/fleet", { slowdown });
  await page.locator(".row-link").nth(199).waitFor();
  await page.waitForLoadState("networkidle");
  await page.evaluate(() => {
    const events: number[] = [];
    Object.assign(globalThis, { events });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as PerformanceEventTiming[])
        if ((entry as PerformanceEventTiming & { interactionId: number }).interactionId > 0)
          events.push(entry.duration);
    }).observe({ type: "event", durationThreshold: 16 } as PerformanceObserverInit);
  });
  const settled = async () => {
    await page.waitForLoadState("networkidle");
    await page.locator('table[aria-busy="false"]').waitFor();
  };
  const actions: Record<string, () => Promise<unknown>> = {
    typing: async () => {
      await page.keyboard.press("/");
      await page.keyboard.type("dc-3 state:stale", { delay: 60 });
    },
    applying: () => page.keyboard.press("Enter"),
    clearing: () => page.getByRole("button", { name: "Clear filters" }).click(),
    sorting: () => page.getByRole("columnheader", { name: "Queue" }).getByRole("link").click(),
    "sorting back": () =>
      page.getByRole("columnheader", { name: "Queue" }).getByRole("link").click(),
    "a chip": () => page.locator(".chip").last().click(),
    "another chip": () => page.locator(".chip").nth(3).click(),
    "opening the drawer": () => page.locator(".row-link").nth(2).click(),
    "closing the drawer": () => page.keyboard.press("Escape"),
    "the next row": () => page.keyboard.press("j"),
    "opening history": () => page.getByRole("button", { name: "History" }).click(),
  };
  const slowest: Record<string, number> = {};
  for (const [name, act] of Object.entries(actions)) {
    await act();
    await settled();
    // The browser delivers entries some time after the frame.
    await page.waitForTimeout(300);
    slowest[name] = await page.evaluate(() =>
      Math.max(0, ...(globalThis as unknown as { events: number[] }).events.splice(0)),
    );
  }
  await page.context().close();
  return slowest;
};
