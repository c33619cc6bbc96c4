import { type AxeResults, source as axeSource } from "axe-core";
import type { Page, Route } from "playwright-core";
import { expect } from "vitest";
import type { PersonName } from "#scripts/lab/people.ts";
import type { VisitOptions } from "#scripts/lab/visit-page.ts";

/** A state of a page that has a design of its own. */
export interface UiState {
  name: string;
  /** The visitor; null without a session. */
  person: PersonName | null;
  path: string;
  /** Text that appears once the state is reached. */
  ready: string;
  /** Brings the opened page into the state. */
  enter?: (page: Page) => Promise<unknown>;
}

/** The widths at which no page may have an axe violation; `axeViolationsOf` checks both colour schemes. */
export const viewports: readonly Required<Pick<VisitOptions, "width">>[] = [
  { width: 320 },
  { width: 1440 },
];

/** A name of 250 characters, with letters of the other direction and a picture: no page may become wider by it. */
export const unwieldyName = `שרת ראשי 🔥 ${"x".repeat(238)}`;

const reports = "**/api/core/collector/health**";
const problem = (status: number, code: string) => (route: Route) =>
  route.fulfill({
    status,
    contentType: "application/problem+json",
    json: {
      type: `urn:svc:problem:${code}`,
      title: code,
      status,
      detail: "No answer",
      code,
      request_id: "request-1",
    },
  });
const failing = (status: number, code: string) => async (page: Page) => {
  await page.route(reports, problem(status, code));
  await page.reload();
};
const pressing =
  (...keys: string[]) =>
  async (page: Page) => {
    await page.locator(".row-link").first().waitFor();
    for (const key of keys) await page.keyboard.press(key);
  };
const pushing = (name: string) => async (page: Page) => {
  await page.locator(".row-link").first().waitFor();
  await page.getByRole("button", { name }).click();
};

const fleet = { person: "auditor", path: "/fleet" } as const;

/** The states of every page with a fleet that has rows. The state of an empty fleet needs an empty one. */
export const uiStates: readonly UiState[] = [
  { name: "login", person: null, path: "/login", ready: "Sign in with" },
  {
    name: "login, refused",
    person: null,
    path: "/login?reason=suspended&id=01920000-0000-7000-8000-0000000000e5",
    ready: "Your account is suspended",
  },
  { name: "home", person: "auditor", path: "/", ready: "Last checked" },
  { name: "home without audit", person: "reader", path: "/", ready: "Your scopes" },
  { name: "fleet", ...fleet, ready: "1 to " },
  { name: "fleet, no match", ...fleet, path: "/fleet?q=nowhere-at-all", ready: "No host matches" },
  { name: "fleet without audit", ...fleet, person: "reader", ready: "This page needs the scope" },
  {
    name: "fleet, audit lost",
    ...fleet,
    ready: "This report needs the scope",
    enter: failing(403, "forbidden"),
  },
  {
    name: "fleet, core unavailable",
    ...fleet,
    ready: "could not be loaded",
    enter: failing(503, "service_unavailable"),
  },
  {
    name: "fleet, old rows",
    ...fleet,
    ready: "These rows are old",
    enter: async (page) => {
      await page.locator(".row-link").first().waitFor();
      await page.route(reports, problem(503, "service_unavailable"));
      await page.keyboard.press("r");
    },
  },
  {
    name: "fleet, session ended",
    ...fleet,
    ready: "Your session has ended",
    enter: failing(401, "unauthenticated"),
  },
  {
    name: "fleet, loading",
    ...fleet,
    ready: "Loading",
    enter: async (page) => {
      await page.route(reports, () => undefined);
      await page.reload();
    },
  },
  { name: "drawer", ...fleet, ready: "Everything about this host", enter: pressing("j", "Enter") },
  { name: "suggestions", ...fleet, ready: "state:", enter: pressing("/", "s", "t") },
  {
    name: "query with a fault",
    ...fleet,
    ready: "A duration is a whole number",
    enter: pressing("/", ..."hb>soon", "Enter"),
  },
  { name: "export menu", ...fleet, ready: "Stale hosts", enter: pressing("e") },
  { name: "view menu", ...fleet, ready: "Two lines", enter: pushing("View") },
  {
    name: "legend",
    ...fleet,
    ready: "A host is in the first",
    enter: pushing("State definitions"),
  },
  { name: "audit", person: "auditor", path: "/changes/audit", ready: "Everything" },
  {
    name: "audit, no match",
    person: "auditor",
    path: "/changes/audit?target=nobody",
    ready: "No event matches",
  },
  {
    name: "audit, unknown filter",
    person: "auditor",
    path: "/changes/audit?sate=x",
    ready: "could not be loaded",
  },
  { name: "no such host", person: "auditor", path: "/hosts/nobody", ready: "No such host" },
  { name: "help", ...fleet, ready: "Keyboard shortcuts", enter: pressing("?") },
];

