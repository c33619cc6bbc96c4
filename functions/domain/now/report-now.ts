import type { Core } from "#functions/core.ts";
import { findClaims } from "#functions/store/now/claims.ts";
import { rfc3339, withTimeout } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { type NowReport, nowKinds, nowLinesMax } from "#proto/now/report.ts";
import { findHold } from "../watch/watches.ts";
import { takenBy } from "./claims.ts";
import { findWatchLines } from "./firing-watches.ts";
import type { FoundLine, FoundNow } from "./lines.ts";

/** The parts of core that report what needs a person. */
export type NowCore = Pick<Core, "config" | "db" | "clock" | "log" | "viewsShared">;

/** Callers share what was found for so long. */
const sharedMs = 5_000;
/** A source that takes longer is named instead; what it finds is in a later report. */
const sourceMsMax = 4_000;

/** Where lines come from. */
interface Source {
  kind: FoundLine["kind"];
  /** What core reads, in a sentence. */
  what: string;
  /** Where a person finds it meanwhile. */
  path: string;
  find(): Promise<FoundLine[]>;
}

const sourcesOf = (core: NowCore): readonly Source[] => [
  { kind: "watch", what: "the watches", path: "/watches", find: () => findWatchLines(core) },
];

/** Creates the function that finds what needs a person. A source that fails or is slow is a line of its own, and hides no other. */
export const createNowFinder = (core: NowCore): (() => Promise<FoundNow>) => {
  const sources = sourcesOf(core);
  const running = new Map<Source, Promise<FoundLine[]>>();
  const read = async (source: Source) => {
    const run = running.get(source) ?? source.find().finally(() => running.delete(source));
    running.set(source, run);
    try {
      return { lines: await withTimeout(sourceMsMax, core.clock, run) };
    } catch (err) {
      core.log.warn({ err, kind: source.kind }, "a source of Now could not be read");
      return { lines: [unreadLine(source)], unread: source.kind };
    }
  };
  const shared = core.viewsShared && { clock: core.viewsShared.clock, ms: sharedMs };
  const find = shareNextRun(
    async (_: null): Promise<FoundNow> => {
      const [hold, ...parts] = await Promise.all([findHold(core), ...sources.map(read)]);
      return {
        lines: parts.flatMap(({ lines }) => lines).sort(worstFirst),
        unread: new Set(parts.flatMap(({ unread }) => unread ?? [])),
        strip: [],
        hosts: null,
        hold,
      };
    },
    String,
    shared,
  );
  return () => find(null);
};

const unreadLine = ({ kind, what, path }: Source): FoundLine => ({
  key: `unread:${kind}`,
  kind: "unread",
  severity: "critical",
  since: null,
  count: null,
  sentence: `Core could not read ${what}: what needs you there is not on this page.`,
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

/** Returns the report of what was found, with who has taken which line. */
export const reportNow = async (
  { db, clock }: NowCore,
  { lines, strip, hosts, hold }: FoundNow,
): Promise<Omit<NowReport, "held_by"> & Pick<FoundNow, "hold">> => {
  const claims = new Map((await findClaims(db)).map((claim) => [claim.key, claim]));
  return {
    generated_at: rfc3339(clock.now()),
    lines: lines.slice(0, nowLinesMax).map((line) => ({ ...line, taken: takenBy(line, claims) })),
    lines_other: Math.max(0, lines.length - nowLinesMax),
    strip,
    hosts,
    hold,
  };
};
