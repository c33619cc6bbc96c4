import { parseArgs } from "node:util";
import { systemClock } from "../../kit/clock.ts";
import { launchBrowser } from "../lab/browser.ts";
import { buildUi } from "../lab/built-ui.ts";
import { seedPeople } from "../lab/people.ts";
import { seedFleet } from "../lab/seed-fleet.ts";
import { uiStates, viewports } from "../lab/ui-states.ts";
import { visitPage } from "../lab/visit-page.ts";
import { openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import type { Bench } from "./bench.ts";
import { createBenchCore } from "./core.ts";
import { findViolations, measureArrival, measureBytes, measureInteractions, type Stage } from "./ui/measure.ts";
import { startBenchWeb } from "./web.ts";

/** Upper bounds: bytes, milliseconds, and the share of the window by which content moves. */
const goals = { fleetJs: 60 * 1024, loginJs: 15 * 1024, css: 12 * 1024, interactive: 1000, interaction: 100, shift: 0 };
const slowdown = 4;

/**
 * The user interface in Chromium, before core, web and PostgreSQL on the same machine: bytes that pages load, the time until `/fleet`
 * is interactive with its caches empty on a processor four times slower, at each of `--collectors` (1,000 or more), how long it takes to answer
 * inputs, what moves by itself, and what axe finds in every state, theme and width. The floor is the same slow processor with the
 * sign-in page, which has no script but the theme's.
 */
export const bench: Bench = async (args) => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      collectors: { type: "string", multiple: true, default: ["10000", "100000"] },
      runs: { type: "string", default: "7" },
      axe: { type: "boolean", default: true },
    },
    allowNegative: true,
  });
  const runs = Number(values.runs);
  const violations = values.axe ? await withFleet(0, checkStates) : null;
  const fleets = [];
  for (const count of values.collectors.map(Number))
    fleets.push({ collectors: count, ...(await withFleet(count, (stage) => measureFleet(stage, runs))) });
  const [fleet, drawer, home, login, floor] = await withFleet(60, (stage) => measurePages(stage, runs));

  const figure = Math.max(...fleets.map(({ interactive_ms }) => interactive_ms));
  const answers = fleets.flatMap(({ interaction_ms }) => Object.values(interaction_ms));
  const ok =
    figure < goals.interactive &&
    Math.max(...answers) < goals.interaction &&
    fleets.every(({ layout_shift }) => layout_shift <= goals.shift) &&
    fleet.js <= goals.fleetJs &&
    login.js <= goals.loginJs &&
    [fleet, drawer, home, login].every(({ css }) => css <= goals.css) &&
    violations?.found.length === 0;
  return {
    name: "ui",
    figure,
    unit: "ms",
    floor,
    ratio: Math.round((figure / floor) * 10) / 10,
    goal: goals.interactive,
    ok,
    details: {
      gzip_bytes: { fleet, "fleet with the drawer": drawer, home, login },
      fleets,
      axe: violations,
      slowdown,
      runs,
      goals,
      floor: "the sign-in page, loaded by the same slow processor",
    },
  };
};

/** Does something before a fleet of `count` collectors on a database of its own. */
const withFleet = async <Result>(
  count: number,
  work: (stage: Stage, grow: (count: number) => Promise<void>) => Promise<Result>,
): Promise<Result> => {
  const database = await openEmbeddedDatabase({ settings: { shared_buffers: "512MB" } });
  const browser = await launchBrowser();
  try {
    await seedPeople(database.db, systemClock.now());
    const grow = async (size: number) => {
      await seedFleet(database.db, { count: size, now: new Date(systemClock.now()) });
      // Seeding wrote each row some times in one go; a fleet that grew has no such holes.
      await database.sql.unsafe("vacuum full fleet_host");
      await database.sql.unsafe("vacuum analyze");
    };
    if (count > 0) await grow(count);
    const core = createBenchCore(database, { signer: null, clientCertificates: {} as never }, systemClock.now);
    const web = await startBenchWeb(core, { url: database.url, ui: await buildUi() });
    try {
      return await work({ browser, web }, grow);
    } finally {
      await web.close();
    }
  } finally {
    await browser.close();
    await database.close();
  }
};

const empty = {
  name: "fleet, empty",
  person: "auditor",
  path: "/fleet",
  ready: "No host is enrolled yet",
} as const;

const checkStates = async (stage: Stage, grow: (count: number) => Promise<void>) => {
  const found = await findViolations(stage, [empty]);
  await grow(60);
  found.push(...(await findViolations(stage, uiStates)));
  return { pages: (uiStates.length + 1) * viewports.length, found };
};

const measureFleet = async (stage: Stage, runs: number) => {
  // The first goes ahead: what a server that runs has in its caches is no part of it.
  await measureArrival(stage, 1);
  const arrivals = [];
  for (let run = 0; run < runs; run++) arrivals.push(await measureArrival(stage, slowdown));
  return {
    interactive_ms: median(arrivals.map(({ interactive }) => interactive)),
    first_rows_ms: median(arrivals.map(({ firstRows }) => firstRows)),
    all_rows_ms: median(arrivals.map(({ allRows }) => allRows)),
    layout_shift: Math.max(...arrivals.map(({ layoutShift }) => layoutShift)),
    interaction_ms: await measureInteractions(stage, 1),
    interaction_ms_on_slow: await measureInteractions(stage, slowdown),
  };
};

const measurePages = async (stage: Stage, runs: number) => {
  const floors = [];
  for (let run = 0; run < runs; run++) {
    const { page } = await visitPage(stage, null, "/login", { slowdown });
    floors.push(await page.evaluate(() => performance.now()));
    await page.context().close();
  }
  return [
    await measureBytes(stage, "/fleet"),
    await measureBytes(stage, "/fleet", {
      act: async (page) => {
        await page.locator(".row-link").first().click();
        await page.getByText("Certificate id", { exact: true }).waitFor();
      },
    }),
    await measureBytes(stage, "/"),
    await measureBytes(stage, "/login", { signedIn: false }),
    median(floors),
  ] as const;
};

const median = (samples: readonly number[]): number =>
  Math.round(samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 2)] ?? Number.NaN);
