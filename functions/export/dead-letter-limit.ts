import type { Clock } from "../../kit/clock.ts";

/** What becomes of an envelope that the backend rejects for good: a dead letter; dropped, since its host has had its share; or neither yet. */
export type DeadLetterDecision = "store" | "drop" | "wait";

/** The dependencies of a limit. */
export interface DeadLetterLimitOptions {
  /** Dead letters of a host, and of all. */
  hostMax: number;
  max: number;
  /** Returns how many are stored now, by host; a failure leaves the counts as they are. */
  count(): Promise<Map<string, number>>;
  /** Returns how many hosts send. */
  countHosts(): Promise<number>;
  clock: Pick<Clock, "monotonic">;
}

/** Fewer hosts than so many are never taken for a fault of the backend, unless no others send. */
const hostsAtLimitMin = 3;
const hostsAtLimitShare = 0.05;
/** At a limit the stored ones are counted again, no more often than this. */
const recountMs = 1_000;

/**
 * Makes the decision on each rejected envelope. A host beyond its share loses its own envelopes, so that it stops nobody else's export. When
 * more than 5 % of the hosts that send, and at least three, have reached theirs, or all of them, the fault is the backend's: the export
 * then waits. At a limit it counts the stored ones again, so it continues once somebody has deleted or retried some.
 */
export const createDeadLetterLimit = (
  options: DeadLetterLimitOptions,
): ((hostId: string) => Promise<DeadLetterDecision>) => {
  const { max, clock } = options;
  const hostMax = Math.min(options.hostMax, max);
  let counts: Map<string, number> | undefined;
  let hosts = 0;
  let countedAt = Number.NEGATIVE_INFINITY;

  const recount = async (): Promise<Map<string, number>> => {
    if (counts && clock.monotonic() - countedAt < recountMs) return counts;
    countedAt = clock.monotonic();
    counts = await options.count().catch(() => counts ?? new Map<string, number>());
    hosts = await options.countHosts().catch(() => hosts);
    return counts;
  };
  const admit = (counted: Map<string, number>, hostId: string): boolean => {
    const own = counted.get(hostId) ?? 0;
    counted.set(hostId, own);
    if (own >= hostMax || sum(counted.values()) >= max) return false;
    counted.set(hostId, own + 1);
    return true;
  };
  return async (hostId) => {
    if (counts && admit(counts, hostId)) return "store";
    const counted = await recount();
    if (admit(counted, hostId)) return "store";
    const sending = Math.max(hosts, counted.size);
    const atLimit = counted.values().reduce((some, each) => some + (each >= hostMax ? 1 : 0), 0);
    const tooMany = Math.max(hostsAtLimitMin, Math.floor(sending * hostsAtLimitShare) + 1);
    return atLimit >= Math.min(sending, tooMany) ? "wait" : "drop";
  };
};

const sum = (counts: Iterable<number>): number => {
  let all = 0;
  for (const count of counts) all += count;
  return all;
};
