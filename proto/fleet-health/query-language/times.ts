/** Times as an operator writes them: `10:00`, `2026-11-28`, `weekend`. The filter has them in UTC, to the second. */
import { parseDuration } from "./duration.ts";

const daySeconds = 86_400;

/** Writes a time as the filter has it; milliseconds are cut. */
const utcOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;

/** When and where a query is written: `local` is the time zone of the program. */
export interface Moment {
  now: Date;
  zone: "utc" | "local";
}

type Fields = [year: number, month: number, day: number, hours?: number, minutes?: number, seconds?: number];

/** The fields of a time in a zone, the month counted from 0, and its day of the week from Sunday. */
const fieldsOf = (at: Date, zone: Moment["zone"]) =>
  zone === "utc"
    ? {
        year: at.getUTCFullYear(),
        month: at.getUTCMonth(),
        day: at.getUTCDate(),
        hours: at.getUTCHours(),
        minutes: at.getUTCMinutes(),
        seconds: at.getUTCSeconds(),
        weekday: at.getUTCDay(),
      }
    : {
        year: at.getFullYear(),
        month: at.getMonth(),
        day: at.getDate(),
        hours: at.getHours(),
        minutes: at.getMinutes(),
        seconds: at.getSeconds(),
        weekday: at.getDay(),
      };

const timeOf = (zone: Moment["zone"], ...fields: Fields): Date =>
  zone === "utc" ? new Date(Date.UTC(...fields)) : new Date(...fields);

const two = (part: number): string => String(part).padStart(2, "0");
const dateOf = (at: Date, zone: Moment["zone"]): string => {
  const { year, month, day } = fieldsOf(at, zone);
  return `${String(year).padStart(4, "0")}-${two(month + 1)}-${two(day)}`;
};
const clockOf = (at: Date, zone: Moment["zone"]): string => {
  const { hours, minutes, seconds } = fieldsOf(at, zone);
  return `${two(hours)}:${two(minutes)}${seconds === 0 ? "" : `:${two(seconds)}`}`;
};

/** The start of the day `days` after the day of `at`. */
const dayFrom = (at: Date, days: number, zone: Moment["zone"]): Date => {
  const { year, month, day } = fieldsOf(at, zone);
  return timeOf(zone, year, month, day + days);
};

const datePattern = /^(\d{4})-(\d\d)-(\d\d)$/;
const clockPattern = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/;
const utcPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Returns the start of a day such as `2026-11-28`; undefined if there is no such day. */
const readDate = (text: string, zone: Moment["zone"]): Date | undefined => {
  const [, year, month, day] = datePattern.exec(text) ?? [];
  if (year === undefined || Number(year) < 1970 || Number(year) > 9998) return undefined;
  const date = timeOf(zone, Number(year), Number(month) - 1, Number(day));
  return dateOf(date, zone) === text ? date : undefined;
};

/** Returns the time of day on the day of `at`; undefined if it is none, or skipped by a change of the clocks. */
const readClock = (text: string, at: Date, zone: Moment["zone"]): Date | undefined => {
  const [, ...parts] = clockPattern.exec(text) ?? [];
  if (parts.length === 0) return undefined;
  const [hours = 0, minutes = 0, seconds = 0] = parts.map((part) => Number(part ?? 0));
  const { year, month, day } = fieldsOf(at, zone);
  const time = timeOf(zone, year, month, day, hours, minutes, seconds);
  const read = fieldsOf(time, zone);
  return read.hours === hours && read.minutes === minutes && read.seconds === seconds ? time : undefined;
};

const readDateTime = (text: string, zone: Moment["zone"]): Date | undefined => {
  if (utcPattern.test(text)) {
    const at = new Date(text);
    return Number.isNaN(at.getTime()) || utcOf(at) !== text ? undefined : at;
  }
  const [date = "", clock = "", ...more] = text.split("T");
  const day = readDate(date, zone);
  return day === undefined || more.length > 0 ? undefined : readClock(clock, day, zone);
};

/**
 * Reads a time in the past: `10:00` is the last time that it was ten, `2h` two hours ago; also `today`, `yesterday`, a date, a date and a
 * time as `2026-11-28T10:00`, and a time in UTC with a `Z`. Undefined for other text.
 */
export const readTime = (text: string, moment: Moment): string | undefined => {
  const at = timeIn(text, moment);
  return at === undefined ? undefined : utcOf(at);
};

const timeIn = (text: string, { now, zone }: Moment): Date | undefined => {
  if (text === "today") return dayFrom(now, 0, zone);
  if (text === "yesterday") return dayFrom(now, -1, zone);
  const seconds = parseDuration(text);
  if (seconds !== undefined) return new Date(now.getTime() - seconds * 1000);
  if (!clockPattern.test(text)) return readDate(text, zone) ?? readDateTime(text, zone);
  const today = readClock(text, now, zone);
  return today !== undefined && today <= now ? today : readClock(text, dayFrom(now, -1, zone), zone);
};

/** Writes a time so that `readTime` reads it back: as short as that allows. */
export const writeTime = (time: string, moment: Moment): string => {
  const at = new Date(time);
  const [date, clock] = [dateOf(at, moment.zone), clockOf(at, moment.zone)];
  return [clock, date, `${date}T${clock}`].find((text) => readTime(text, moment) === time) ?? time;
};

/**
 * Reads a range of times as `FROM..TO` in UTC: `today`, `tomorrow`, `weekend` (this one until it is over), a day, or two days or times
 * with `..` between them; a day at the end is included. Undefined for other text.
 */
export const readRange = (text: string, moment: Moment): string | undefined => {
  const [from, to] = rangeIn(text, moment) ?? [];
  return from === undefined || to === undefined || utcOf(from) >= utcOf(to)
    ? undefined
    : `${utcOf(from)}..${utcOf(to)}`;
};

const rangeIn = (text: string, { now, zone }: Moment): [Date | undefined, Date | undefined] | undefined => {
  const name = text.toLowerCase();
  if (name === "today" || name === "tomorrow") {
    const days = name === "today" ? 0 : 1;
    return [dayFrom(now, days, zone), dayFrom(now, days + 1, zone)];
  }
  if (name === "weekend") {
    // Saturday is 6 and Sunday 0: on a Sunday the weekend began yesterday.
    const { weekday } = fieldsOf(now, zone);
    const days = weekday === 0 ? -1 : 6 - weekday;
    return [dayFrom(now, days, zone), dayFrom(now, days + 2, zone)];
  }
  const [first = "", last = first, ...more] = text.split("..");
  if (more.length > 0) return undefined;
  const lastDay = readDate(last, zone);
  return [
    readDate(first, zone) ?? readDateTime(first, zone),
    lastDay ? dayFrom(lastDay, 1, zone) : readDateTime(last, zone),
  ];
};

/** Writes a range so that `readRange` reads it back: in days if it begins and ends with one. */
export const writeRange = (range: string, moment: Moment): string => {
  const [from = "", to = ""] = range.split("..");
  const [start, end] = [new Date(from), new Date(to)];
  const date = (at: Date) => dateOf(at, moment.zone);
  const dateTime = (at: Date) => `${date(at)}T${clockOf(at, moment.zone)}`;
  const lastDay = date(new Date(end.getTime() - (daySeconds / 2) * 1000));
  const written = [
    date(start),
    `${date(start)}..${lastDay}`,
    `${date(start)}..${dateTime(end)}`,
    `${dateTime(start)}..${lastDay}`,
    `${dateTime(start)}..${dateTime(end)}`,
  ];
  return written.find((text) => readRange(text, moment) === range) ?? range;
};
