import { fullJitterMs } from "../../kit/backoff.ts";
import { fileFault } from "../../kit/describe-error.ts";
import { runEvery } from "../../kit/run-every.ts";
import type { Core, DirectoryObserver } from "../core.ts";
import { parseServiceAccount } from "../directory/service-account.ts";
import { DirectoryFault, type DirectorySnapshot } from "../directory/snapshot.ts";
import type { Exclusively } from "../store/directory-lock.ts";
import { syncDirectory } from "./sync-directory.ts";

/** Half a minute at most between the first tries, half an hour between later ones. */
const retryBaseMs = 30_000;
const retryCapMs = 30 * 60_000;
const retryLeastMs = 1000;
/** A directory that answers every call and never ends is given up. */
const readingMsMax = 15 * 60_000;

/** What the job needs beside core. */
export interface DirectoryJobNeeds {
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;
  /** The contents of a file that nobody else may read; throws when it is open to others. */
  readKeyFile(path: string): string;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

/**
 * Keeps people and their scopes as the directory has them until the signal aborts: at once, then at every interval, sooner after a
 * failure. The key file is read for each sync, so that a new key needs no restart, and a bad one fails the sync, not core.
 */
export const runDirectorySync = (
  { core, readKeyFile, exclusively, observe }: DirectoryJobNeeds,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, entropy, log, config } = core;
  const { domain, delegateEmail, serviceAccountKeyFile, apiUrl, syncIntervalSeconds } = config.directory;

  const read = async (stop: AbortSignal): Promise<DirectorySnapshot> => {
    const account = parseServiceAccount(readKey(() => readKeyFile(serviceAccountKeyFile)));
    // 30 MB and a tenth of a second, which core's start need not wait for.
    const { readGoogleDirectory } = await import("../directory/google-directory.ts");
    const inTime = AbortSignal.any([stop, AbortSignal.timeout(readingMsMax)]);
    return readGoogleDirectory({ account, delegateEmail, domain, apiUrl, signal: inTime });
  };

  const retryMs = (failures: number): number =>
    retryLeastMs + fullJitterMs({ attempt: failures - 1, baseMs: retryBaseMs, capMs: retryCapMs, entropy });
  let isFirst = true;
  return runEvery(
    { name: "directory sync", intervalMs: syncIntervalSeconds * 1000, retryMs, clock, signal, log },
    async () => {
      const report = await syncDirectory({ ...core, read, exclusively, observe }, { isFirst, signal });
      isFirst = false;
      if (report?.suspectSetting != null)
        log.warn(
          report,
          `most people are outside ${report.suspectSetting} (${domain}): is it set as the directory has it?`,
        );
      else if (report?.outcome === "held")
        log.warn(report, "the directory misses more than half of all people; they stay");
      return report;
    },
  );
};

const readKey = (read: () => string): string => {
  try {
    return read();
  } catch (error) {
    throw new DirectoryFault("key_file_unusable", `SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: ${fileFault(error)}`);
  }
};
