/**
 * Times in words. Everything is computed from milliseconds and in UTC: the same input gives the same text in every time zone and
 * every locale, so that two people who compare screens see the same figures.
 */

import { formatCount } from "./amount.ts";

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

/** What is a moment here: RFC 3339 as the API writes it, or milliseconds since the epoch. */
export type Moment = string | number;

const milliseconds = (at: Moment): number => (typeof at === "number" ? at : Date.parse(at));

/**
 * A length of time in at most two units, rounded down: `12 s`, `4 min`, `3 h 20 min`, `3 d 4 h`, and days alone from ten on. Negative
 * lengths are written as their magnitude; one that is not a number is `unknown`.
 */
export const formatSpan = (seconds: number): string => {
  if (!Number.isFinite(seconds)) return "unknown";
  const whole = Math.floor(Math.abs(seconds));
  if (whole < minute) return `${whole} s`;
  if (whole < hour) return `${Math.floor(whole / minute)} min`;
  if (whole < day) return twoUnits(Math.floor(whole / hour), "h", Math.floor((whole % hour) / minute), "min");
  if (whole < 10 * day) return twoUnits(Math.floor(whole / day), "d", Math.floor((whole % day) / hour), "h");
  return `${formatCount(Math.floor(whole / day))} d`;
};

const twoUnits = (large: number, largeUnit: string, small: number, smallUnit: string): string =>
  small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;

/** How far ahead of `now` something that has happened may be stamped before the reader is told of it: two clocks never agree. */
const skewSecondsMax = 5;

/**
 * When something happened: `12 s ago`. A moment up to 5 s ahead, which is two clocks disagreeing, is `0 s ago`; one further ahead is
 * written as such, `4 min ahead`, because a clock is wrong.
 */
export const formatAgo = (at: Moment, now: number): string => {
  const seconds = (now - milliseconds(at)) / 1000;
  if (seconds < -skewSecondsMax) return `${formatSpan(seconds)} ahead`;
  return Number.isNaN(seconds) ? "unknown" : `${formatSpan(Math.max(0, seconds))} ago`;
};

/** When something is due: `in 9 d`, or `3 h ago` once it is past. */
export const formatUntil = (at: Moment, now: number): string => {
  const seconds = (milliseconds(at) - now) / 1000;
  if (Number.isNaN(seconds)) return "unknown";
  return seconds >= 0 ? `in ${formatSpan(seconds)}` : `${formatSpan(seconds)} ago`;
};

/** The absolute time, to the second: `2026-11-20 16:45:03 UTC`. */
export const formatMoment = (at: Moment): string => {
  const date = new Date(milliseconds(at));
  if (Number.isNaN(date.getTime())) return "unknown";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The day in UTC: `20 Nov`. */
export const formatDay = (at: Moment): string => {
  const date = new Date(milliseconds(at));
  return Number.isNaN(date.getTime()) ? "unknown" : `${date.getUTCDate()} ${months[date.getUTCMonth()]}`;
};
