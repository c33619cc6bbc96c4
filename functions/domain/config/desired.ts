import type { Core } from "../../core.ts";
import { type CurrentAssignment, findCurrentAssignment } from "../../store/assignments.ts";
import type { Origin } from "../audit/record.ts";
import { admitProof } from "../certificate/admit.ts";
import type { ProvenCollector } from "../certificate/prove.ts";

/** The config assigned to the caller's own identity, null when none is; nobody else's can be asked for. */
export const desiredConfig = async (
  core: Pick<Core, "db" | "clock" | "entropy">,
  caller: ProvenCollector,
  origin: Origin,
): Promise<CurrentAssignment | null> => {
  const { identityId } = await admitProof(core, "config_desired", caller, origin);
  return (await findCurrentAssignment(core.db, identityId)) ?? null;
};
