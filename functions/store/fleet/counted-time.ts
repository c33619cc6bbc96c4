/**
 * Excludes time from hosts' thresholds: while no core could receive, and until hosts had time to reconnect, silence says nothing about a
 * host.
 */
import { type SQL, sql } from "drizzle-orm";
import { choose, compare, type Expression, later, time } from "./columns/expression.ts";

/** A time in which no core could receive. */
export interface Outage {
  beganAt: Date;
  /** Null while it lasts. */
  endedAt: Date | null;
  /** When time counts for hosts again; null while it lasts. */
  countedFrom: Date | null;
  /** Cores ran through it: the database's clock skipped it. */
  isClockSkip?: boolean;
}

interface Span {
  from: number;
  until: number;
}

/** Returns the spans of outages in order, overlapping ones merged. */
const spansOf = (outages: readonly Outage[]): Span[] => {
  const spans: Span[] = [];
  for (const { beganAt, countedFrom } of outages.toSorted(
    (a, b) => a.beganAt.getTime() - b.beganAt.getTime(),
  )) {
    const span = {
      from: beganAt.getTime(),
      until: countedFrom?.getTime() ?? Number.POSITIVE_INFINITY,
    };
    const last = spans.at(-1);
    if (last && span.from <= last.until) last.until = Math.max(last.until, span.until);
    else spans.push(span);
  }
  return spans;
};

/** Returns the timestamp `seconds` of counted time before `at`. */
export const countedBefore = (at: Date, seconds: number, outages: readonly Outage[]): Date => {
  let end = at.getTime();
  let left = seconds * 1000;
  for (const { from, until } of spansOf(outages).toReversed()) {
    if (from >= end) continue;
    const counted = Math.max(0, end - until);
    if (left <= counted) break;
    left -= counted;
    end = from;
  }
  return new Date(end - left);
};

/** Returns the timestamp at which `seconds` of counted time have passed since `at`; infinitely late during an outage. */
export const countedAfter = (at: number, seconds: number, outages: readonly Outage[]): number => {
  let end = at + seconds * 1000;
  for (const { from, until } of spansOf(outages))
    if (end > from && until > at) end += until - Math.max(from, at);
  return end;
};

/** Returns how many seconds between two timestamps do not count. */
export const uncountedSeconds = (from: number, until: number, outages: readonly Outage[]): number =>
  spansOf(outages).reduce(
    (sum, span) => sum + Math.max(0, Math.min(until, span.until) - Math.max(from, span.from)),
    0,
  ) / 1000;

/** Reports whether a timestamp lies in time that does not count. */
export const isUncounted = (at: SQL, outages: readonly Outage[]): SQL => {
  const spans = spansOf(outages).map(
    ({ from, until }) => sql`(${at} >= ${time(from)} and ${at} < ${time(until)})`,
  );
  return spans.length === 0 ? sql`false` : sql`(${sql.join(spans, sql` or `)})`;
};

/** Returns `countedAfter` of a time: a case for each part of the timeline in which it is a constant, or a constant delay. */
export const countedAfterColumn = (
  at: Expression,
  seconds: number,
  outages: readonly Outage[],
): Expression => {
  const spans = spansOf(outages);
  const borders = spans
    .flatMap(({ from, until }) => [
      from,
      until,
      countedBefore(new Date(from), seconds, outages).getTime(),
    ])
    .filter(Number.isFinite)
    .toSorted((a, b) => a - b);
  const cases = borders.map((border, index) => {
    const next = borders[index + 1] ?? border + 1000;
    const inside = (border + next) / 2;
    const end = countedAfter(inside, seconds, outages);
    const isConstant = spans.some(({ from, until }) => from <= inside && inside < until);
    const value =
      isConstant || end === Number.POSITIVE_INFINITY ? time(end) : later(at, end - inside);
    return [compare(at, ">", time(border)), value] as const;
  });
  return choose(cases.toReversed(), later(at, seconds * 1000));
};
