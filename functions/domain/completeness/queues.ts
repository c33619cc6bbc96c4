import type { Core, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import { findIdentityOf } from "#functions/store/completeness/report.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { endQueue, listQueues, type QueueRow } from "#functions/store/ingest/queues.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** Returns the queues of a host, the newest first. Throws 404 `not_found`. */
export const listHostQueues = async (
  { db }: Pick<Core, "db">,
  identityId: string,
): Promise<QueueRow[]> => listQueues(db, await hostOf(db, identityId));

/**
 * Closes a queue that will send no more: its open hours stay incomplete, and later ones do not need it. It opens again if it sends. Throws
 * 404 `not_found`; 409 `conflict` for one that has ended.
 */
export const closeHostQueue = async (
  core: WriteCore,
  by: By,
  {
    identityId,
    queueId,
    reasonCode,
  }: { identityId: string; queueId: string; reasonCode: string | null },
): Promise<QueueRow[]> =>
  core.db.transaction(async (tx) => {
    const hostId = await hostOf(tx, identityId);
    const isQueue = (row: QueueRow) => row.queueId === queueId;
    if (!(await listQueues(tx, hostId)).some(isQueue))
      throw new Problem("not_found", { detail: "No such queue" });
    const now = new Date(core.clock.now());
    const end = { endedAt: now, ending: "closed" } as const;
    if (!(await endQueue(tx, { hostId, queueId: Uint8Array.fromHex(queueId) }, end, now)))
      throw new Problem("conflict", { detail: "The queue has ended" });
    await recordOperatorAction(tx, core, by, {
      action: "queue.close",
      target: { type: "collector_identity", id: identityId },
      reasonCode,
      details: { identity: hostId, queue_id: queueId },
    });
    return listQueues(tx, hostId);
  });

const hostOf = async (db: Executor, identityId: string) =>
  requireFound(await findIdentityOf(db, identityId), "collector");
