/**
 * Times as an operator writes them: `10:00`, `2026-11-28`, `weekend`. All are UTC, wherever they are written, so that a query names the same
 * hosts on every machine. The filter has them to the second.
 */
import { dayMs } from "#kit/clock.ts";
import { toSecond } from "../filter.ts";
import { parseDuration } from "./quantities.ts";

const dateOf = (at: Date) => at.toISOString().slice(0, 10);
const clockOf = (at: Date) => {
  const clock = at.toISOString().slice(11, 19);
  return clock.endsWith(":00") ? clock.slice(0, 5) : clock;
};

/** The start of the day `days` after the day of `at`. */
const dayFrom = (at: Date, days: number): Date =>
  new Date((Math.floor(at.getTime() / dayMs) + days) * dayMs);

const datePattern = /^(\d{4})-(\d\d)-(\d\d)$/;
const clockPattern = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/;
const utcPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Returns the start of a day such as `2026-11-28`; undefined if there is no such day. */
const readDate = (text: string): Date | undefined => {
  const [, year, month, day] = datePattern.exec(text) ?? [];
  if (year === undefined || Number(year) < 1970 || Number(year) > 9998) return undefined;
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)));
  return dateOf(date) === text ? date : undefined;
};

/** Returns the time of day on the day of `at`; undefined if it is none. */
const readClock = (text: string, at: Date): Date | undefined => {
  const [, ...parts] = clockPattern.exec(text) ?? [];
  if (parts.length === 0) return undefined;
  const [hours = 0, minutes = 0, seconds = 0] = parts.map((part) => Number(part ?? 0));
  if (hours > 23 || minutes > 59 || seconds > 59) return undefined;
  return new Date(dayFrom(at, 0).getTime() + ((hours * 60 + minutes) * 60 + seconds) * 1000);
};

const readDateTime = (text: string): Date | undefined => {
  if (utcPattern.test(text)) {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) || toSecond(at) !== text ? undefined : at;
  }
  const [date = "", clock = "", ...more] = text.split("T");
  const day = readDate(date);
  return day === undefined || more.length > 0 ? undefined : readClock(clock, day);
};

/**
 * Reads a time in the past: `10:00` is the last time that it was ten, `2h` two hours ago; also `today`, `yesterday`, a date, a date and a
 * time as `2026-11-28T10:00`, and a time in UTC with a `Z`. Undefined for other text.
 */
export const readTime = (text: string, now: Date): string | undefined => {
  const at = timeIn(text, now);
  return at === undefined ? undefined : toSecond(at);
};

const timeIn = (text: string, now: Date): Date | undefined => {
  if (text === "today") return dayFrom(now, 0);
  if (text === "yesterday") return dayFrom(now, -1);
  const seconds = parseDuration(text);
  if (seconds !== undefined) return new Date(now.getTime() - seconds * 1000);
  if (!clockPattern.test(text)) return readDate(text) ?? readDateTime(text);
  const today = readClock(text, now);
  return today !== undefined && today <= now ? today : readClock(text, dayFrom(now, -1));
};

/** Writes a time so that `readTime` reads it back: as short as that allows. */
export const writeQueryTime = (time: string, now: Date): string => {
  const at = new Date(time);
  const date = dateOf(at);
  const clock = clockOf(at);
  return [clock, date, `${date}T${clock}`].find((text) => readTime(text, now) === time) ?? time;
};

/**
 * Reads a range of times as `FROM..TO` in UTC: `today`, `tomorrow`, `weekend` (this one until it is over), a day, or two days or times
 * with `..` between them; a day at the end is included. Undefined for other text.
 */
export const readRange = (text: string, now: Date): string | undefined => {
  const [from, to] = rangeIn(text, now) ?? [];
  return from === undefined || to === undefined || toSecond(from) >= toSecond(to)
    ? undefined
    : `${toSecond(from)}..${toSecond(to)}`;
};

const rangeIn = (text: string, now: Date): [Date | undefined, Date | undefined] | undefined => {
  const name = text.toLowerCase();
  if (name === "today" || name === "tomorrow") {
    const days = name === "today" ? 0 : 1;
    return [dayFrom(now, days), dayFrom(now, days + 1)];
  }
  if (name === "weekend") {
    // Saturday is 6 and Sunday 0: on a Sunday the weekend began yesterday.
    const weekday = now.getUTCDay();
    const days = weekday === 0 ? -1 : 6 - weekday;
    return [dayFrom(now, days), dayFrom(now, days + 2)];
  }
  const [first = "", last = first, ...more] = text.split("..");
  if (more.length > 0) return undefined;
  const lastDay = readDate(last);
  return [
    readDate(first) ?? readDateTime(first),
    lastDay ? dayFrom(lastDay, 1) : readDateTime(last),
  ];
};

/** Writes a range so that `readRange` reads it back: in days if it begins and ends with one. */
export const writeRange = (range: string, now: Date): string => {
  const [from = "", to = ""] = range.split("..");
  const start = new Date(from);
  const end = new Date(to);
  const date = (at: Date) => dateOf(at);
  const dateTime = (at: Date) => `${date(at)}T${clockOf(at)}`;
  const lastDay = date(new Date(end.getTime() - dayMs / 2));
  const written = [
    date(start),
    `${date(start)}..${lastDay}`,
    `${date(start)}..${dateTime(end)}`,
    `${dateTime(start)}..${lastDay}`,
    `${dateTime(start)}..${dateTime(end)}`,
  ];
  return written.find((text) => readRange(text, now) === range) ?? range;
};
