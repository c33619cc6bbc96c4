import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { chainAuditEvents } from "../domain/audit/chain-events.ts";
import { flushRefusals } from "../domain/audit/flush-refusals.ts";
import { verifyChain } from "../domain/audit/verify-chain.ts";
import { flushEnrollmentRefusals } from "../domain/enrollment/flush-refusals.ts";
import { findHead } from "../store/audit/audit.ts";

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
      const events = await flushEnrollmentRefusals(core);
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
