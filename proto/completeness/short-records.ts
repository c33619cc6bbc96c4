import { recordShortages } from "./hour-state.ts";

/** Counts the records that an hour lacks. Ignores unknown numbers, and shortages in other units. */
export const shortRecords = (
  shortages: readonly { kind: string; count: number | null }[],
): number =>
  shortages.reduce(
    (sum, { kind, count }) => (recordShortages.includes(kind) ? sum + (count ?? 0) : sum),
    0,
  );
