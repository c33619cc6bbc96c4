import type { Browser, Page } from "playwright-core";
import type { PersonName } from "./people.ts";

/** A session cookie of web. */
export interface BrowserCookie {
  name: string;
  value: string;
  /** The pair as a `Cookie` header carries it. */
  header: string;
}

/** Returns the cookie that a `Set-Cookie` header sets. */
export const browserCookieOf = (setCookie: string): BrowserCookie => {
  const [header = ""] = setCookie.split(";");
  const [name = "", value = ""] = header.split("=");
  return { name, value, header };
};

/** A web that pages are visited on. */
export interface VisitedWeb {
  /** Where browsers reach it. */
  origin: string;
  /** Issues a session for this person. */
  sessionOf(name: PersonName): Promise<BrowserCookie>;
}

/** How to visit a page; by default 1440 × 900 px, light, with the machine's clock. */
export interface VisitOptions {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
  /** A fixed time for the page, in milliseconds since the epoch. */
  now?: number;
  /** Slows the processor down by this factor. */
  slowdown?: number;
}

/** An open page with what it reported. */
export interface PageVisit {
  page: Page;
  /** Errors and warnings of its console, uncaught errors, and violations of the content security policy. */
  messages: string[];
  /** Returns the sum of its layout shifts. */
  layoutShift(): Promise<number>;
}

/** Opens a page in a context of its own, as a signed-in person or without a session. Close it with `page.context().close()`. */
export const visitPage = async (
  { browser, web }: { browser: Browser; web: VisitedWeb },
  person: PersonName | null,
  path: string,
  { width = 1440, height = 900, scheme = "light", now, slowdown = 1 }: VisitOptions = {},
): Promise<PageVisit> => {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    baseURL: web.origin,
  });
  if (now !== undefined) await context.clock.setFixedTime(now);
  if (person !== null) {
    const { name, value } = await web.sessionOf(person);
    await context.addCookies([{ name, value, url: web.origin }]);
  }
  // Shorter than the timeout of a test, which does not report what it waited for.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const messages: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) messages.push(message.text());
  });
  page.on("pageerror", ({ message }) => messages.push(message));
  await page.addInitScript(() => {
    const shifts: number[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number })[])
        shifts.push(entry.value);
    }).observe({ type: "layout-shift", buffered: true });
  });
  if (slowdown > 1) {
    const devtools = await context.newCDPSession(page);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
  }
  await page.goto(path);
  const layoutShift = () =>
    page.evaluate(() =>
      (globalThis as unknown as { shifts: number[] }).shifts.reduce((sum, value) => sum + value, 0),
    );
  return { page, messages, layoutShift };
};
