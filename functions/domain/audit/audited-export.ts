import type { WriteCore } from "#functions/core.ts";
import type { AuditAction } from "#proto/audit-actions.ts";
import { type By, operatorActor, recordAudit } from "./audit-log.ts";

/** The reason of an event that is written before the first row: a killed process writes no event at the end. */
export const exportBegun = "has begun: another event follows at its end";

/** Rows per batch: enough to amortise a scan, few enough for memory and the event loop. */
export const exportBatchRows = 250;

/** The operator who exports and the filters of the request, for the audit log. */
export interface RequestedExport extends By {
  asked: Readonly<Record<string, unknown>>;
}

/** The audit entry of an export. */
interface ExportEntry {
  action: AuditAction;
  target: { type: string; id: string };
  details?: Readonly<Record<string, unknown>>;
}

/** One batch of an export, and the position of the next one: null after the last. */
export interface ExportBatch<Row, Position> {
  rows: Row[];
  next: Position | null;
}

/**
 * Yields the batches that `read` returns. While the reader processes one, reads the next from the database, and no further. Writes an audit
 * event with the number of rows before it yields the only batch. For several batches, writes one before the first (`exportBegun`), and
 * another with the number of rows before it reports the end to the reader, or when the reader stops earlier.
 */
export const auditedExport = async function* <Row, Position>(
  core: WriteCore,
  { caller, origin, asked }: RequestedExport,
  { action, target, details }: ExportEntry,
  read: (page: { after: Position | null; limit: number }) => Promise<ExportBatch<Row, Position>>,
  batchRows = exportBatchRows,
): AsyncGenerator<Row[], void, void> {
  let yieldedRows = 0;
  let recorded: "nothing" | "start" | "all" = "nothing";
  let reason: string | null = "the reader disconnected before the end";
  const record = (why: string | null, rows?: number) => {
    const outcome = why === null || why === exportBegun ? "success" : "failure";
    const facts = { ...details, filters: asked, rows };
    const entry = {
      actor: operatorActor(caller),
      action,
      target,
      outcome,
      reason: why,
      origin,
      details: facts,
    } as const;
    return core.db.transaction((tx) => recordAudit(tx, core, entry));
  };
  const readNext = (after: Position | null) => {
    const batch = read({ after, limit: batchRows });
    // Awaited below; until then, a failure is not an unhandled one.
    batch.catch(() => undefined);
    return batch;
  };
  let next: Promise<ExportBatch<Row, Position>> | null = null;
  try {
    next = readNext(null);
    while (next !== null) {
      const batch: ExportBatch<Row, Position> = await next.catch((error: unknown) => {
        reason = "a batch could not be read";
        throw error;
      });
      next = batch.next === null ? null : readNext(batch.next);
      yieldedRows += batch.rows.length;
      if (recorded === "nothing") {
        await (batch.next === null ? record(null, yieldedRows) : record(exportBegun));
        recorded = batch.next === null ? "all" : "start";
      }
      yield batch.rows;
    }
    reason = null;
  } finally {
    // A client of a single request ends with it: nothing of the export may still run then.
    await Promise.allSettled([next]);
    if (recorded !== "all") await record(reason, yieldedRows);
  }
};