/**
 * Marks each cell of a table's body that looks like an earlier one of its column, in a row that looks the same: same elements, classes, states
 * and styles, another text; so, too, the parts of a list's items. Axe takes seconds for the hundred rows of a page, and finds the same in all
 * of them.
 */
const markTwins = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const attributesOf = (element: Element): string =>
      Array.from(element.attributes, ({ name, value }) => {
        if (/^(id|data-id|data-axe-twin)$/.test(name)) return "";
        if (/^(href|title|aria-label|datetime)$/.test(name)) return value === "" ? "" : name;
        return `${name}=${value.replaceAll(/[\d.]+/g, "0")}`;
      }).join(" ");
    /** Reports whether an element has text beside its children. */
    const hasText = ({ childNodes }: Element): boolean =>
      Array.from(childNodes).some((node) => node instanceof Text && node.data.trim() !== "");
    const lookOf = (element: Element): string =>
      `${element.localName} ${attributesOf(element)} ${hasText(element)} (${Array.from(element.children, lookOf)})`;
    for (const marked of document.querySelectorAll("[data-axe-twin]"))
      marked.removeAttribute("data-axe-twin");
    for (const body of document.querySelectorAll("tbody, ul, ol, [role=listbox]")) {
      const seen = new Set<string>();
      for (const row of body.children) {
        const parts = row.children.length > 0 ? Array.from(row.children) : [row];
        const twins = parts.filter((part, index) => {
          const look = `${attributesOf(row)} ${hasText(row)} ${index} ${lookOf(part)}`;
          return seen.size === seen.add(look).size;
        });
        // A row as a whole if it can be, and nothing that has the focus, which it would lose.
        for (const twin of twins.length === parts.length ? [row] : twins)
          if (!twin.contains(document.activeElement)) twin.setAttribute("data-axe-twin", "");
      }
    }
  });

/**
 * Runs axe, all rules or those given, without the twins. They are out of the page meanwhile, since axe also builds its tree and its grid of what
 * it is told to exclude; except where a part of the page would no longer scroll.
 */
const analyzeWithoutTwins = (
  page: Page,
  rules: readonly string[] = [],
): Promise<AxeResults["violations"]> =>
  page.evaluate(async (only) => {
    const scrollsOf = (area: Element) =>
      `${area.scrollHeight > area.clientHeight} ${area.scrollWidth > area.clientWidth}`;
    const areas = [...document.querySelectorAll("body *:has([data-axe-twin])")]
      .filter((area) => /auto|scroll/.test(getComputedStyle(area).overflow))
      .map((area) => ({
        area,
        scrolls: scrollsOf(area),
        left: area.scrollLeft,
        top: area.scrollTop,
      }));
    const { scrollX: left, scrollY: top } = window;
    const places = Array.from(document.querySelectorAll("[data-axe-twin]"), (twin) => {
      const place = document.createComment("");
      twin.replaceWith(place);
      return { twin, place };
    });
    const putBack = (some: typeof places) => {
      for (const { twin, place } of some.toReversed()) place.replaceWith(twin);
    };
    const still = areas.filter(({ area, scrolls }) => scrollsOf(area) !== scrolls);
    putBack(places.filter(({ place }) => still.some(({ area }) => area.contains(place))));
    try {
      const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
      const exclude = [["[data-axe-twin]"]];
      const runOnly = { type: "rule" as const, values: [...only] };
      const { violations } = await axe.run(
        { exclude },
        // Describing what passes takes half of axe's time.
        { resultTypes: ["violations"], ...(only.length > 0 && { runOnly }) },
      );
      return violations;
    } finally {
      putBack(places);
      for (const { area, ...at } of areas) area.scrollTo(at);
      scrollTo(left, top);
    }
  }, rules);

