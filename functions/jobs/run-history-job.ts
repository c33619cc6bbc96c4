import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { judgeChanges } from "../domain/fleet/judge-changes.ts";
import { createHistoryKeeper } from "../domain/fleet/keep-history.ts";

const intervalMs = 60_000;

/** Keeps the history of the fleet, and compares what hosts changed, every minute until the signal aborts (docs/history.md). */
export const runHistoryJob = (
  core: Pick<Core, "db" | "clock" | "config" | "codec" | "entropy" | "log">,
  signal: AbortSignal,
): Promise<void> => {
  const keepHistory = createHistoryKeeper(core);
  return runEvery({ name: "fleet history", intervalMs, clock: core.clock, signal, log: core.log }, async () => {
    const kept = await keepHistory();
    await judgeChanges(core);
    return kept;
  });
};
