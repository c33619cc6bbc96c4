/*
 * Takes each entry that `journalctl` prints once, and notices what is missing. journald copies its runtime journal to disk under new numbers,
 * and gives all lines that arrive together one time. `journalctl` orders entries with numbers of different lines by time, then by hash: near
 * the copies, it repeats entries and passes over others. Therefore:
 * - Time does not go back within a boot: an entry of an earlier time is a copy, and so are as many of the last time as were taken of that.
 * - When entries of the boot appear in another line, `journalctl` is started again at the cursor: once the first line is deleted, it prints all
 *   entries of that time. If it prints the same entry again, with a later time, that entry follows.
 */
import { fieldText, type JournalEntry } from "./export-format.ts";

/** Entries that were deleted before they were read: between two times, and how many if that is known. */
export interface JournalGap {
  readonly entries: number | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What was read of a journal at once. */
export interface JournalBatch {
  readonly entries: JournalEntry[];
  readonly gaps: JournalGap[];
  malformed: number;
  /** How many copies were left out. */
  repeated: number;
  /** The cursor of an entry of another line, before which `journalctl` has to begin again. */
  moved: string | undefined;
  /** Where to read on; empty before the first entry of a journal. */
  cursor: string;
}

/** An entry, as its cursor describes it. */
interface Position {
  readonly cursor: string;
  /** Entries of one line of journal files have rising numbers, without a hole. */
  readonly line: string;
  readonly number: number;
  readonly boot: string;
  readonly sinceBootUs: number;
  readonly atMs: number;
  readonly hash: string;
  /** Which one it is of the entries of its line and time, from 1 on. It is our part of a cursor: `journalctl` ignores it. */
  ordinal: number;
}

const cursorForm =
  /^(?<cursor>s=(?<line>[^;]*);i=(?<number>[\da-f]+);b=(?<boot>[^;]*);m=(?<since>[\da-f]+);t=(?<at>[\da-f]+);x=(?<hash>[^;]*))(?:;n=(?<ordinal>\d+))?$/;
/** The last time of a `Date`. */
const timeMsMax = 8.64e15;

const parseCursor = (text: string): Position | undefined => {
  const parts = cursorForm.exec(text)?.groups;
  if (parts === undefined) return undefined;
  const { cursor = "", line = "", boot = "", hash = "" } = parts;
  return {
    cursor,
    line,
    number: Number(`0x${parts.number}`),
    boot,
    sinceBootUs: Number(`0x${parts.since}`),
    atMs: Math.min(Number(`0x${parts.at}`) / 1000, timeMsMax),
    hash,
    ordinal: Number(parts.ordinal ?? 1),
  };
};

/** Returns the time of the entry that a cursor names, in milliseconds; 0 if it does not say. */
export const timeOfCursor = (cursor: string): number => parseCursor(cursor)?.atMs ?? 0;

/** So many lines are remembered: a directory may have the journals of many hosts. */
const linesMax = 1_000;

/**
 * Returns a function that takes what a run of `journalctl` prints from a cursor on, and returns what is new of it and what is missing. `moved`
 * is that of the run before; null if a move does not end, so that a gap of unknown size is all that can be said of it.
 */
export const createJournalReading = (start: string, moved?: string | null) => {
  /** The last entry that was taken. */
  let last = parseCursor(start);
  /** Whether the run has printed that one in its line. */
  let isOwn = false;
  /** Whether the run has printed that one, or a copy: what is printed next follows it. */
  let isConnected = start === "";
  /** A move may have hidden entries from this run, which continues. */
  let isMerged = false;
  /** That is counted as a gap. */
  let isTold = false;
  /** The last printed entry of each line. */
  const lines = new Map<string, Position>();

  const locate = (entry: JournalEntry): Position | undefined => {
    const next = parseCursor(fieldText(entry, "__CURSOR") ?? "");
    const before = next && lines.get(next.line);
    if (before && before.boot === next.boot && before.sinceBootUs === next.sinceBootUs)
      next.ordinal = before.ordinal + (before.number === next.number ? 0 : 1);
    return next;
  };
  const remember = (position: Position) => {
    lines.set(position.line, position);
    const [oldest] = lines.keys();
    if (lines.size > linesMax && oldest !== undefined) lines.delete(oldest);
  };

  /** Whether other entries may be between the last one and this one of another line. */
  const isMoved = (next: Position, laterUs: number): boolean => {
    if (!isOwn || last?.line === next.line) return false;
    // Users have files of their own: their lines may differ while they share the numbers.
    const follows = next.number === (last?.number ?? 0) + 1 || next.cursor === moved;
    return laterUs === 0 || !follows;
  };
  const judge = (next: Position): "new" | "copy" | "last" | "moved" => {
    if (last?.boot !== next.boot) return "new";
    const laterUs = next.sinceBootUs - last.sinceBootUs;
    if (laterUs < 0) return "copy";
    if (isMoved(next, laterUs)) {
      if (moved !== null) return "moved";
      isMerged = true;
    }
    if (laterUs > 0 || next.ordinal > last.ordinal) return "new";
    return next.ordinal === last.ordinal && next.hash === last.hash ? "last" : "copy";
  };
  const missingBefore = (next: Position): number | undefined => {
    if (last?.boot === next.boot && last.number + 1 === next.number) return 0;
    const before = lines.get(next.line);
    if (before && before.number < next.number) return next.number - before.number - 1;
    return isConnected ? 0 : undefined;
  };
  const take = (entry: JournalEntry, next: Position, batch: JournalBatch) => {
    const entries = isMerged && !isTold ? undefined : missingBefore(next);
    isTold = isMerged;
    if (entries !== 0) batch.gaps.push({ entries, fromMs: last?.atMs ?? 0, toMs: next.atMs });
    if (entry.isMalformed) batch.malformed += 1;
    else batch.entries.push(entry);
    last = next;
  };

  if (last) remember(last);
  return (printed: readonly JournalEntry[]): JournalBatch => {
    const batch = emptyBatch(start);
    for (const entry of printed) {
      const next = locate(entry);
      // An entry that lost its cursor leaves a hole before the next one.
      if (next === undefined) continue;
      const judgement = judge(next);
      if (judgement === "moved") {
        batch.moved = next.cursor;
        break;
      }
      if (judgement === "new") take(entry, next, batch);
      if (judgement === "copy") batch.repeated += 1;
      else isConnected = true;
      isOwn ||= last?.line === next.line && last.number === next.number;
      remember(next);
    }
    if (last) batch.cursor = `${last.cursor};n=${last.ordinal}`;
    return batch;
  };
};

const emptyBatch = (cursor: string): JournalBatch => ({
  entries: [],
  gaps: [],
  malformed: 0,
  repeated: 0,
  moved: undefined,
  cursor,
});
