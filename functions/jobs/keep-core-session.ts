import { uuidv7 } from "#kit/entropy.ts";
import type { WriteCore } from "../core.ts";
import { extendSession, isUnbroken } from "../store/fleet/core-sessions.ts";

/**
 * Creates a tick that records that this core can receive. A session grows by monotonic time: a clock that jumps does not extend it, and a
 * process that was suspended, or whose database did not respond, starts another. The time that no core's session covers is an outage
 * (docs/fleet-health.md), which the tick records before the session that ends it. Does nothing while `isReady` is false.
 */
export const createSessionKeeper = (
  { db, clock, entropy }: WriteCore,
  isReady: () => boolean,
  /** Called with whether a core of a previous version can also receive. */
  olderCore: (isPresent: boolean) => void,
) => {
  let session: { id: string; at: number } | undefined;
  return async (): Promise<{ outage_seconds: number; began_at: string } | undefined> => {
    if (!isReady()) {
      session = undefined;
      return undefined;
    }
    const at = clock.monotonic();
    const until = clock.now();
    const elapsedMs = session === undefined ? Number.POSITIVE_INFINITY : at - session.at;
    const grown = session !== undefined && isUnbroken(elapsedMs);
    const sessionId = grown && session ? session.id : uuidv7({ clock, entropy });
    const { outage, hasOlderCore } = await db.transaction((tx) =>
      extendSession(tx, {
        sessionId,
        from: new Date(grown ? until - elapsedMs : until),
        until: new Date(until),
        outageId: uuidv7({ clock, entropy }),
      }),
    );
    session = { id: sessionId, at };
    olderCore(hasOlderCore);
    if (outage === undefined) return undefined;
    const { beganAt, endedAt } = outage;
    return {
      outage_seconds: Math.round((endedAt.getTime() - beganAt.getTime()) / 1000),
      began_at: beganAt.toISOString(),
    };
  };
};
