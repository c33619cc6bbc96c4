import type { WriteCore } from "#functions/core.ts";
import { type CurrentAssignment, findCurrentAssignment } from "#functions/store/config/configs.ts";
import type { Origin } from "../audit/audit-log.ts";
import { admitProof, type ProvenCollector } from "../certificate/authenticate.ts";

/** Returns the config assigned to the caller's own identity; null for none. */
export const desiredConfig = async (
  core: WriteCore,
  caller: ProvenCollector,
  origin: Origin,
): Promise<CurrentAssignment | null> => {
  const { identityId } = await admitProof(core, "config_desired", caller, origin);
  return (await findCurrentAssignment(core.db, identityId)) ?? null;
};
