import { rfc3339 } from "#kit/clock.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";

/** The name of a format in a config. */
export type SyslogFormat = Extract<SourceConfig, { type: "syslog" }>["format"];

/** A message: its text without the header, and what the header says. */
export interface SyslogMessage {
  readonly text: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** What is known of a message so far: `rest` is not parsed yet. */
interface Parsing {
  rest: string;
  readonly attributes: Record<string, string>;
}

const priorityMax = 191;

/**
 * Parses a message by RFC 5424 or RFC 3164, and what devices send that is neither: without a priority, a time or a name of the host, or in
 * the forms of Cisco. Returns undefined if there is no header; its text is the message then.
 */
export const parseMessage = (
  text: string,
  format: SyslogFormat,
  nowMs: number,
): SyslogMessage | undefined => {
  const [head = "", priority] = /^<(\d{1,3})>/.exec(text) ?? [];
  if (Number(priority) > priorityMax) return undefined;
  const attributes: Record<string, string> = {};
  if (priority !== undefined) {
    attributes["syslog.facility.code"] = `${Number(priority) >> 3}`;
    attributes["syslog.severity.code"] = `${Number(priority) & 7}`;
  }
  const parsing = { rest: text.slice(head.length), attributes };
  const isParsed =
    (format !== "rfc3164" && priority !== undefined && readRfc5424(parsing)) ||
    (format !== "rfc5424" && readRfc3164(parsing, priority !== undefined, nowMs));
  return isParsed ? { text: parsing.rest, attributes } : undefined;
};

/** Adds an attribute. Core rejects NUL in one. */
const put = ({ attributes }: Parsing, name: string, value: string | undefined) => {
  if (value !== undefined) attributes[name] = value.replaceAll("\0", "\ufffd");
};

const header5424 =
  /^1 (?:-|(\d{4}-\S{1,40})) (?:-|(\S{1,255})) (?:-|(\S{1,255})) (?:-|(\S{1,255})) (?:-|(\S{1,255})) /;

const readRfc5424 = (parsing: Parsing): boolean => {
  const [head, time, ...fields] = header5424.exec(parsing.rest) ?? [];
  if (head === undefined) return false;
  putIsoTime(parsing, time);
  put(parsing, "syslog.version", "1");
  for (const [index, name] of ["hostname", "appname", "procid", "msgid"].entries())
    put(parsing, `syslog.${name}`, fields[index]);
  const text = parsing.rest.slice(head.length);
  const data = readStructuredData(text);
  for (const [name, value] of data.values) put(parsing, `syslog.structured_data.${name}`, value);
  parsing.rest = text.slice(data.end).replace(/^ ?\ufeff?/, "");
  return true;
};

const parametersMax = 64;
const noData = { values: new Map<string, string>(), end: 0 };
const elementStart = /\[([!#-<>-\\^-~]{1,255})/y;
const parameterStart = / +([!#-<>-\\^-~]{1,255})="/y;

/** Returns the parameters of structured data by name, and where they end. Of data that is malformed, or too much, none: it stays in the text. */
const readStructuredData = (text: string): { values: Map<string, string>; end: number } => {
  if (/^-(?= |$)/.test(text)) return { ...noData, end: 1 };
  const values = new Map<string, string>();
  let at = 0;
  while (text[at] === "[") {
    const id = matchAt(elementStart, text, at);
    if (id === undefined) return noData;
    at += id[0].length;
    for (let start = matchAt(parameterStart, text, at); start; ) {
      const from = at + start[0].length;
      const end = endOfValue(text, from);
      if (end === -1 || values.size === parametersMax) return noData;
      const name = `${id[1]}.${start[1]}`;
      const value = text.slice(from, end).replace(/\\(["\\\]])/g, "$1");
      const before = values.get(name);
      values.set(name, before === undefined ? value : `${before},${value}`);
      at = end + 1;
      start = matchAt(parameterStart, text, at);
    }
    if (text[at] !== "]") return noData;
    at += 1;
  }
  return { values, end: at };
};

const matchAt = (pattern: RegExp, text: string, at: number): RegExpExecArray | undefined => {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
};

/** Returns where the quote is that ends a value; -1 without one. */
const endOfValue = (text: string, from: number): number => {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at;
  }
  return -1;
};

/** A time by RFC 3164, and Cisco's: a number or a name before it, `*` or `.`, a year, fractions, a zone before a colon. */
const bsdHeader =
  /^(?:\d{0,10}: )?(?:(?<origin>[^\s:]{1,255}): )?[*.]?(?:(?<yearBefore>\d{4}) )?(?<month>[A-Z][a-z]{2}) {1,2}(?<day>\d{1,2})(?: (?<year>\d{4}))? (?<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: (?<zone>[A-Z]{1,5})(?=:))?:?(?: |$)/;
const isoHeader = /^(\d{4}-\d\d-\d\dT\S{8,32})(?: |$)/;
const tagged = /^([^\s:[\]]{1,255})(?:\[([^\s\]]{0,255})\])?:(?: |$)/;
const named = /^(\S{1,255}) (?:: )?/;

const readRfc3164 = (parsing: Parsing, hasPriority: boolean, nowMs: number): boolean => {
  const iso = isoHeader.exec(parsing.rest);
  const bsd = iso ? undefined : bsdHeader.exec(parsing.rest)?.groups;
  const hasTime = iso ? putIsoTime(parsing, iso[1]) : putBsdTime(parsing, bsd, nowMs);
  if (!hasPriority && !hasTime) return false;
  if (hasTime) parsing.rest = parsing.rest.replace(iso ? isoHeader : bsdHeader, "");
  put(parsing, "syslog.hostname", bsd?.origin);
  if (hasTime && bsd?.origin === undefined && !tagged.test(parsing.rest)) {
    put(parsing, "syslog.hostname", named.exec(parsing.rest)?.[1]);
    parsing.rest = parsing.rest.replace(named, "");
  }
  const [head = "", tag, procid] = tagged.exec(parsing.rest) ?? [];
  // Cisco's mnemonic is a part of the text.
  if (tag?.startsWith("%")) put(parsing, "syslog.msgid", tag.slice(1));
  else {
    put(parsing, "syslog.appname", tag);
    put(parsing, "syslog.procid", procid);
    parsing.rest = parsing.rest.slice(head.length);
  }
  return true;
};

/** Adds a time as it was sent, or as the zone of this host makes it; returns whether it is one. */
const putIsoTime = (parsing: Parsing, text: string | undefined): boolean => {
  const hasZone = text !== undefined && /(?:Z|[+-]\d\d:?\d\d)$/.test(text);
  const ms = Date.parse(text ?? "");
  if (text === undefined || Number.isNaN(ms)) return false;
  put(parsing, "syslog.timestamp", hasZone ? text : rfc3339(ms));
  if (!hasZone) put(parsing, "syslog.timestamp.assumed", "zone");
  return true;
};

const utcZones = ["UTC", "GMT", "Z"];

/** Adds a time without a year as that of the nearest one, and without a zone as that of this host's; returns whether it is one. */
const putBsdTime = (
  parsing: Parsing,
  parts: Readonly<Record<string, string | undefined>> | undefined,
  nowMs: number,
): boolean => {
  if (parts === undefined) return false;
  const { month, day, yearBefore, year: given = yearBefore, time = "", zone = "" } = parts;
  const isUtc = utcZones.includes(zone);
  const timeIn = (year: number): number[] => {
    const date = new Date(
      `${month} ${day} ${year} ${time.replace(",", ".")}${isUtc ? " UTC" : ""}`,
    );
    // February has no day 31, and no day an hour 24.
    const isSame = (isUtc ? date.getUTCDate() : date.getDate()) === Number(day);
    return isSame ? [date.getTime()] : [];
  };
  const thisYear = new Date(nowMs).getFullYear();
  const years = given === undefined ? [thisYear, thisYear - 1, thisYear + 1] : [Number(given)];
  const [nearest] = years.flatMap(timeIn).sort((a, b) => Math.abs(a - nowMs) - Math.abs(b - nowMs));
  if (nearest === undefined) return false;
  put(parsing, "syslog.timestamp", rfc3339(nearest));
  const assumed = [...(given === undefined ? ["year"] : []), ...(isUtc ? [] : ["zone"])];
  if (assumed.length > 0) put(parsing, "syslog.timestamp.assumed", assumed.join(" and "));
  return true;
};
