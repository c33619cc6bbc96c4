/** Lines of what runs beside the fleet: rollouts, settled hours, the system, and the inventory. */
import type { Core } from "#functions/core.ts";
import { troubleGapHours } from "#functions/store/completeness/days.ts";
import {
  type FleetHourCounts,
  findHourCounts,
  findMatchingHosts,
} from "#functions/store/completeness/report.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { countMissing } from "#functions/store/inventory/inventory.ts";
import { type DescribedRollout, listRollouts } from "#functions/store/rollout/rollouts.ts";
import { dayMs, hourMs, rfc3339 } from "#kit/clock.ts";
import {
  countIncomplete,
  type HourState,
  incompleteStates,
} from "#proto/completeness/hour-state.ts";
import { formatCount, formatCountOf } from "#proto/format.ts";
import { plainLine } from "#proto/plain-text.ts";
import { describePart, groupParts, isIll, type PartGroup } from "#proto/system/parts.ts";
import { reportSystem } from "../system/report-system.ts";
import { type FoundLine, spanUtc } from "./lines.ts";

/** The most rollouts that are read. */
const rolloutsMax = 100;

/** Returns a line for each rollout that waits for a decision. */
export const findWaitingRollouts = async (db: Executor): Promise<FoundLine[]> => {
  const page = { after: null, limit: rolloutsMax };
  const { rows } = await listRollouts(db, { states: ["paused"] }, page);
  return rows.map(lineOfRollout);
};

const lineOfRollout = (row: DescribedRollout): FoundLine => {
  const failed = row.waves.reduce((sum, wave) => sum + wave.failed, 0);
  const name = plainLine(row.configName ?? row.configHash.slice(0, 12));
  const [first] = row.breach?.evidence ?? [];
  return {
    key: `rollout:${row.id}`,
    kind: "rollout",
    severity: row.reasonCode === "operator" ? "warning" : "critical",
    since: rfc3339(row.updatedAt.getTime()),
    count: failed || null,
    sentence: `The rollout of ${name} is paused in wave ${row.wave} of ${row.waves.length}: ${whyPaused(row, failed)}.`,
    evidence: first ? `First: ${plainLine(first.identity)}: ${plainLine(first.detail)}.` : null,
    path: `/changes/rollouts/${row.id}${failed === 0 ? "" : "?status=failed"}`,
  };
};

const whyPaused = ({ reasonCode, reason }: DescribedRollout, failed: number) => {
  const hosts = `${formatCountOf(failed, "host")} failed`;
  switch (reasonCode) {
    case "worse_than_control":
      return `its hosts do worse than unchanged ones${failed === 0 ? "" : `, and ${hosts}`}`;
    case "database_restored":
      return "the database was restored from a backup";
    case "operator":
      return `somebody paused it${reason === null ? "" : ` (${plainLine(reason)})`}`;
    default:
      return hosts;
  }
};

/** Completeness is looked at for so long. */
const weekMs = 7 * dayMs;

/** Returns a line for each trouble of the last week: hours that are not complete. */
export const findIncompleteHours = async (
  core: Pick<Core, "db" | "clock" | "hourColumns">,
): Promise<FoundLine[]> => {
  const toMs = Math.ceil(core.clock.now() / hourMs) * hourMs;
  const counts = await findHourCounts(core.db, { fromMs: toMs - weekMs, toMs });
  return Promise.all([...troublesOf(counts)].map((trouble) => lineOfTrouble(core, ...trouble)));
};

/** Groups incomplete hours by the first hour of their trouble, which one of an older core does not name. */
const troublesOf = (counts: readonly FleetHourCounts[]): Map<number, FleetHourCounts[]> => {
  const troubles = new Map<number, FleetHourCounts[]>();
  let last = { hourStartMs: 0, fromMs: 0 };
  for (const hour of counts) {
    if (countIncomplete((state) => hour.hosts.get(state)) === 0) continue;
    const isNear = hour.hourStartMs - last.hourStartMs <= troubleGapHours * hourMs;
    const fromMs = hour.incompleteFromMs ?? (isNear ? last.fromMs : hour.hourStartMs);
    troubles.set(fromMs, [...(troubles.get(fromMs) ?? []), hour]);
    last = { ...hour, fromMs };
  }
  return troubles;
};

