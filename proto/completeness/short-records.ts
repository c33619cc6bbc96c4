/** Bytes of files, and spans or points of records that were delivered otherwise. */
const otherUnits = new Set(["file_gap", "export_rejected_items"]);

/** Returns of how many records an hour is short: those that nobody can count, and shortages of something else, do not count. */
export const shortRecords = (
  shortages: readonly { kind: string; count: number | null }[],
): number =>
  shortages.reduce((sum, { kind, count }) => (otherUnits.has(kind) ? sum : sum + (count ?? 0)), 0);
