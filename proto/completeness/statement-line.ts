/** The lines of an hour's statement and the entry of the log that states their tree (docs/completeness-proof.md). */
import { concatBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import type { BindingQueue, HourStatus } from "./decide-hour.ts";
import { type HourAccounts, sumRejections } from "./hour-accounts.ts";
import { hourStates } from "./hour-state.ts";
import { decodeBase64, isSizeText } from "./signed-note.ts";

/** The versions of statements. */
type StatementVersion = 1 | 2;

/** The counts of a line of version 1 in their order; a line leaves zeroes out. */
const firstCounts = [
  "accepted",
  "stored",
  "rejected",
  "discarded",
  "lost",
  "missing",
  "expired",
  "damaged",
  "file_gap_bytes",
  "queue_full",
  "too_large",
  "malformed",
  "retry",
  "export_rejected",
  "export_rejected_items",
] as const;

/** The counts of a line in their order. */
export const lineCounts = [...firstCounts, "file_gaps", "filtered", "redacted"] as const;

/** The counts that the lines of each version have. */
export const countsOfVersion: Readonly<Record<StatementVersion, readonly LineCount[]>> = {
  1: firstCounts,
  2: lineCounts,
};

/** One of `lineCounts`. */
export type LineCount = (typeof lineCounts)[number];

/** What core states of a host's hour. */
export interface StatementLine {
  host: string;
  /** One of `hourStates`, or of a later version. */
  state: string;
  /** The hour that it corrects, in milliseconds since the Unix epoch; null for the statement's own. */
  correctedMs: number | null;
  counts: Readonly<Partial<Record<LineCount, number>>>;
  /** What the hour is short of: a kind of shortage, or `account_refused:` and the reason. */
  short: readonly string[];
  /** The host's clock was ahead. */
  isClockAhead: boolean;
  /** Where records of the hour are stored, other than in PostgreSQL. */
  sinks: readonly string[];
  /** The exports that have delivered the hour. */
  delivered: readonly string[];
  /** The queues that bind the hour; none in version 1. */
  queues: readonly BindingQueue[];
  /** The digest of its accounts (`accountsDigest`); null without one. */
  of: Uint8Array | null;
}

/** A line as it was read. */
export interface ReadLine extends StatementLine {
  /** The names of its fields that only a later version knows. */
  unknown: readonly string[];
}

/** Returns the line of a state and the accounts from which it follows. */
export const lineOf = (
  status: HourStatus,
  sums: HourAccounts,
  rest: Pick<StatementLine, "host" | "correctedMs" | "delivered" | "of">,
): StatementLine => {
  const said: Partial<Record<LineCount, number>> = {
    ...sums,
    ...sums.refused,
    ...sumRejections(sums.exportRejections),
    file_gap_bytes: sums.fileGapBytes,
    file_gaps: sums.fileGaps,
  };
  const short = status.shortages.map(({ kind, reason }) =>
    reason === undefined ? kind : `${kind}:${reason}`,
  );
  return {
    ...rest,
    state: status.state,
    counts: Object.fromEntries(lineCounts.map((name) => [name, said[name] ?? 0])),
    short: [...new Set(short)],
    isClockAhead: status.isClockWrong,
    sinks: sums.sinks.filter((sink) => sink !== "postgres").toSorted(),
    queues: status.binding,
  };
};

const namePattern = /^[a-z_]+(:[a-z_]+)?$/;

/** Encodes a name as one word. Host names keep `:` and `/`, so that URIs stay readable. */
export const encodeName = (name: string): string =>
  encodeURIComponent(name).replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%40", "@");

/** Decodes a name; undefined unless it is exactly what `encodeName` writes. */
export const decodeName = (text: string): string | undefined => {
  try {
    const name = decodeURIComponent(text);
    return encodeName(name) === text ? name : undefined;
  } catch {
    return undefined;
  }
};

/** Writes a queue with the part of the hour that it binds: `QUEUE:FROM-TO` in milliseconds, or `QUEUE` for the whole hour. */
const formatQueue = ({ queueId, fromMs, toMs }: BindingQueue, hourStartMs: number) => {
  const name = queueId === null ? "any" : queueId || "others";
  const from = fromMs - hourStartMs;
  const to = toMs - hourStartMs;
  return from === 0 && to === hourMs ? name : `${name}:${from}-${to}`;
};

const queuePattern = /^(any|others|[0-9a-f]{32})(?::(\d{1,7})-(\d{1,7}))?$/;

const parseQueue = (text: string, hourStartMs: number): BindingQueue => {
  const [, name = "", from = "0", to = String(hourMs)] = queuePattern.exec(text) ?? [];
  const bounds = { fromMs: hourStartMs + Number(from), toMs: hourStartMs + Number(to) };
  if (name === "any") return { queueId: null, ...bounds };
  return { queueId: name === "others" ? "" : name, ...bounds };
};

/** Writes a line of the statement of an hour, without its line feed. */
export const formatLine = (line: StatementLine, hourStartMs: number): string => {
  const { host, state, correctedMs, counts, short, isClockAhead, sinks, delivered, queues, of } =
    line;
  const fields: [name: string, values: readonly (string | number)[]][] = [
    ["hour", correctedMs === null ? [] : [hourText(correctedMs)]],
    ...lineCounts.map((name): [string, number[]] => [name, counts[name] ? [counts[name]] : []]),
    ["short", short],
    ["clock", isClockAhead ? ["ahead"] : []],
    ["sink", sinks],
    ["delivered", delivered.map(encodeName)],
    ["queues", queues.map((queue) => formatQueue(queue, correctedMs ?? hourStartMs))],
    ["of", of === null ? [] : [of.toBase64()]],
  ];
  const written = fields.flatMap(([name, values]) =>
    values.length > 0 ? [`${name}=${values.join()}`] : [],
  );
  return [encodeName(host), state, ...written].join(" ");
};

const knownFields = (version: StatementVersion): ReadonlySet<string> => {
  const queues = version === 1 ? [] : ["queues"];
  return new Set([
    "hour",
    ...countsOfVersion[version],
    "short",
    "clock",
    "sink",
    "delivered",
    ...queues,
    "of",
  ]);
};
const known = { 1: knownFields(1), 2: knownFields(2) };
const fieldPattern = /^([a-z_]+)=(.+)$/;

/**
 * Reads a line of the statement of an hour; undefined unless it is exactly what `formatLine` writes. From version 2 on it may have another state
 * and other fields, whose names are in `unknown`: the root covers them.
 */
export const parseLine = (
  text: string,
  { hourStartMs, version }: Pick<LogEntry, "hourStartMs" | "version">,
): ReadLine | undefined => {
  const [host = "", state = "", ...rest] = text.split(" ");
  const fields = new Map(
    rest.map((field) => [fieldPattern.exec(field)?.[1] ?? "", field.slice(field.indexOf("=") + 1)]),
  );
  const unknown = [...fields.keys()].filter((name) => !known[version].has(name));
  if (fields.size < rest.length || fields.has("") || (version === 1 && unknown.length > 0))
    return undefined;
  if (!(version === 1 ? hourStates.some((name) => name === state) : /^[a-z_]+$/.test(state)))
    return undefined;
  const list = (name: string) => fields.get(name)?.split(",") ?? [];
  const hour = fields.get("hour");
  const correctedMs = hour === undefined ? null : Date.parse(hour);
  const counts: Partial<Record<LineCount, number>> = {};
  for (const name of lineCounts) {
    const value = fields.get(name);
    if (value !== undefined && isSizeText(value)) counts[name] = Number(value);
  }
  const of = decodeBase64(fields.get("of") ?? "");
  if (![...list("short"), ...list("sink")].every((name) => namePattern.test(name)))
    return undefined;
  try {
    const line: StatementLine = {
      host: decodeURIComponent(host),
      state,
      correctedMs,
      counts,
      short: list("short"),
      isClockAhead: fields.get("clock") === "ahead",
      sinks: list("sink"),
      delivered: list("delivered").map(decodeURIComponent),
      queues: list("queues").map((queue) => parseQueue(queue, correctedMs ?? hourStartMs)),
      of: of?.length === 32 ? of : null,
    };
    const isUnknown = (field: string) => unknown.some((name) => field.startsWith(`${name}=`));
    const understood = [host, state, ...rest.filter((field) => !isUnknown(field))].join(" ");
    // A field that was not understood would be missing when the line is formatted again.
    return isHour(correctedMs ?? hourStartMs) && formatLine(line, hourStartMs) === understood
      ? { ...line, unknown }
      : undefined;
  } catch {
    return undefined;
  }
};

const isHour = (ms: number) => ms % hourMs === 0;

/** Returns the start of an hour as text: RFC 3339 without a fraction. */
export const hourText = (hourStartMs: number): string =>
  new Date(hourStartMs).toISOString().replace(".000Z", "Z");

/** A leaf of the log: an hour and the tree of its lines. */
export interface LogEntry {
  version: StatementVersion;
  hourStartMs: number;
  lines: number;
  root: Uint8Array;
}

/** Writes the entry of an hour: the leaf of the log, without a line feed. */
export const formatEntry = ({ version, hourStartMs, lines, root }: LogEntry): string =>
  `svc-completeness-v${version} ${hourText(hourStartMs)} ${lines} ${root.toBase64()}`;

/** Reads an entry; undefined unless it is exactly what `formatEntry` writes, of a whole hour. */
export const parseEntry = (text: string): LogEntry | undefined => {
  const [name = "", hour = "", lines = "", encoded = ""] = text.split(" ");
  const version = name.endsWith("-v1") ? 1 : 2;
  const root = decodeBase64(encoded);
  const entry = {
    version,
    hourStartMs: Date.parse(hour),
    lines: Number(lines),
    root: root ?? new Uint8Array(),
  } as const;
  if (!isHour(entry.hourStartMs) || !isSizeText(lines) || entry.root.length !== 32)
    return undefined;
  return formatEntry(entry) === text ? entry : undefined;
};

/** An account as a statement refers to it: its hash, and the digest of the blocks of its range (null for none). */
interface AccountDigest {
  sha256: Uint8Array;
  rangeDigest: Uint8Array | null;
}

const hashBytes = 32;

/** Returns 64 bytes of an account: its hash, and the digest of its blocks or zeroes. */
export const accountPart = ({ sha256, rangeDigest }: AccountDigest): Uint8Array =>
  concatBytes([sha256, rangeDigest ?? new Uint8Array(hashBytes)]);

/** Returns the bytes whose SHA-256 is the `of` of a line: a part for each account, in their order. */
export const accountsPayload = (accounts: readonly AccountDigest[]): Uint8Array =>
  concatBytes(accounts.map(accountPart));

/** Returns the rank of a UTF-16 unit in the order of UTF-8, in which surrogates come last. */
const orderOf = (unit: number) => {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
};

/** Compares the names of hosts by their UTF-8 bytes, which is the order of lines. */
export const compareHosts = (a: string, b: string): number => {
  for (let at = 0; at < a.length && at < b.length; at++) {
    const left = a.charCodeAt(at);
    const right = b.charCodeAt(at);
    if (left !== right) return orderOf(left) - orderOf(right);
  }
  return a.length - b.length;
};

/** The fields that decide the order of lines. */
type LineOrder = Pick<StatementLine, "host" | "correctedMs">;

/** Compares lines in their order: own lines come before corrections, each sorted by the host and then by the hour. */
export const compareLines = (a: LineOrder, b: LineOrder): number => {
  const ofHour = Number(a.correctedMs !== null) - Number(b.correctedMs !== null);
  const ofHost = compareHosts(a.host, b.host);
  return ofHour || ofHost || (a.correctedMs ?? 0) - (b.correctedMs ?? 0);
};
