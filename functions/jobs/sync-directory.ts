import type { DirectoryObserver } from "../core.ts";
import { DirectoryFault, type DirectorySnapshot } from "../directory/snapshot.ts";
import {
  applyDirectorySnapshot,
  type DirectoryCore,
  recordDirectoryFailure,
  type SnapshotReport,
} from "../domain/directory/apply-snapshot.ts";
import { countHeld, type DirectorySync, findDirectorySync } from "../store/directory.ts";
import type { Exclusively } from "../store/directory-lock.ts";

/** What a sync needs. */
export interface DirectorySyncNeeds extends DirectoryCore {
  /** Reads the whole directory, or throws `DirectoryFault`. */
  read(signal: AbortSignal): Promise<DirectorySnapshot>;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

/** The directory said something that core does not believe. */
class SnapshotRefused extends Error {
  override readonly name = "SnapshotRefused";
}

/**
 * One sync: reads the directory and makes the database agree. Throws when that was not to be, having put it down and counted it; people
 * stay as they were. Undefined when there was nothing to do: another core is at it, or (unless `isFirst`) was less than half an interval
 * ago.
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
    if (report?.outcome === "refused") throw new SnapshotRefused("the directory lists no user at all");
    if (report !== undefined && report.outcome !== "superseded") observe.ended(report.outcome);
    return report;
  } catch (error) {
    // A core that stops has cut its reading itself.
    if (!signal.aborted) observe.ended(error instanceof SnapshotRefused ? "refused" : "failed");
    throw error;
  } finally {
    // Where the database is away, the error above says so.
    await tellStanding(needs).catch(() => undefined);
  }
};

const sync = async (needs: DirectorySyncNeeds, syncsBefore: number, signal: AbortSignal): Promise<SnapshotReport> => {
  try {
    const snapshot = await needs.read(signal);
    return await applyDirectorySnapshot(needs, snapshot, { syncsBefore });
  } catch (error) {
    if (error instanceof DirectoryFault && !signal.aborted) await recordDirectoryFailure(needs, error.code);
    throw error;
  }
};

const tellStanding = async ({ db, observe }: DirectorySyncNeeds): Promise<void> => {
  const [last, held] = await Promise.all([findDirectorySync(db), countHeld(db)]);
  observe.stands({ syncedAt: last?.syncedAt?.getTime() ?? null, held });
};

/** So that of many cores one reads the directory at each interval. */
const isRecent = (last: DirectorySync | undefined, { clock, config }: DirectoryCore): boolean =>
  last?.failures === 0 && clock.now() - last.finishedAt.getTime() < (config.directory.syncIntervalSeconds * 1000) / 2;
