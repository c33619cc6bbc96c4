/** The lines of an hour's statement and the entry of the log that states their tree (docs/completeness-proof.md). */
import type { HourAccounts, HourStatus } from "./hour-state.ts";
import { hourStates, sumRejections } from "./hour-state.ts";
import { decodeBase64, isSizeText } from "./signed-note.ts";

/** The counts of a line in their order; a line leaves zeroes out. */
export const lineCounts = [
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

/** One of `lineCounts`. */
export type LineCount = (typeof lineCounts)[number];

/** What core states of a host's hour. */
export interface StatementLine {
  host: string;
  state: HourStatus["state"];
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
  /** The digest of its accounts (`accountsDigest`); null without one. */
  of: Uint8Array | null;
}

/** Returns the line of a state and the accounts that it follows from. */
export const lineOf = (
  status: HourStatus,
  { refused, fileGapBytes, sinks, exportRejections, ...sums }: HourAccounts,
  rest: Pick<StatementLine, "host" | "correctedMs" | "delivered" | "of">,
): StatementLine => {
  const { accepted, stored, rejected, discarded, lost, missing, expired, damaged } = sums;
  const short = status.shortages.map(({ kind, reason }) => (reason === undefined ? kind : `${kind}:${reason}`));
  return {
    ...rest,
    state: status.state,
    counts: {
      ...{ accepted, stored, rejected, discarded, lost, missing, expired, damaged, file_gap_bytes: fileGapBytes },
      ...refused,
      ...sumRejections(exportRejections),
    },
    short: [...new Set(short)],
    isClockAhead: status.isClockWrong,
    sinks: sinks.filter((sink) => sink !== "postgres").toSorted(),
  };
};

const namePattern = /^[a-z_]+(:[a-z_]+)?$/;

/** Host names keep `:` and `/`, so that URIs stay readable. */
const encodeName = (name: string): string =>
  encodeURIComponent(name).replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%40", "@");

/** Writes a line, without its line feed. */
export const formatLine = (line: StatementLine): string => {
  const { host, state, correctedMs, counts, short, isClockAhead, sinks, delivered, of } = line;
  return [
    encodeName(host),
    state,
    ...(correctedMs === null ? [] : [`hour=${hourText(correctedMs)}`]),
    ...lineCounts.flatMap((name) => (counts[name] ? [`${name}=${counts[name]}`] : [])),
    ...(short.length > 0 ? [`short=${short.join()}`] : []),
    ...(isClockAhead ? ["clock=ahead"] : []),
    ...(sinks.length > 0 ? [`sink=${sinks.join()}`] : []),
    ...(delivered.length > 0 ? [`delivered=${delivered.map(encodeName).join()}`] : []),
    ...(of === null ? [] : [`of=${of.toBase64()}`]),
  ].join(" ");
};

/** Reads a line; undefined unless it is exactly what `formatLine` writes. */
export const parseLine = (text: string): StatementLine | undefined => {
  const [host = "", state, ...rest] = text.split(" ");
  const fields = new Map(rest.map((field) => splitOnce(field, "=")));
  const take = (name: string): string | undefined => {
    const value = fields.get(name);
    fields.delete(name);
    return value;
  };
  const hour = take("hour");
  const counts: Partial<Record<LineCount, number>> = {};
  for (const name of lineCounts) {
    const value = take(name);
    if (value !== undefined && isSizeText(value)) counts[name] = Number(value);
  }
  const list = (name: string) => take(name)?.split(",") ?? [];
  const known = hourStates.find((name) => name === state);
  const [short, sinks] = [list("short"), list("sink")];
  try {
    if (known === undefined || ![...short, ...sinks].every((name) => namePattern.test(name))) return undefined;
    const line: StatementLine = {
      host: decodeURIComponent(host),
      state: known,
      correctedMs: hour === undefined ? null : Date.parse(hour),
      ...{ counts, short },
      isClockAhead: take("clock") === "ahead",
      sinks,
      delivered: list("delivered").map(decodeURIComponent),
      of: decodeBase64(take("of") ?? "") ?? null,
    };
    const normal = { ...line, of: line.of?.length === 32 ? line.of : null };
    // Whatever was not understood is missing from what is written again.
    return formatLine(normal) === text ? normal : undefined;
  } catch {
    return undefined;
  }
};

const splitOnce = (text: string, separator: string): [string, string] => {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
};

/** Returns the start of an hour as text: RFC 3339 without a fraction. */
export const hourText = (hourMs: number): string => new Date(hourMs).toISOString().replace(".000Z", "Z");

/** A leaf of the log: an hour and the tree of its lines. */
export interface LogEntry {
  hourMs: number;
  lines: number;
  root: Uint8Array;
}

const entryName = "svc-completeness-v1";

/** Writes the entry of an hour: the leaf of the log, without a line feed. */
export const formatEntry = ({ hourMs, lines, root }: LogEntry): string =>
  `${entryName} ${hourText(hourMs)} ${lines} ${root.toBase64()}`;

/** Reads an entry; undefined unless it is exactly what `formatEntry` writes. */
export const parseEntry = (text: string): LogEntry | undefined => {
  const [, hour = "", lines = "", encoded = ""] = text.split(" ");
  const entry = { hourMs: Date.parse(hour), lines: Number(lines), root: decodeBase64(encoded) ?? new Uint8Array() };
  if (!Number.isFinite(entry.hourMs) || !isSizeText(lines) || entry.root.length !== 32) return undefined;
  return formatEntry(entry) === text ? entry : undefined;
};

/** An account as a statement refers to it: its hash, and the digest of the blocks of its range (null for none). */
export interface AccountDigest {
  sha256: Uint8Array;
  rangeDigest: Uint8Array | null;
}

const hashBytes = 32;

/** Returns the bytes whose SHA-256 is the `of` of a line: for each account, in their order, its hash and the digest of its blocks or zeroes. */
export const accountsPayload = (accounts: readonly AccountDigest[]): Uint8Array => {
  const payload = new Uint8Array(2 * hashBytes * accounts.length);
  for (const [at, { sha256, rangeDigest }] of accounts.entries()) {
    payload.set(sha256, 2 * hashBytes * at);
    if (rangeDigest !== null) payload.set(rangeDigest, 2 * hashBytes * at + hashBytes);
  }
  return payload;
};

/** In the order of UTF-8, surrogates come last. */
const orderOf = (unit: number): number => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800);

/** Compares the names of hosts by their UTF-8 bytes, which is the order of lines. */
export const compareHosts = (a: string, b: string): number => {
  for (let at = 0; at < a.length && at < b.length; at++) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (left !== right) return orderOf(left) - orderOf(right);
  }
  return a.length - b.length;
};
