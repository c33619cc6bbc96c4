import type { DirectoryStatus } from "#proto/operator/directory-status.ts";
import { formatCountOf } from "../format/format.ts";

/** Returns the faults of the directory sync as sentences, each with its consequence; none when all is well. */
export const directoryFaults = (status: DirectoryStatus): string[] => {
  return [...restoreFaults(status), ...syncFaults(status)];
};

const restoreFaults = ({ access_held: { people, memberships } }: DirectoryStatus): string[] =>
  people + memberships === 0
    ? []
    : [
        `The database was restored from a backup: ${formatCountOf(people, "person waits", "people wait")} for the directory, or for \`svc-server confirm-access\`.`,
      ];

const syncFaults = (status: DirectoryStatus): string[] => {
  const { last_sync: last, failures_in_a_row: failures, suspect_setting: suspect, counts } = status;
  if (status.provider === "scim" && status.last_push_at === null)
    return ["The identity provider has pushed nobody yet, so nobody new can sign in."];
  if (last === null) return ["The directory has not been synced yet."];
  const why = last.reason_code === null ? "" : ` (${last.reason_code})`;
  const silent = ["directory_unreachable", "directory_unavailable"].includes(
    last.reason_code ?? "",
  );
  const syncs = failures > 1 ? `The last ${failures} syncs` : "The last sync";
  const people = formatCountOf(counts.absences_held, "person is", "people are");
  return [
    ...(last.outcome === "failed"
      ? [
          `${silent ? "The directory does not answer. " : ""}${syncs} failed${why}; the previous snapshot stays in use.`,
        ]
      : []),
    ...(last.outcome === "refused"
      ? [
          `${syncs} ${failures > 1 ? "were" : "was"} rejected${why}; the previous snapshot stays in use.`,
        ]
      : []),
    ...(counts.absences_held > 0
      ? [`${people} missing from the directory; scopes are removed once three syncs agree.`]
      : []),
    ...(suspect === null ? [] : [`Almost nobody is in core's domain: check ${suspect}.`]),
    ...status.missing_groups.map(
      (group) => `The group ${group} was not found, so it grants no scope.`,
    ),
  ];
};
