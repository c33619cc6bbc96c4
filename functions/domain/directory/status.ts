import type { Core } from "#functions/core.ts";
import {
  countPeople,
  type DirectorySync,
  findDirectorySync,
  type PeopleCounts,
} from "#functions/store/directory/directory.ts";
import type { HeldFor, SuspectSetting } from "./rules.ts";

/** The state of the directory sync: the newest sync, and the counts of people. */
interface DirectorySyncState {
  /** Null before the first sync. */
  last: DirectorySync | null;
  counts: PeopleCounts;
  /** The setting that seems wrong; null for none. */
  suspectSetting: SuspectSetting | null;
}

/** Reads the state from the database, so that every core returns the same. */
export const readDirectorySyncState = async ({
  db,
}: Pick<Core, "db">): Promise<DirectorySyncState> => {
  const [last, counts] = await Promise.all([findDirectorySync(db), countPeople(db)]);
  return { last: last ?? null, counts, suspectSetting: suspectSettingOf(last, counts) };
};

/** Returns the setting if none or suddenly few of the people are in the domain. */
const suspectSettingOf = (
  last: DirectorySync | undefined,
  { people: { active, held, unverified } }: PeopleCounts,
): SuspectSetting | null => {
  const massUnverified: HeldFor = "mass_unverified";
  const looksWrong = last?.reasonCode === massUnverified || (active + held === 0 && unverified > 0);
  return looksWrong ? "SVC_DIRECTORY_DOMAIN" : null;
};
