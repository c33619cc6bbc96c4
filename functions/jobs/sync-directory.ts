import type { DirectoryObserver } from "../core.ts";
import { DirectoryFault, type DirectorySnapshot } from "../directory/snapshot.ts";
import {
  applyDirectorySnapshot,
  type DirectoryCore,
  recordDirectoryFailure,
  type SnapshotReport,
} from "../domain/directory/apply-snapshot.ts";
import { countHeld, type DirectorySync, findDirectorySync } from "../store/directory/directory.ts";
import type { Exclusively } from "../store/directory/lock.ts";

/** The dependencies of a sync. */
export interface DirectorySyncNeeds extends DirectoryCore {
  /** Reads the whole directory, or throws `DirectoryFault`. */
  read(signal: AbortSignal): Promise<DirectorySnapshot>;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

/** Core rejected the snapshot, and recorded it. */
export class SnapshotRejected extends Error {
  override readonly name = "SnapshotRejected";
}

/**
 * Reads the directory and applies it to the database. Records, counts and throws a failure, which leaves people unchanged. Returns
 * undefined when there was nothing to do: another core is syncing, or (unless `isFirst`) synced less than half an interval ago.
 */
export const syncDirectory = async (
  needs: DirectorySyncNeeds,
  { isFirst, signal }: { isFirst: boolean; signal: AbortSignal },
): Promise<SnapshotReport | undefined> => {
  const { observe } = needs;
  try {
    const report = await needs.exclusively(async () => {
      const last = await findDirectorySync(needs.db);
      return isFirst || !isRecent(last, needs) ? sync(needs, last?.syncs ?? 0, signal) : undefined;
    });
    if (report?.outcome === "refused") throw new SnapshotRejected("the directory lists no users");
    if (report !== undefined && report.outcome !== "superseded") observe.ended(report.outcome);
    return report;
  } catch (error) {
    // A core that stops aborts its own read.
    if (!signal.aborted) observe.ended(error instanceof SnapshotRejected ? "refused" : "failed");
    throw error;
  } finally {
    // If the database is unavailable, the error above reports it.
    await publishSnapshot(needs).catch(() => undefined);
  }
};

const sync = async (
  needs: DirectorySyncNeeds,
  syncsBefore: number,
  signal: AbortSignal,
): Promise<SnapshotReport> => {
  try {
    const snapshot = await needs.read(signal);
    return await applyDirectorySnapshot(needs, snapshot, { syncsBefore });
  } catch (error) {
    if (error instanceof DirectoryFault && !signal.aborted)
      await recordDirectoryFailure(needs, error.code);
    throw error;
  }
};

const publishSnapshot = async ({ db, observe }: DirectorySyncNeeds): Promise<void> => {
  const [last, held] = await Promise.all([findDirectorySync(db), countHeld(db)]);
  observe.snapshot({ syncedAt: last?.syncedAt?.getTime() ?? null, held });
};

/** Whether a sync is so recent that none is due: of several cores, one reads the directory per interval. */
const isRecent = (last: DirectorySync | undefined, { clock, config }: DirectoryCore): boolean =>
  last?.failures === 0 &&
  clock.now() - last.finishedAt.getTime() < (config.directory.syncIntervalSeconds * 1000) / 2;
