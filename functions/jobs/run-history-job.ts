import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { createHistoryKeeper } from "../domain/fleet/keep-history.ts";

const intervalMs = 60_000;

/** Keeps the history of the fleet, every minute until the signal aborts (docs/history.md). */
export const runHistoryJob = (
  core: Pick<Core, "db" | "clock" | "config" | "codec" | "log">,
  signal: AbortSignal,
): Promise<void> =>
  runEvery({ name: "fleet history", intervalMs, clock: core.clock, signal, log: core.log }, createHistoryKeeper(core));