/**
 * Returns the axe violations of a page that was visited in the light scheme, each with its rule and first element: of all rules, then of
 * contrast in the dark scheme, since nothing else depends on colours. Of cells that look the same, axe sees one. Leaves the page in the light
 * scheme, with reduced motion.
 */
export const axeViolationsOf = async (page: Page): Promise<string[]> => {
  // A colour that still changes to the other scheme's has too little contrast for a moment.
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await markTwins(page);
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axeSource);
  const light = await analyzeWithoutTwins(page);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await analyzeWithoutTwins(page, ["color-contrast"]);
  await page.emulateMedia({ colorScheme: "light" });
  const describeAll = (scheme: string, violations: AxeResults["violations"]) =>
    violations.map(({ id, nodes }) => `${scheme}, ${id}: ${nodes[0]?.html}`);
  return [...describeAll("light", light), ...describeAll("dark", dark)];
};

/** Expects no axe violation, as `axeViolationsOf` finds them. */
export const expectAccessible = async (page: Page) =>
  expect(await axeViolationsOf(page)).toEqual([]);

/** Sets the text size of a page's browser, in percent of the usual one. */
const setTextSize = async (page: Page, percent: number) => {
  const browser = await page.context().newCDPSession(page);
  const fontSizes = { standard: 0.16 * percent, fixed: 0.13 * percent };
  await browser.send("Page.setFontSizes", { fontSizes });
  await browser.detach();
};

/** Returns by how many pixels a page is wider than its window, once what listens to the size has drawn: after 30 frames at the latest. */
const overflowOf = (page: Page) =>
  page.evaluate(async () => {
    const overflow = () => document.documentElement.scrollWidth - innerWidth;
    for (let frame = 0; frame < 2 || (frame < 30 && overflow() > 0); frame++)
      await new Promise(requestAnimationFrame);
    return overflow();
  });

/**
 * Returns what is wrong with the look of a page: its axe violations at each of `axeAt`, the widths at which it scrolls sideways, also with
 * text of twice the size, and what `check` finds at each width. Leaves the page at the narrowest, where what follows has the least room.
 */
export const flawsOf = async (
  page: Page,
  {
    check,
    axeAt = viewports,
  }: {
    check?: (page: Page) => Promise<string[]>;
    axeAt?: typeof viewports;
  } = {},
): Promise<string[]> => {
  const flaws: string[] = [];
  for (const width of [2560, 1440, 390, 320]) {
    await page.setViewportSize({ width, height: 900 });
    for (const percent of width === 1440 || width === 390 ? [200, 100] : [100]) {
      await setTextSize(page, percent);
      const overflow = await overflowOf(page);
      if (overflow > 0)
        flaws.push(`${width} px, text of ${percent} %: scrolls ${overflow} px sideways`);
    }
    for (const flaw of (await check?.(page)) ?? []) flaws.push(`${width} px: ${flaw}`);
    if (axeAt.some((viewport) => viewport.width === width))
      flaws.push(...(await axeViolationsOf(page)).map((violation) => `${width} px, ${violation}`));
  }
  return flaws;
};
