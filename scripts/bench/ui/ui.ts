import { systemClock } from "#kit/clock.ts";
import { launchBrowser } from "#scripts/lab/browser.ts";
import { buildUi } from "#scripts/lab/built-ui.ts";
import { openWeb } from "#scripts/lab/in-process-web.ts";
import { visitPage } from "#scripts/lab/visit-page.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { openFleetDatabase, seedLargeFleet } from "../fleet/large-fleet.ts";
import { openReportingCore } from "../fleet/reports-lab.ts";
import { type Bench, median, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import {
  measureArrival,
  measureBytes,
  measureInteractions,
  type NavigationTimes,
  type Stage,
} from "./measure-ui.ts";

const slowdown = 4;
const interactiveMs = 1000;
const interactiveFloors = 5;

/**
 * Measures the user interface in Chromium, with core, web and PostgreSQL on the same machine: bytes that pages load, the time until
 * `/fleet` is interactive with empty caches on a processor four times slower, for each of `--hosts` (1,000 or more),
 * the time to respond to inputs, and layout shift. The floor is the
 * sign-in page on the same slow processor; it has no script but the theme's.
 */
export const uiBench: Bench = async (args) => {
  const { hosts, runs } = readCommandOptions({ hosts: "10000,100000", runs: 7 }, args);
  const fleets = [];
  for (const count of hosts.split(",").map(Number))
    fleets.push({
      hosts: count,
      ...(await withFleet(count, (stage) => measureFleet(stage, runs))),
    });
  const [fleet, drawer, home, login, floor] = await withFleet(60, (stage) =>
    measurePages(stage, runs),
  );

  const figure = Math.max(...fleets.map(({ interactive_ms }) => interactive_ms));
  // A machine whose hour is slow meets the goal by its ratio to the floor.
  const judged = judgeGoals("ui", {
    interactive: figure / Math.max(interactiveMs, interactiveFloors * floor),
    input_ms: Math.max(...fleets.flatMap((each) => Object.values(each.interaction_ms_on_slow))),
    layout_shift: Math.max(...fleets.map((each) => each.layout_shift)),
    fleet_kib: fleet.js / 1024,
    home_kib: home.js / 1024,
    login_kib: login.js / 1024,
    style_kib: Math.max(...[fleet, drawer, home, login].map(({ css }) => css)) / 1024,
  });
  return {
    figure,
    unit: "ms",
    floor,
    ratio: rounded(figure / floor, 1),
    ...judged,
    goal: interactiveMs,
    details: {
      gzip_bytes: { fleet, "fleet with the drawer": drawer, home, login },
      fleets,
      slowdown,
      runs,
      floor: "the sign-in page, loaded by the same slow processor",
    },
  };
};

/** Runs `work` on a fleet of `count` collectors, with a database of its own. */
const withFleet = async <Result>(
  count: number,
  work: (stage: Stage) => Promise<Result>,
): Promise<Result> => {
  await using database = await openFleetDatabase(systemClock.now());
  await using cleanup = new AsyncDisposableStack();
  const browser = cleanup.adopt(await launchBrowser([]), (browser) => browser.close());
  await seedLargeFleet(database, count, systemClock);
  const { core } = cleanup.use(openReportingCore(database.url, systemClock));
  const opened = await openWeb(core, { url: database.url, ui: await buildUi() });
  const web = cleanup.adopt(opened, (web) => web.close());
  return await work({ browser, web });
};

const measureFleet = async (stage: Stage, runs: number) => {
  // One arrival before fills the caches of the servers.
  await measureArrival(stage, 1);
  const arrivals: NavigationTimes[] = [];
  for (let run = 0; run < runs; run++) arrivals.push(await measureArrival(stage, slowdown));
  const middle = (name: keyof NavigationTimes) =>
    rounded(median(arrivals.map((times) => times[name])));
  return {
    interactive_ms: middle("interactive"),
    first_rows_ms: middle("firstRows"),
    all_rows_ms: middle("allRows"),
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
    rounded(median(floors)),
  ] as const;
};
