import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { chainHash, genesisHash } from "../domain/audit/chain.ts";
import { flushRefusals } from "../domain/audit/record-refusals.ts";
import { verifyChain } from "../domain/audit/verify-chain.ts";
import { flushRefusalCounts } from "../domain/enrollment/refuse.ts";
import type { AuditLink } from "../store/audit/audit.ts";
import { findHead, findPendingEvents, insertLinks, tryLockAppender } from "../store/audit/audit.ts";

const chainIntervalMs = 1000;
const refusalsIntervalMs = 10_000;
const verifyIntervalMs = 10_000;
const headIntervalMs = 3_600_000;

/**
 * Runs the jobs of the audit log until the signal aborts: chains new events, verifies the chain bit by bit, flushes the counts of
 * refused enrollments and other refusals, and logs the chain's head, so that a copy of the log can confirm it.
 */
export const runAuditJobs = async (
  core: Pick<Core, "db" | "clock" | "entropy" | "log" | "cryptography">,
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock, log } = core;
  const job = { clock, signal, log };
  await Promise.all([
    runEvery({ name: "audit chain", intervalMs: chainIntervalMs, ...job }, async () => {
      await chainAuditEvents(core);
      return undefined;
    }),
    runEvery({ name: "refused enrollments", intervalMs: refusalsIntervalMs, ...job }, async () => {
      const events = await flushRefusalCounts(core);
      return events === 0 ? undefined : { events };
    }),
    runEvery({ name: "counted refusals", intervalMs: refusalsIntervalMs, ...job }, async () => {
      const events = await flushRefusals(core);
      return events === 0 ? undefined : { events };
    }),
    runEvery({ name: "audit verification", intervalMs: verifyIntervalMs, ...job }, async () => {
      const { fault = null } = (await verifyChain(core)) ?? {};
      if (fault !== null)
        log.error({ ...fault }, "the audit log's hash chain has a fault: run svc-server verify-audit");
      return undefined;
    }),
    runEvery({ name: "audit head", intervalMs: headIntervalMs, ...job }, async () => {
      const head = await findHead(db);
      return head && { seq: head.seq, hash: head.hash.toHex() };
    }),
  ]);
};

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
      if (!(await tryLockAppender(tx))) return 0;
      const pending = await findPendingEvents(tx, batchMax);
      if (pending.length === 0) return 0;
      let head = await findHead(tx);
      const links: AuditLink[] = [];
      for (const { event } of pending) {
        const seq: number = (head?.seq ?? 0) + 1;
        const prevHash: Uint8Array = head?.hash ?? genesisHash;
        head = { seq, eventId: event.id, prevHash, hash: await chainHash(cryptography, { seq, prevHash, event }) };
        links.push(head);
      }
      await insertLinks(tx, links);
      return links.length;
    });
    chained += count;
    if (count < batchMax) return chained === 0 ? undefined : { chained };
  }
};
