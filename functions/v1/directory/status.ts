import type { ReadCore } from "#functions/core.ts";
import { readDirectorySyncState } from "#functions/domain/directory/status.ts";
import { readHeldCounts } from "#functions/domain/scim/confirm-access.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { DirectoryStatus } from "#proto/operator/directory-status.ts";

const statusView = viewOf(DirectoryStatus);

/** The route that reports the result of the newest sync of the directory, and the numbers of people (docs/directory.md). */
export const directoryReports = (core: ReadCore) =>
  resource(core, "/v1/directory/status", ({ get }) => ({
    directoryStatus: get(
      "",
      "How the newest sync of the directory ended, how old its snapshot is, and how many people of each status there are",
      {
        by: "read",
        returns: ["The state of the sync", DirectoryStatus],
        handle: async () => {
          const [{ last, counts, suspectSetting }, held] = await Promise.all([
            readDirectorySyncState(core),
            readHeldCounts(core),
          ]);
          const { provider, syncIntervalSeconds } = core.config.directory;
          const snapshotAt = last?.syncedAt ?? null;
          return statusView({
            provider: provider.kind,
            lastSync: last,
            lastPushAt: last?.pushedAt ?? null,
            snapshotAt,
            snapshotAgeSeconds:
              snapshotAt &&
              Math.max(0, Math.round((core.clock.now() - snapshotAt.getTime()) / 1000)),
            failuresInARow: last?.failures ?? 0,
            missingGroups: last?.missingGroups ?? [],
            suspectSetting,
            restoredAt: held.restoredAt,
            accessHeld: held,
            syncIntervalSeconds,
            counts: { ...counts, absencesHeld: counts.held },
          });
        },
      },
    ),
  }));
