import { fullJitterMs } from "#kit/backoff.ts";
import { fileFault } from "#kit/describe-error.ts";
import { type JobOptions, runEvery } from "#kit/run-every.ts";
import type { DirectoryProvider } from "../config/directory-config.ts";
import type { ConfiguredCore, Core, DirectoryObserver } from "../core.ts";
import { parseServiceAccount } from "../directory/service-account.ts";
import { DirectoryFault, type DirectorySnapshot } from "../directory/snapshot.ts";
import {
  applyDirectorySnapshot,
  recordDirectoryFailure,
  type SnapshotReport,
} from "../domain/directory/apply-snapshot.ts";
import { readScimSnapshot } from "../domain/scim/push.ts";
import { countHeld, type DirectorySync, findDirectorySync } from "../store/directory/directory.ts";
import type { Exclusively } from "../store/directory/lock.ts";
import { hasScimUsers } from "../store/scim/users.ts";

/** First attempts are at most half a minute apart, later ones half an hour. */
const retryBaseMs = 30_000;
const retryCapMs = 30 * 60_000;
const retryMsMin = 1000;
/** Ends the read of a directory that responds to every call and never ends. */
const readMsMax = 15 * 60_000;
/** How often a directory file is read for changes. */
const fileIntervalMs = 5000;

