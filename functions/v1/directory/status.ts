import type { ReadCore } from "#functions/core.ts";
import { readDirectorySyncState } from "#functions/domain/directory/status.ts";
import { readHeldCounts } from "#functions/domain/scim/confirm-access.ts";
import { resource } from "#functions/http/resource.ts";
import { rfc3339 } from "#kit/clock.ts";
import { DirectoryStatus } from "#proto/operator/directory-status.ts";

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
          const snapshotAt = last?.syncedAt?.getTime() ?? null;
          return {
            provider: core.config.directory.provider.kind,
            last_sync: last && {
              finished_at: rfc3339(last.finishedAt.getTime()),
              outcome: last.outcome,
              reason_code: last.reasonCode,
            },
            last_push_at: last?.pushedAt == null ? null : rfc3339(last.pushedAt.getTime()),
            snapshot_at: snapshotAt === null ? null : rfc3339(snapshotAt),
            snapshot_age_seconds:
              snapshotAt && Math.max(0, Math.round((core.clock.now() - snapshotAt) / 1000)),
            failures_in_a_row: last?.failures ?? 0,
            missing_groups: last?.missingGroups ?? [],
            suspect_setting: suspectSetting,
            restored_at: held.restoredAt && rfc3339(held.restoredAt.getTime()),
            access_held: { people: held.people, memberships: held.memberships },
            sync_interval_seconds: core.config.directory.syncIntervalSeconds,
            counts: { people: counts.people, scopes: counts.scopes, absences_held: counts.held },
          };
        },
      },
    ),
  }));