const lineOfTrouble = async (
  { db, hourColumns }: Pick<Core, "db" | "hourColumns">,
  beganMs: number,
  found: readonly FleetHourCounts[],
): Promise<FoundLine> => {
  const fromMs = found[0]?.hourStartMs ?? 0;
  const toMs = (found.at(-1)?.hourStartMs ?? 0) + hourMs;
  const findHosts = (states: readonly HourState[]) =>
    findMatchingHosts(
      db,
      { fromMs, toMs, states, host: null },
      { after: null, limit: 1 },
      hourColumns,
    );
  const isShort = found.some(({ hosts }) => (hosts.get("short") ?? 0) > 0);
  const [{ rows, total }, losers] = await Promise.all([
    findHosts(incompleteStates),
    isShort ? findHosts(["short"]) : { total: 0 },
  ]);
  const params = new URLSearchParams({ from: rfc3339(fromMs), to: rfc3339(toMs) });
  return {
    key: `hours:${rfc3339(beganMs).slice(0, 13)}`,
    kind: "hours",
    severity: isShort ? "critical" : "warning",
    since: rfc3339(beganMs),
    count: total,
    sentence: `Data of ${formatCountOf(total, "host")} is incomplete from ${spanUtc(fromMs, toMs)}.`,
    evidence: [
      isShort
        ? `${losers.total === total ? "All" : formatCount(losers.total)} of them lost records.`
        : "The hourly reports may still arrive.",
      ...rows.map(
        ({ host, hours: worst }) => `Worst: ${plainLine(host)}, ${formatCountOf(worst, "hour")}.`,
      ),
    ].join(" "),
    path: `/data/completeness?${params}`,
  };
};

/** Returns a line for each component of the system that is not ready, or has a warning. */
export const findIllComponents = async (
  core: Parameters<typeof reportSystem>[0],
): Promise<FoundLine[]> => {
  const { parts } = await reportSystem(core);
  return groupParts(parts)
    .filter(({ worst }) => isIll(worst))
    .map(lineOfComponent);
};

const lineOfComponent = ({ component, title, worst, parts }: PartGroup): FoundLine => {
  const others = parts.filter(isIll).length - 1;
  return {
    key: `system:${[component, ...(title.includes(" ") ? [worst.of] : [])].join(":")}`,
    kind: "system",
    severity: worst.state === "not_ready" ? "critical" : "warning",
    // An export that is behind dates it by its oldest envelope, which changes all the time.
    since: component === "export" ? null : worst.since,
    count: null,
    sentence: `${plainLine(title)} (${describePart(worst).title}): ${steady(plainLine(worst.detail))}`,
    evidence:
      others === 0
        ? null
        : `${formatCountOf(others, "other check needs", "other checks need")} attention too.`,
    path: "/system",
  };
};

/** Rounds down the figures that move every second, `900+ s`, so that a report is new only when something has changed. */
const steady = (detail: string) =>
  detail.replace(/(?<![\d.])\d+(?= (?:stored )?envelopes| s\b)/g, (figure) => {
    const least = Number(figure[0]) * 10 ** (figure.length - 1);
    return `${formatCount(least)}${least === Number(figure) ? "" : "+"}`;
  });

/** Returns a line for the hosts of the inventory that have never enrolled. */
export const findMissingHosts = async (db: Executor): Promise<FoundLine[]> => {
  const count = await countMissing(db);
  if (count === 0) return [];
  return [
    {
      key: "missing",
      kind: "missing",
      severity: "warning",
      since: null,
      count,
      sentence: `${formatCountOf(count, "host")} of the inventory ${count === 1 ? "has" : "have"} never enrolled.`,
      evidence: null,
      path: "/access/inventory?status=missing",
    },
  ];
};