/** The dependencies of the job. */
interface DirectoryJobNeeds {
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;
  /** Returns the contents of a file; throws if other users may read it. */
  readKeyFile(path: string): string;
  /** Returns the contents of a file; throws if other users may change it. */
  readTrustedFile(path: string): string;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

type Sync = (
  read: (stop: AbortSignal) => Promise<DirectorySnapshot>,
  options: { isFirst: boolean },
) => Promise<SnapshotReport | undefined>;

/**
 * Syncs people and their scopes with the directory until the signal aborts: immediately, then at every interval, sooner after a failure,
 * and within seconds of a change of a directory file. If the directory cannot be read, the sync fails, but not core.
 */
export const runDirectorySync = (needs: DirectoryJobNeeds, signal: AbortSignal): Promise<void> => {
  const { core, exclusively, observe } = needs;
  const { clock, entropy, log, config } = core;
  const { domain, provider, syncIntervalSeconds } = config.directory;

  const sync: Sync = async (read, { isFirst }) => {
    const report = await syncDirectory(
      { ...core, read, exclusively, observe },
      { isFirst, signal },
    );
    if (report?.suspectSetting != null)
      log.warn(
        report,
        `most people are outside ${report.suspectSetting} (${domain}): check that setting`,
      );
    else if (report?.outcome === "held")
      log.warn(
        report,
        "more than half of all people are missing from the directory; they stay active for now",
      );
    return report;
  };
  const retryMs = (failures: number) =>
    retryMsMin +
    fullJitterMs({ attempt: failures - 1, baseMs: retryBaseMs, capMs: retryCapMs, entropy });
  const job: JobOptions = {
    name: "directory sync",
    intervalMs: syncIntervalSeconds * 1000,
    retryMs,
    clock,
    signal,
    log,
  };
  switch (provider.kind) {
    case "google":
      return syncGoogle(provider, { ...needs, sync, job });
    case "file":
      return syncFile(provider, { ...needs, sync, job });
    case "scim":
      return syncScim(provider, { ...needs, sync, job });
  }
};

type ProviderOf<Kind extends DirectoryProvider["kind"]> = Extract<
  DirectoryProvider,
  { kind: Kind }
>;
type JobNeeds = DirectoryJobNeeds & { sync: Sync; job: JobOptions };

/** Reads the key file for each sync, so that a new key needs no restart. */
const syncGoogle = (
  { delegateEmail, serviceAccountKeyFile, apiUrl }: ProviderOf<"google">,
  { core, readKeyFile, sync, job }: JobNeeds,
) => {
  const { domain } = core.config.directory;
  const read = async (stop: AbortSignal): Promise<DirectorySnapshot> => {
    const account = parseServiceAccount(readKey(() => readKeyFile(serviceAccountKeyFile)));
    // Takes a tenth of a second and 30 MB, which would slow down the start.
    const { readGoogleDirectory } = await import("../directory/google-directory.ts");
    const inTime = AbortSignal.any([stop, AbortSignal.timeout(readMsMax)]);
    return readGoogleDirectory({ account, delegateEmail, domain, apiUrl, signal: inTime });
  };
  const syncAgain = createRepeatedSync(sync);
  return runEvery(job, () => syncAgain(read));
};

/** Creates a sync that only until its first success ignores how recent the last one was. */
const createRepeatedSync = (sync: Sync) => {
  let isFirst = true;
  return async (read: Parameters<Sync>[0]) => {
    const report = await sync(read, { isFirst });
    isFirst = false;
    return report;
  };
};

/** Syncs when the file, or the reason why it cannot be read, has changed, and at every interval. */
const syncFile = ({ path }: ProviderOf<"file">, { core, readTrustedFile, sync, job }: JobNeeds) => {
  const { clock } = core;
  let lastTry: { content: string; at: number } | undefined;
  return runEvery({ ...job, intervalMs: fileIntervalMs }, async () => {
    const file = readDirectoryFile(() => readTrustedFile(path));
    const content = file.fault?.message ?? file.contents;
    const isChanged = lastTry?.content !== content;
    if (!isChanged && clock.monotonic() - (lastTry?.at ?? 0) < job.intervalMs) return undefined;
    const before = lastTry;
    lastTry = { content, at: clock.monotonic() };
    const read = async () => {
      if (file.fault) throw file.fault;
      // Loads the YAML parser.
      const { parseDirectoryFile } = await import("../directory/directory-file.ts");
      return parseDirectoryFile(file.contents);
    };
    try {
      return await sync(read, { isFirst: isChanged });
    } catch (error) {
      // The same file would fail again; a database may not.
      if (!(error instanceof DirectoryFault || error instanceof SnapshotRejected)) lastTry = before;
      throw error;
    }
  });
};

/**
 * Compares people with everything that was pushed, under the rules for a snapshot, so that changes of the configuration, such as of the
 * domain or the provider, take effect. Does nothing before the first push.
 */
const syncScim = ({ subject }: ProviderOf<"scim">, { core, sync, job }: JobNeeds) => {
  const syncAgain = createRepeatedSync(sync);
  return runEvery(job, async () => {
    if (!(await hasScimUsers(core.db))) return undefined;
    return syncAgain(() => readScimSnapshot(core.db, subject));
  });
};

const readDirectoryFile = (read: () => string): { contents: string; fault?: DirectoryFault } => {
  try {
    return { contents: read() };
  } catch (error) {
    return {
      contents: "",
      fault: new DirectoryFault("file_unusable", `SVC_DIRECTORY_FILE: ${fileFault(error)}`),
    };
  }
};

const readKey = (read: () => string) => {
  try {
    return read();
  } catch (error) {
    throw new DirectoryFault(
      "key_file_unusable",
      `SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: ${fileFault(error)}`,
    );
  }
};

/** The dependencies of a sync. */
export interface DirectorySyncNeeds extends ConfiguredCore {
  /** Reads the whole directory, or throws `DirectoryFault`. */
  read(signal: AbortSignal): Promise<DirectorySnapshot>;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

/** Core rejected the snapshot, and recorded the rejection. */
class SnapshotRejected extends Error {
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
    // A stopping core aborts its own read.
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

const publishSnapshot = async ({ db, observe }: DirectorySyncNeeds) => {
  const [last, held] = await Promise.all([findDirectorySync(db), countHeld(db)]);
  observe.snapshot({ syncedAt: last?.syncedAt?.getTime() ?? null, held });
};

/** Reports whether a sync is so recent that none is due: of several cores, one reads the directory per interval. */
const isRecent = (last: DirectorySync | undefined, { clock, config }: ConfiguredCore) =>
  last?.failures === 0 &&
  clock.now() - last.finishedAt.getTime() < (config.directory.syncIntervalSeconds * 1000) / 2;
