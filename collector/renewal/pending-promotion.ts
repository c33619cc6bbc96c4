/*
 * The promotion or rollback of renewed credentials after they are installed. Invariants:
 * - The previous credentials stay on disk until core has accepted the new ones once: a heartbeat, or an acknowledged frame.
 * - The promotion ends once: by `promote`, which deletes the previous credentials, or by `rollBack`, which restores them.
 * - It acts only while the credentials of this session are the current ones on disk.
 */
import type { Clock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { Credentials } from "../identity/credentials.ts";
import type { IdentityDirectory } from "../identity/identity-directory.ts";
import { IdentityLockedError } from "../identity/identity-directory.ts";

/** Ends the pending promotion of new credentials. Both calls act in the background, and do nothing once it has ended. */
export interface PendingPromotion {
  /** Core accepted the new credentials: deletes the previous ones. */
  promote(): void;
  /** Restores the previous credentials, if they are still usable, because core does not know the new certificate. */
  rollBack(): void;
}

/** Opens the pending promotion of `credentials`. While another process has the directory's lock, the next call tries again. */
export const createPendingPromotion = async (options: {
  directory: IdentityDirectory;
  credentials: Credentials;
  clock: Clock;
  log: Log;
  /** Called with the fingerprint of the restored credentials. */
  onRollback(fingerprintSha256: string | undefined): void;
}): Promise<PendingPromotion> => {
  const { directory, credentials, clock, log, onRollback } = options;
  let isPending = await directory.isPendingPromotion();
  let acting = false;

  const end = async (act: () => Promise<void>) => {
    if (!isPending || acting) return;
    acting = true;
    try {
      await directory.locked(async () => {
        const current = await directory.current();
        if (current?.fingerprintSha256 === credentials.fingerprintSha256) await act();
        isPending = false;
      });
    } catch (error) {
      if (!(error instanceof IdentityLockedError))
        log.error({ err: error }, "the identity directory cannot be changed");
    } finally {
      acting = false;
    }
  };

  const rollBack = async () => {
    if (!(await directory.rollBack(clock.now()))) return;
    log.warn({}, "core does not know the new certificate; rolled back to the previous credentials");
    onRollback((await directory.current())?.fingerprintSha256);
  };

  return {
    promote: () => void end(() => directory.promote()),
    rollBack: () => void end(rollBack),
  };
};
