import type { DirectoryStatus } from "../../../proto/operator/directory-status.ts";
import { formatCountOf } from "../format/amount.ts";

/** What is the matter with the sync, in sentences; none when all is well. */
export const directoryFaults = (status: DirectoryStatus): string[] => {
  const {
    last_sync: last,
    failures_in_a_row: failures,
    missing_groups: groups,
    suspect_setting: suspect,
    counts,
  } = status;
  if (last === null) return ["The directory has not been synced yet."];
  const why = last.reason_code === null ? "" : ` (${last.reason_code})`;
  const times = failures > 1 ? `${failures} times in a row` : "";
  return [
    ...(last.outcome === "failed"
      ? [`The last sync failed${times && ` ${times}`}${why}; what was read before stays.`]
      : []),
    ...(last.outcome === "refused"
      ? [`The last sync was not believed${times && `, ${times}`}${why}; what was read before stays.`]
      : []),
    ...(counts.absences_held > 0
      ? [`${formatCountOf(counts.absences_held, "absence is", "absences are")} held until three syncs agree.`]
      : []),
    ...(suspect === null ? [] : [`Hardly anybody is in the domain that core is told of: ${suspect} looks wrong.`]),
    ...groups.map((group) => `The group ${group} was not found, so it gives no scope.`),
  ];
};
