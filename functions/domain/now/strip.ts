/** The figures of the last 24 hours, of the fleet, its data, and what people changed. */
import { countEventsByHour } from "#functions/store/audit/list.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findSeries } from "#functions/store/volume/report.ts";
import { dayMs, hourMs, minuteMs, rfc3339 } from "#kit/clock.ts";
import { changeActions } from "#proto/audit-actions.ts";
import { formatCount } from "#proto/format.ts";
import type { NowStrip } from "#proto/now/report.ts";
import type { FleetNow } from "./fleet-lines.ts";
import { fleetPath } from "./lines.ts";

const stepMs = 15 * minuteMs;

/** Returns how many hosts need attention, by quarters of an hour, and how many were a day ago: what is as usual needs nobody. */
export const fleetStrip = ({ view, summary, samples }: FleetNow): NowStrip => {
  const untilMs = Math.ceil(view.rules.now.getTime() / stepMs) * stepMs;
  const known = new Map(
    samples.map(({ at, needsAttention }) => [Math.floor(at.getTime() / stepMs), needsAttention]),
  );
  const points = pointsOf(known, { untilMs, stepMs, absent: null });
  const [before = null] = points;
  const present = summary.needsAttention;
  return {
    name: "fleet",
    label: `${present === 1 ? "host needs" : "hosts need"} attention${before === null ? "" : `, ${formatCount(before)} a day ago`}`,
    unit: "hosts",
    present,
    path: fleetPath({ attention: ["needed"] }),
    step_seconds: stepMs / 1000,
    until: rfc3339(untilMs),
    points,
  };
};

/** Returns the bytes that core stored, by whole hours. */
export const dataStrip = async (db: Executor, now: number): Promise<NowStrip> => {
  const untilMs = Math.floor(now / hourMs) * hourMs;
  const series = await findSeries(db, { fromMs: untilMs - dayMs, toMs: untilMs }, hourMs);
  const known = new Map([...series].map(([at, { payloadBytes }]) => [at / hourMs, payloadBytes]));
  const points = pointsOf(known, { untilMs, stepMs: hourMs, absent: 0 });
  return {
    name: "data",
    label: "stored in the last whole hour",
    unit: "bytes",
    present: points.at(-1) ?? null,
    path: "/data/volume",
    step_seconds: hourMs / 1000,
    until: rfc3339(untilMs),
    points,
  };
};

/** Returns the changes that people made, by the hour, with the hour that has begun. */
export const changesStrip = async (db: Executor, now: number): Promise<NowStrip> => {
  const untilMs = (Math.floor(now / hourMs) + 1) * hourMs;
  const since = new Date(untilMs - dayMs);
  const known = await countEventsByHour(db, { actions: changeActions, since, by: "people" });
  const points = pointsOf(known, { untilMs, stepMs: hourMs, absent: 0 });
  const present = points.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  return {
    name: "changes",
    label: `${present === 1 ? "change" : "changes"} by people in 24 h`,
    unit: "changes",
    present,
    path: `/changes/audit?by=people&kind=change&since=${rfc3339(since.getTime())}`,
    step_seconds: hourMs / 1000,
    until: rfc3339(untilMs),
    points,
  };
};

/** Returns the figure of each step of the last 24 hours, the oldest first. */
const pointsOf = (
  known: ReadonlyMap<number, number>,
  { untilMs, stepMs, absent }: { untilMs: number; stepMs: number; absent: number | null },
): (number | null)[] =>
  Array.from(
    { length: dayMs / stepMs },
    (_, index) => known.get((untilMs - dayMs) / stepMs + index) ?? absent,
  );
