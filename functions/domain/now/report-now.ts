import type { Core } from "#functions/core.ts";
import { findClaims } from "#functions/store/now/claims.ts";
import { rfc3339, withTimeout } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { isHeld, type NowLine, type NowReport, nowKinds, nowLinesMax } from "#proto/now/report.ts";
import type { ViewCore } from "../fleet/rules.ts";
import { findHold } from "../watch/watches.ts";
import { takenBy } from "./claims.ts";
import {
  findIllComponents,
  findIncompleteHours,
  findMissingHosts,
  findWaitingRollouts,
} from "./deployment-lines.ts";
import { describeSilenced, findWatchLines } from "./firing-watches.ts";
import { type FleetNow, findLosses, findWorseStates, readFleetNow } from "./fleet-lines.ts";
import type { FindNow, FoundLine, FoundNow } from "./lines.ts";
import { changesStrip, dataStrip, fleetStrip } from "./strip.ts";

/** The parts of core that report what needs a person. */
export type NowCore = ViewCore & Pick<Core, "reports" | "log" | "hourColumns">;

/** Callers share what was found for so long. */
const sharedMs = 5_000;
/** The last result is still reported for so long while core looks again, so that nobody waits for a large fleet. */
const keptMs = 30_000;
/** A part that takes longer is named as unread, and is in a later report. */
const readMsMax = 2_500;
/** The bytes of a day take longer than that on a large fleet: until they are known, their line is empty. */
const dataMsMax = 500;

/** Where lines come from. */
interface Source {
  kind: FoundLine["kind"];
  /** The object of a sentence: `Core could not read …`. */
  what: string;
  /** Where a person finds it meanwhile. */
  path: string;
  find(fleet: Promise<FleetNow>): Promise<FoundLine[]>;
}

const sourcesOf = (core: NowCore): readonly Source[] => [
  { kind: "watch", what: "the watches", path: "/watches", find: () => findWatchLines(core) },
  {
    kind: "state",
    what: "the states of the hosts",
    path: "/fleet",
    find: async (fleet) => findWorseStates(await fleet),
  },
  {
    kind: "rollout",
    what: "the rollouts",
    path: "/changes/rollouts",
    find: () => findWaitingRollouts(core.db),
  },
  {
    kind: "ahead",
    what: "the next 72 hours",
    path: "/fleet",
    find: async (fleet) => findLosses(await fleet),
  },
  {
    kind: "hours",
    what: "the completeness of the last week",
    path: "/data/completeness",
    find: () => findIncompleteHours(core),
  },
  { kind: "system", what: "the system", path: "/system", find: () => findIllComponents(core) },
  {
    kind: "missing",
    what: "the inventory",
    path: "/access/inventory",
    find: () => findMissingHosts(core.db),
  },
];

/** Creates the function that finds what needs a person. What fails or is slow is a line of its own, and hides no other. */
export const createNowFinder = (core: NowCore): FindNow => {
  const { clock, log } = core;
  const sources = sourcesOf(core);
  const running = new Map<string, Promise<unknown>>();
  /** Starts a run, or joins the one that is still under way, so that a slow database gets no further ones. */
  const join = <Found>(name: string, find: () => Promise<Found>) => {
    const run = running.get(name) ?? find().finally(() => running.delete(name));
    running.set(name, run);
    return run as Promise<Found>;
  };
  const read = <Found>(name: string, find: () => Promise<Found>, ms = readMsMax) =>
    withTimeout(ms, clock, join(name, find)).catch((err: unknown) => {
      log.warn({ err, name }, "a part of Now could not be read");
      return undefined;
    });
  const findNow = async (): Promise<FoundNow> => {
    const now = clock.now();
    const fleet = join("fleet", () => readFleetNow(core));
    const [hold, known, silenced, data, changes, ...found] = await Promise.all([
      findHold(core),
      read("fleet", () => fleet),
      read("silenced", () => describeSilenced(core)),
      read("data", () => dataStrip(core.db, now), dataMsMax),
      read("changes", () => changesStrip(core.db, now)),
      ...sources.map(({ kind, find }) => read(kind, () => find(fleet))),
    ]);
    const unread = sources.filter((_, index) => found[index] === undefined);
    const lines = found.flatMap((each) => each ?? []);
    return {
      at: now,
      lines: [...withoutWatched(lines), ...unread.map(unreadLine)].sort(worstFirst),
      unread: new Set(unread.map(({ kind }) => kind)),
      strip: [known && fleetStrip(known), data, changes].filter((strip) => strip !== undefined),
      hosts: known?.summary.enrolled ?? null,
      silenced,
      hold,
    };
  };
  return shareFound(core, findNow);
};

/** Shares what was found among callers, if core shares views. */
const shareFound = ({ viewsShared, clock, log }: NowCore, findNow: FindNow): FindNow => {
  if (viewsShared === undefined) return findNow;
  let last: FoundNow | undefined;
  const findAgain = async (_: null) => {
    last = await findNow();
    return last;
  };
  const find = shareNextRun(findAgain, String, { clock: viewsShared.clock, ms: sharedMs });
  return (how) => {
    if (how?.isFresh) return findAgain(null);
    const run = find(null);
    if (last === undefined || Math.abs(clock.now() - last.at) > keptMs) return run;
    run.catch((err: unknown) => log.warn({ err }, "Now could not be read"));
    return Promise.resolve(last);
  };
};

/** Leaves out states whose hosts a watch that fires counts too. */
const withoutWatched = (lines: readonly FoundLine[]): FoundLine[] => {
  const watched = new Set(lines.flatMap(({ kind, path }) => (kind === "watch" ? path : [])));
  return lines.filter(({ kind, path }) => kind === "watch" || !watched.has(path));
};

const unreadLine = ({ kind, what, path }: Source): FoundLine => ({
  key: `unread:${kind}`,
  kind: "unread",
  severity: "critical",
  since: null,
  count: null,
  sentence: `Core could not read ${what}: this page shows nothing of it.`,
  evidence: null,
  path,
});

/** Orders critical lines before others, then by kind, then the larger count, then the older. */
const worstFirst = (a: FoundLine, b: FoundLine) =>
  Number(b.severity === "critical") - Number(a.severity === "critical") ||
  nowKinds.indexOf(a.kind) - nowKinds.indexOf(b.kind) ||
  (b.count ?? 0) - (a.count ?? 0) ||
  (a.since ?? "").localeCompare(b.since ?? "") ||
  a.key.localeCompare(b.key);

const untakenFirst = (a: NowLine, b: NowLine) => Number(isHeld(a)) - Number(isHeld(b));

/** Returns the report of what was found, with who has taken which line. */
export const reportNow = async (
  { db }: NowCore,
  { at, lines, strip, hosts, silenced, hold }: FoundNow,
): Promise<Omit<NowReport, "held_by"> & Pick<FoundNow, "hold">> => {
  const claims = new Map((await findClaims(db)).map((claim) => [claim.key, claim]));
  const claimed = lines.map((line) => ({ ...line, taken: takenBy(line, claims) }));
  return {
    generated_at: rfc3339(at),
    lines: claimed.sort(untakenFirst).slice(0, nowLinesMax),
    lines_other: Math.max(0, lines.length - nowLinesMax),
    strip,
    hosts,
    silenced,
    hold,
  };
};
