import type { Core } from "../../core.ts";
import { countPeople, type DirectorySync, findDirectorySync, type PeopleCounts } from "../../store/directory.ts";
import type { HeldFor, SuspectSetting } from "./rules.ts";

/** How the sync of the directory stands: how the newest ended, and whom core knows. */
export interface DirectoryStatus {
  /** Null before the first. */
  last: DirectorySync | null;
  counts: PeopleCounts;
  /** The setting that looks wrong; null when none does. */
  suspectSetting: SuspectSetting | null;
}

/** Asks the database, so that every core answers the same, whichever ran the sync. */
export const readDirectoryStatus = async ({ db }: Pick<Core, "db">): Promise<DirectoryStatus> => {
  const [last, counts] = await Promise.all([findDirectorySync(db), countPeople(db)]);
  return { last: last ?? null, counts, suspectSetting: suspectSettingOf(last, counts) };
};

/** People are there, and suddenly few of them, or none at all, in the domain. */
const suspectSettingOf = (
  last: DirectorySync | undefined,
  { people: { active, unverified } }: PeopleCounts,
): SuspectSetting | null => {
  const massUnverified: HeldFor = "mass_unverified";
  const looksWrong = last?.reasonCode === massUnverified || (active === 0 && unverified > 0);
  return looksWrong ? "SVC_DIRECTORY_DOMAIN" : null;
};
