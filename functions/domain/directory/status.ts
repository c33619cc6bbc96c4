import type { Core } from "../../core.ts";
import { countPeople, type DirectorySync, findDirectorySync, type PeopleCounts } from "../../store/directory.ts";

/** How the sync of the directory stands: how the newest ended, and whom core knows. */
export interface DirectoryStatus {
  /** Null before the first. */
  last: DirectorySync | null;
  counts: PeopleCounts;
}

/** Asks the database, so that every core answers the same, whichever ran the sync. */
export const readDirectoryStatus = async ({ db }: Pick<Core, "db">): Promise<DirectoryStatus> => {
  const [last, counts] = await Promise.all([findDirectorySync(db), countPeople(db)]);
  return { last: last ?? null, counts };
};
