import type { DirectoryFaultCode } from "../../directory/snapshot.ts";
import { lockDirectorySync, saveDirectorySync } from "../../store/directory.ts";
import { type DirectoryCore, endedWithoutSnapshot } from "./apply-snapshot.ts";

/** Puts down that the directory could not be read, and why; people stay as the snapshot before left them. */
export const recordDirectoryFailure = (
  core: Pick<DirectoryCore, "db" | "clock">,
  reasonCode: DirectoryFaultCode,
): Promise<void> =>
  core.db.transaction(async (tx) => {
    const last = await lockDirectorySync(tx);
    await saveDirectorySync(tx, endedWithoutSnapshot(core, last, { outcome: "failed", reasonCode }));
  });
