import { fullJitterMs } from "../../kit/backoff.ts";
import { fileFault } from "../../kit/describe-error.ts";
import { runEvery } from "../../kit/run-every.ts";
import type { Core, DirectoryObserver } from "../core.ts";
import { parseServiceAccount } from "../directory/service-account.ts";
import { DirectoryFault, type DirectorySnapshot } from "../directory/snapshot.ts";
import type { Exclusively } from "../store/directory-lock.ts";
import { syncDirectory } from "./sync-directory.ts";

/** At most half a minute between the first attempts, and half an hour between later ones. */
const retryBaseMs = 30_000;
const retryCapMs = 30 * 60_000;
const retryMsMin = 1000;
/** Ends the read of a directory that answers every call and never ends. */
const readMsMax = 15 * 60_000;

/** The dependencies of the job. */
export interface DirectoryJobNeeds {
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;
  /** Returns the contents of a file; throws if other users may read it. */
  readKeyFile(path: string): string;
  exclusively: Exclusively;
  observe: DirectoryObserver;
}

/**
 * Syncs people and their scopes with the directory until the signal aborts: at once, then at every interval, sooner after a failure. Reads
 * the key file for each sync, so that a new key needs no restart, and a bad one fails the sync and not core.
 */
export const runDirectorySync = (
  { core, readKeyFile, exclusively, observe }: DirectoryJobNeeds,
  signal: AbortSignal,
): Promise<void> => {
  const { clock, entropy, log, config } = core;
  const { domain, delegateEmail, serviceAccountKeyFile, apiUrl, syncIntervalSeconds } = config.directory;

  const read = async (stop: AbortSignal): Promise<DirectorySnapshot> => {
    const account = parseServiceAccount(readKey(() => readKeyFile(serviceAccountKeyFile)));
    // Loads 30 MB in a tenth of a second, which would slow down the start.
    const { readGoogleDirectory } = await import("../directory/google-directory.ts");
    const inTime = AbortSignal.any([stop, AbortSignal.timeout(readMsMax)]);
    return readGoogleDirectory({ account, delegateEmail, domain, apiUrl, signal: inTime });
  };

  const retryMs = (failures: number): number =>
    retryMsMin + fullJitterMs({ attempt: failures - 1, baseMs: retryBaseMs, capMs: retryCapMs, entropy });
  let isFirst = true;
  return runEvery(
    { name: "directory sync", intervalMs: syncIntervalSeconds * 1000, retryMs, clock, signal, log },
    async () => {
      const report = await syncDirectory({ ...core, read, exclusively, observe }, { isFirst, signal });
      isFirst = false;
      if (report?.suspectSetting != null)
        log.warn(report, `most people are outside ${report.suspectSetting} (${domain}): check that setting`);
      else if (report?.outcome === "held")
        log.warn(report, "more than half of all people are missing from the directory; they stay active for now");
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
