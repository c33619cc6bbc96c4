import type { WriteCore } from "#functions/core.ts";
import { type RefusalCountRow, refusalCounts } from "#functions/store/audit/audit.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { minuteMs } from "#kit/clock.ts";
import type { AuditAction } from "#proto/audit-actions.ts";
import { type AuditEntry, coreActor, recordAudits } from "./audit-log.ts";

/** Requests of a minute may still be under way for so long after its end. */
const graceMs = 5000;
const batch = 500;

/**
 * Audits the number of refusals of each count of the past minutes, if it is more than the one that has its event; returns how many events
 * it wrote. Safe to repeat and to run on several cores: one transaction deletes the counts and writes their events.
 */
export const flushCounts = async <Row extends { refusals: number }>(
  { db, ...needs }: WriteCore,
  counts: { deleteBefore(tx: Executor, before: Date, limit: number): Promise<Row[]> },
  entryOf: (row: Row) => AuditEntry,
): Promise<number> => {
  const before = new Date(needs.clock.now() - minuteMs - graceMs);
  let written = 0;
  for (;;) {
    const removed = await db.transaction(async (tx) => {
      const rows = await counts.deleteBefore(tx, before, batch);
      const entries = rows.filter(({ refusals }) => refusals > 1).map(entryOf);
      await recordAudits(tx, needs, entries);
      written += entries.length;
      return rows.length;
    });
    if (removed < batch) return written;
  }
};

/** Audits the counts of `recordRefusals`; see `flushCounts`. */
export const flushRefusals = (core: WriteCore): Promise<number> =>
  flushCounts(core, refusalCounts, countEntry);

const countEntry = (row: RefusalCountRow): AuditEntry => ({
  actor: coreActor,
  // Only `recordRefusals` writes these rows.
  action: row.action as AuditAction,
  target:
    row.targetId === ""
      ? { type: "remote_address", id: row.addressKey }
      : { type: row.targetType, id: row.targetId },
  outcome: "failure",
  reasonCode: row.reasonCode,
  details: {
    remote_address: row.addressKey,
    count: row.refusals,
    minute: row.minuteStartedAt.toISOString(),
    last_at: row.lastAt.toISOString(),
  },
});
