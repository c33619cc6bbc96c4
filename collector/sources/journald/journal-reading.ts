import { isSameEntry, missingBetween, timeOfCursor } from "./cursor.ts";
import { fieldText, type JournalEntry } from "./export-format.ts";

/** Entries that were deleted before they were read: between two times, and how many if that is known. */
export interface JournalGap {
  readonly entries: number | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What was read of a journal at once. */
export interface JournalBatch {
  readonly entries: readonly JournalEntry[];
  readonly gaps: readonly JournalGap[];
  readonly malformed: number;
  /** The cursor of the last one; empty before the first entry of a journal. */
  readonly cursor: string;
}

/** Returns a function that takes what `journalctl` prints from a cursor on, and returns what is new of it and what is missing. */
export const createJournalReading = (start: string) => {
  let cursor = start;
  /** Whether the journal has the entry of `start`: it comes first then. */
  let isFound: boolean | undefined = start === "" ? true : undefined;

  const gapBefore = (next: string): JournalGap[] => {
    const missing = cursor === "" ? 0 : missingBetween(cursor, next, isFound ?? false);
    if (missing === 0) return [];
    return [{ entries: missing, fromMs: timeOfCursor(cursor), toMs: timeOfCursor(next) }];
  };

  return (printed: readonly JournalEntry[]): JournalBatch => {
    const entries: JournalEntry[] = [];
    const gaps: JournalGap[] = [];
    let malformed = 0;
    for (const entry of printed) {
      const next = fieldText(entry, "__CURSOR");
      // An entry that lost its cursor leaves a hole before the next one.
      if (next === undefined) continue;
      if (isFound !== undefined || !isSameEntry(cursor, next)) {
        gaps.push(...gapBefore(next));
        if (entry.isMalformed) malformed += 1;
        else entries.push(entry);
      }
      isFound = true;
      cursor = next;
    }
    return { entries, gaps, malformed, cursor };
  };
};
