/** Bytes of files, and spans or points of records that were delivered otherwise. */
const otherUnits = new Set(["file_gap", "export_rejected_items"]);

/** Counts the records that an hour lacks. Ignores unknown numbers, and shortages in other units. */
export const shortRecords = (
  shortages: readonly { kind: string; count: number | null }[],
): number =>
  shortages.reduce((sum, { kind, count }) => (otherUnits.has(kind) ? sum : sum + (count ?? 0)), 0);
