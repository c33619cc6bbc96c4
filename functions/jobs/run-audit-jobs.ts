import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { tellRefusals } from "../domain/enrollment/tell-refusals.ts";
import { findHead } from "../store/audit-chain.ts";
import { chainAuditEvents } from "./chain-audit-events.ts";

const chainIntervalMs = 1000;
const refusalsIntervalMs = 10_000;
const headIntervalMs = 3_600_000;

/**
 * Keeps the audit log until the signal aborts: chains new events, tells the counts of refused enrollments, and shows the chain's head
 * to the program's log, from where a copy can vouch for it.
 */
export const runAuditJobs = async (
  core: Pick<Core, "db" | "clock" | "entropy" | "log">,
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock, log } = core;
  const job = { clock, signal, log };
  await Promise.all([
    runEvery({ name: "audit chain", intervalMs: chainIntervalMs, ...job }, async () => {
      await chainAuditEvents(db);
      return undefined;
    }),
    runEvery({ name: "refused enrollments", intervalMs: refusalsIntervalMs, ...job }, async () => {
      const events = await tellRefusals(core);
      return events === 0 ? undefined : { events };
    }),
    runEvery({ name: "audit head", intervalMs: headIntervalMs, ...job }, async () => {
      const head = await findHead(db);
      return head && { seq: head.seq, hash: head.hash.toHex() };
    }),
  ]);
};
