import { chainHash, genesisHash } from "../domain/audit/chain.ts";
import type { AuditLink } from "../store/audit-chain.ts";
import { findHead, findPendingEvents, insertLinks, tryLockAppender } from "../store/audit-chain.ts";
import type { Database } from "../store/database.ts";

const batchMax = 500;

/**
 * One tick of the appender: gives every committed event its place and hash, batch by batch. One core at a time; a kill leaves whole
 * batches. Undefined when there was nothing to do.
 */
export const chainAuditEvents = async (db: Database): Promise<{ chained: number } | undefined> => {
  let chained = 0;
  for (;;) {
    const count = await db.transaction(async (tx) => {
      if (!(await tryLockAppender(tx))) return 0;
      const pending = await findPendingEvents(tx, batchMax);
      if (pending.length === 0) return 0;
      let head = await findHead(tx);
      const links: AuditLink[] = [];
      for (const { event } of pending) {
        const seq: number = (head?.seq ?? 0) + 1;
        const prevHash: Uint8Array = head?.hash ?? genesisHash;
        head = { seq, eventId: event.id, prevHash, hash: await chainHash(seq, prevHash, event) };
        links.push(head);
      }
      await insertLinks(tx, links);
      return links.length;
    });
    chained += count;
    if (count < batchMax) return chained === 0 ? undefined : { chained };
  }
};
