import type { Core } from "#functions/core.ts";
import {
  type AuditLink,
  findHead,
  findPendingEvents,
  insertLinks,
} from "#functions/store/audit/audit.ts";
import { tryLock } from "#functions/store/database/try-lock.ts";
import { chainHash, genesisHash } from "./chain.ts";

const batchMax = 500;

/**
 * Appends every committed event to the hash chain, batch by batch; one core at a time. A kill leaves complete batches. Returns undefined
 * when there was nothing to do.
 */
export const chainAuditEvents = async ({
  db,
  cryptography,
}: Pick<Core, "db" | "cryptography">): Promise<{ chained: number } | undefined> => {
  let chained = 0;
  for (;;) {
    const count = await db.transaction(async (tx) => {
      if (!(await tryLock(tx, "auditChain"))) return 0;
      const pending = await findPendingEvents(tx, batchMax);
      if (pending.length === 0) return 0;
      let head = await findHead(tx);
      const links: AuditLink[] = [];
      for (const { event } of pending) {
        const seq: number = (head?.seq ?? 0) + 1;
        const prevHash: Uint8Array = head?.hash ?? genesisHash;
        head = {
          seq,
          eventId: event.id,
          prevHash,
          hash: await chainHash(cryptography, { seq, prevHash, event }),
        };
        links.push(head);
      }
      await insertLinks(tx, links);
      return links.length;
    });
    chained += count;
    if (count < batchMax) return chained === 0 ? undefined : { chained };
  }
};
