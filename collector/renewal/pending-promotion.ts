import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Credentials } from "../identity/credentials.ts";
import type { IdentityDirectory } from "../identity/identity-directory.ts";
import { IdentityLockedError } from "../identity/lock.ts";

/** Ends the promotion of a pair that was just put in use: core takes it, or does not know it. */
export interface PendingPromotion {
  /** Core took the pair: the one before it is removed. Calls after the first cost nothing. */
  served(): void;
  /** Core does not know the pair: the one before it is taken up again, if it is still there. */
  unknown(): void;
}

/** The promotion of `pair`, which is in use in `directory`. Acts in the background, and again later if another process is at it. */
export const createPendingPromotion = async (options: {
  directory: IdentityDirectory;
  pair: Credentials;
  clock: Clock;
  log: Log;
  /** Told the fingerprint of the pair that is in use again. */
  onRollback(fingerprintSha256: string | undefined): void;
}): Promise<PendingPromotion> => {
  const { directory, pair, clock, log, onRollback } = options;
  let open = await directory.isPendingPromotion();
  let acting = false;

  const end = async (act: () => Promise<void>): Promise<void> => {
    acting = true;
    try {
      await directory.locked(async () => {
        const current = await directory.current();
        if (current?.fingerprintSha256 === pair.fingerprintSha256) await act();
        open = false;
      });
    } catch (error) {
      if (!(error instanceof IdentityLockedError))
        log.error({ err: error }, "the identity directory cannot be changed");
    } finally {
      acting = false;
    }
  };

  const rollBack = async (): Promise<void> => {
    if (!(await directory.rollBack(clock.now()))) return;
    log.warn({}, "core does not know the new certificate; the one before is in use again");
    onRollback((await directory.current())?.fingerprintSha256);
  };

  return {
    served: () => {
      if (open && !acting) void end(() => directory.promote());
    },
    unknown: () => {
      if (open && !acting) void end(rollBack);
    },
  };
};
