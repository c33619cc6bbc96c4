import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { deleteOldDiags } from "../domain/fleet/diags.ts";

const intervalMs = 600_000;

/** Deletes the diagnostics of hosts that are a day old, until the signal aborts. */
export const runDiagJob = (core: Pick<Core, "db" | "clock" | "log">, signal: AbortSignal): Promise<void> =>
  runEvery({ name: "old diagnostics", intervalMs, clock: core.clock, signal, log: core.log }, async () => {
    const deleted = await deleteOldDiags(core);
    return deleted === 0 ? undefined : { deleted };
  });
