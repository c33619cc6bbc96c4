import type { ReadCore } from "#functions/core.ts";
import { tryLock } from "#functions/store/database/try-lock.ts";
import { loadHosts } from "#functions/store/fleet/columns/resident-hosts.ts";
import {
  addSample,
  countChanges,
  deleteOldHistory,
  isSampleDue,
  recordThresholds,
} from "#functions/store/fleet/history.ts";
import { deleteOldFigures, sampleHosts, sampleQueues } from "#functions/store/fleet/host-hours.ts";
import {
  type CheckpointStore,
  changesPerCheckpoint,
  createCheckpoints,
  findLastCheckpoint,
  settledMs,
} from "#functions/store/fleet/past/checkpoints.ts";
import { rewindHosts } from "#functions/store/fleet/past/rewind-hosts.ts";
import { summarizeFleet } from "#functions/store/fleet/summary.ts";
import { findRetentionPause } from "#functions/store/retention/retention-pause.ts";
import { dayMs } from "#kit/clock.ts";
import { readFleetRules } from "./rules.ts";
import { fleetThresholds } from "./thresholds.ts";

/**
 * Creates a tick that keeps the history of the fleet: records the thresholds of this core once, the counts and waiting queues of each
 * five minutes, the figures of hosts at each hour, a checkpoint when it is due, and deletes what is older than `stateRetentionDays`, except
 * while a jump of the clock pauses retention. Returns how many rows it deleted.
 */
export const createHistoryKeeper = (
  core: ReadCore & Pick<CheckpointStore, "codec">,
): (() => Promise<{ deleted: number } | undefined>) => {
  const { db, clock, config } = core;
  let hasRecorded = false;
  return async () => {
    const now = new Date(clock.now());
    // Once, because two cores with different configs would alternate.
    if (!hasRecorded) await recordThresholds(db, fleetThresholds(config), now);
    hasRecorded = true;
    if (await isSampleDue(db, now)) {
      const rules = await readFleetRules(core);
      await addSample(db, await summarizeFleet({ db, rules }, {}), rules.now);
      await sampleQueues(db, rules);
    }
    await sampleHosts(db, now);
    // By one core: each would find the same changes, and read and write the whole fleet for them.
    await db.transaction(async (tx) => {
      if (await tryLock(tx, "history")) await addCheckpointWhenDue({ ...core, db: tx }, now);
    });
    if ((await findRetentionPause(db)) !== null) return undefined;
    const keptFrom = new Date(now.getTime() - config.stateRetentionDays * dayMs);
    const deleted = (await deleteOldHistory(db, keptFrom)) + (await deleteOldFigures(db, now));
    return deleted === 0 ? undefined : { deleted };
  };
};

/** Stores the hosts of two minutes ago, once there were some thousand changes since the last checkpoint. */
const addCheckpointWhenDue = async ({ db, codec }: CheckpointStore, now: Date) => {
  const settled = now.getTime() - settledMs;
  const at = new Date(settled - (settled % 1000));
  const from = (await findLastCheckpoint(db)) ?? new Date(0);
  if ((await countChanges(db, { from, until: at }, changesPerCheckpoint)) < changesPerCheckpoint)
    return;
  // Hosts first, so that changes since then are read after them.
  const hosts = await loadHosts(db);
  await createCheckpoints({ db, codec }).add(
    at,
    await rewindHosts(db, hosts, { from: at, until: null }),
  );
};
