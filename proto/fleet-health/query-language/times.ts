/**
 * Times as an operator writes them, in the time zone of the program that parses: `10:00`, `2026-11-28`, `weekend`. The filter has them in
 * UTC, to the second.
 */
import { parseDuration } from "./duration.ts";

const daySeconds = 86_400;

/** Writes a time as the filter has it; milliseconds are cut. */
const utcOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;

const two = (part: number): string => String(part).padStart(2, "0");
const dateOf = (at: Date): string =>
  `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const clockOf = (at: Date): string =>
  `${two(at.getHours())}:${two(at.getMinutes())}${at.getSeconds() === 0 ? "" : `:${two(at.getSeconds())}`}`;

/** The start of the day `days` after the day of `at`. */
const dayFrom = (at: Date, days: number): Date => new Date(at.getFullYear(), at.getMonth(), at.getDate() + days);

const datePattern = /^(\d{4})-(\d\d)-(\d\d)$/;
const clockPattern = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/;
const utcPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Returns the start of a day such as `2026-11-28`; undefined if there is no such day. */
const readDate = (text: string): Date | undefined => {
  const [, year, month, day] = datePattern.exec(text) ?? [];
  if (year === undefined || Number(year) < 1970 || Number(year) > 9998) return undefined;
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  return dateOf(date) === text ? date : undefined;
};

/** Returns the time of day on the day of `day`; undefined if it is none, or skipped by a change of the clocks. */
const readClock = (text: string, day: Date): Date | undefined => {
  const [, hours, minutes, seconds = "0"] = clockPattern.exec(text) ?? [];
  if (hours === undefined) return undefined;
  const at = new Date(
    day.getFullYear(),
    day.getMonth(),
    day.getDate(),
    Number(hours),
    Number(minutes),
    Number(seconds),
  );
  const isReal = at.getHours() === Number(hours) && at.getMinutes() === Number(minutes) && Number(seconds) < 60;
  return isReal ? at : undefined;
};

const readDateTime = (text: string): Date | undefined => {
  if (utcPattern.test(text)) {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) || utcOf(at) !== text ? undefined : at;
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
  return at === undefined ? undefined : utcOf(at);
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
export const writeTime = (time: string, now: Date): string => {
  const at = new Date(time);
  const written = [clockOf(at), dateOf(at), `${dateOf(at)}T${clockOf(at)}`];
  return written.find((text) => readTime(text, now) === time) ?? time;
};

/**
 * Reads a range of times as `FROM..TO` in UTC: `today`, `tomorrow`, `weekend` (this one until it is over), a day, or two days or times
 * with `..` between them; a day at the end is included. Undefined for other text.
 */
export const readRange = (text: string, now: Date): string | undefined => {
  const [from, to] = rangeIn(text, now) ?? [];
  return from === undefined || to === undefined || utcOf(from) >= utcOf(to)
    ? undefined
    : `${utcOf(from)}..${utcOf(to)}`;
};

const rangeIn = (text: string, now: Date): [Date | undefined, Date | undefined] | undefined => {
  const name = text.toLowerCase();
  if (name === "today" || name === "tomorrow") {
    const days = name === "today" ? 0 : 1;
    return [dayFrom(now, days), dayFrom(now, days + 1)];
  }
  if (name === "weekend") {
    // Saturday is 6 and Sunday 0: on a Sunday the weekend began yesterday.
    const days = now.getDay() === 0 ? -1 : 6 - now.getDay();
    return [dayFrom(now, days), dayFrom(now, days + 2)];
  }
  const [first = "", last = first, ...more] = text.split("..");
  if (more.length > 0) return undefined;
  const lastDay = readDate(last);
  return [readDate(first) ?? readDateTime(first), lastDay ? dayFrom(lastDay, 1) : readDateTime(last)];
};

/** Writes a range so that `readRange` reads it back: in days if it begins and ends with one. */
export const writeRange = (range: string, now: Date): string => {
  const [from = "", to = ""] = range.split("..");
  const [start, end] = [new Date(from), new Date(to)];
  const lastDay = dateOf(new Date(end.getTime() - (daySeconds / 2) * 1000));
  const startTime = `${dateOf(start)}T${clockOf(start)}`;
  const endTime = `${dateOf(end)}T${clockOf(end)}`;
  const written = [
    dateOf(start),
    `${dateOf(start)}..${lastDay}`,
    `${dateOf(start)}..${endTime}`,
    `${startTime}..${lastDay}`,
    `${startTime}..${endTime}`,
  ];
  return written.find((text) => readRange(text, now) === range) ?? range;
};
