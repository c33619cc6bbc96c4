import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { deleteUnusedLabelSets } from "../store/fleet/host-labels.ts";

const intervalMs = 3_600_000;

/** Deletes, every hour until the signal aborts, the sets of labels that no host has any more: a host may report another set each time. */
export const runLabelJob = (
  { db, clock, log }: Pick<Core, "db" | "clock" | "log">,
  signal: AbortSignal,
): Promise<void> =>
  runEvery({ name: "unused label sets", intervalMs, clock, signal, log }, async () => {
    const deleted = await deleteUnusedLabelSets(db);
    return deleted === 0 ? undefined : { deleted };
  });
