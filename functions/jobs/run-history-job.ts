import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { judgeChanges } from "../domain/fleet/judge-changes.ts";
import { createHistoryKeeper } from "../domain/fleet/keep-history.ts";

const intervalMs = 60_000;

/**
 * Keeps the history of the fleet, and beside it compares upgrades and changes of labels, every minute until the signal aborts (docs/history.md,
 * docs/judged-changes.md).
 */
export const runHistoryJob = (
  core: Pick<Core, "db" | "clock" | "config" | "codec" | "entropy" | "log">,
  signal: AbortSignal,
): Promise<unknown> => {
  const { clock, log } = core;
  const job = (name: string) => ({ name, intervalMs, clock, signal, log });
  return Promise.all([
    runEvery(job("fleet history"), createHistoryKeeper(core)),
    runEvery(job("fleet changes"), () => judgeChanges(core)),
  ]);
};
