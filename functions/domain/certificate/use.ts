import type { Core } from "../../core.ts";
import { updateFirstUsed, updateReplaced } from "../../store/certificates.ts";
import { lockIdentity } from "../../store/identities.ts";

/**
 * Marks a certificate used for the first time, by whatever request; its predecessor is `replaced` from then on (contract, section
 * 3, "Renew"). Idempotent, and safe to repeat after a crash: the mark and the replacement commit together.
 */
export const markUsed = async (
  { db, clock }: Pick<Core, "db" | "clock">,
  { certificateId, identityId }: { certificateId: string; identityId: string },
): Promise<void> =>
  db.transaction(async (tx) => {
    await lockIdentity(tx, identityId);
    const at = new Date(clock.now());
    const used = await updateFirstUsed(tx, certificateId, at);
    if (used !== undefined && used.predecessorId !== null) await updateReplaced(tx, used.predecessorId, at);
  });
