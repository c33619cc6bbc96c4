import type { Clock } from "#kit/clock.ts";
import { Problem } from "../problems.ts";
import type { Sink } from "./sink.ts";

/** A host of which nothing is stored before a time. */
export interface Hold {
  hostId: string;
  budget: string;
  until: Date;
}

/** The hosts that have sent their budget, as this core knows them. */
export type HeldHosts = ReturnType<typeof createHeldHosts>;

/** Creates an empty set. A hold ends at its time, also if this core is not told. */
export const createHeldHosts = (clock: Pick<Clock, "now">) => {
  let held: ReadonlyMap<string, Hold> = new Map();
  return {
    /** Replaces them. */
    set(holds: readonly Hold[]) {
      held = new Map(holds.map((hold) => [hold.hostId, hold]));
    },
    /** Returns `budget_exceeded` for one of them. */
    faultOf(hostId: string): Problem | undefined {
      const hold = held.size === 0 ? undefined : held.get(hostId);
      if (hold === undefined || hold.until.getTime() <= clock.now()) return undefined;
      return new Problem("budget_exceeded", {
        detail: `core holds the host by its budget ${hold.budget} until ${hold.until.toISOString()}`,
      });
    },
  };
};

/** Returns a sink that opens no queue and stores no frame of a host that is held, so that the host keeps them and tries again. */
export const holdBack = (sink: Sink, held: Pick<HeldHosts, "faultOf">): Sink => ({
  ...sink,
  open(claims, isDisconnected) {
    const fault = held.faultOf(claims.hostId);
    return fault ? Promise.reject(fault) : sink.open(claims, isDisconnected);
  },
  commit(frame, bytes) {
    const fault = held.faultOf(frame.hostId);
    return fault ? Promise.reject(fault) : sink.commit(frame, bytes);
  },
});
