import type { Browser, Page } from "playwright-core";
import type { PersonName } from "./people.ts";

/** A session cookie of web. */
export interface SessionCookie {
  name: string;
  value: string;
  /** The pair as a `Cookie` header carries it. */
  header: string;
}

/** A web that pages are visited on. */
export interface VisitedWeb {
  /** Where browsers reach it. */
  origin: string;
  /** Issues a session for this person. */
  sessionOf(name: PersonName): Promise<SessionCookie>;
}

/** How a page is looked at: 1440 × 900 px, in light and by the machine's clock unless told. */
export interface Look {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
  /** The time that stands still for it, in milliseconds since the epoch. */
  now?: number;
  /** How many times slower than this machine's its processor is. */
  slowdown?: number;
}

/** An open page, and what became of it. */
export interface PageVisit {
  page: Page;
  /** Errors and warnings of its console, and what it threw: also what the content security policy refused. */
  complaints: string[];
  /** How far its content moved by itself. */
  layoutShift(): Promise<number>;
}

/** Opens a page as a person who is signed in, or as nobody, in a context of its own: `page.context().close()`. */
export const visitPage = async (
  { browser, web }: { browser: Browser; web: VisitedWeb },
  person: PersonName | null,
  path: string,
  { width = 1440, height = 900, scheme = "light", now, slowdown = 1 }: Look = {},
): Promise<PageVisit> => {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  if (now !== undefined) await context.clock.setFixedTime(now);
  if (person !== null) {
    const { name, value } = await web.sessionOf(person);
    await context.addCookies([{ name, value, url: web.origin }]);
  }
  // Sooner than a test's own, which does not tell what it waits for.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", ({ message }) => complaints.push(message));
  await page.addInitScript(() => {
    const shifts: number[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number })[]) shifts.push(entry.value);
    }).observe({ type: "layout-shift", buffered: true });
  });
  if (slowdown > 1) {
    const devtools = await context.newCDPSession(page);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: slowdown });
  }
  await page.goto(web.origin + path);
  const layoutShift = () =>
    page.evaluate(() => (globalThis as unknown as { shifts: number[] }).shifts.reduce((sum, value) => sum + value, 0));
  return { page, complaints, layoutShift };
};
