import type { Clock } from "#kit/clock.ts";

/** The fate of an envelope that the backend rejects for good: kept as a dead letter, dropped since its host has its share of them, or not decided. */
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
export const createDeadLetterLimit = (options: DeadLetterLimitOptions) => {
  const { max, clock } = options;
  const hostMax = Math.min(options.hostMax, max);
  /** Decided and not stored yet. */
  const pending = new Map<string, number>();
  let counts = new Map<string, number>();
  let hosts = 0;
  let countedAt = Number.NEGATIVE_INFINITY;

  const add = (hostId: string, letters: number) => {
    for (const some of [pending, counts]) some.set(hostId, (some.get(hostId) ?? 0) + letters);
  };
  const recount = async () => {
    if (clock.monotonic() - countedAt < recountMs) return;
    countedAt = clock.monotonic();
    // Before the count, so that a letter which is stored meanwhile counts twice, and not never.
    const waiting = [...pending];
    const stored = await options.count().catch(() => undefined);
    hosts = await options.countHosts().catch(() => hosts);
    if (stored === undefined) return;
    counts = stored;
    for (const [hostId, letters] of waiting)
      counts.set(hostId, (counts.get(hostId) ?? 0) + letters);
  };
  const admit = (hostId: string) => {
    // A host with a share of nothing has reached it.
    counts.set(hostId, counts.get(hostId) ?? 0);
    if ((counts.get(hostId) ?? 0) >= hostMax || sum(counts.values()) >= max) return false;
    add(hostId, 1);
    return true;
  };
  return {
    async decide(hostId: string): Promise<DeadLetterDecision> {
      if (countedAt === Number.NEGATIVE_INFINITY) await recount();
      if (admit(hostId)) return "store";
      await recount();
      if (admit(hostId)) return "store";
      const sending = Math.max(hosts, counts.size);
      const atLimit = counts.values().reduce((some, each) => some + (each >= hostMax ? 1 : 0), 0);
      const tooMany = Math.max(hostsAtLimitMin, Math.floor(sending * hostsAtLimitShare) + 1);
      return atLimit >= Math.min(sending, tooMany) ? "wait" : "drop";
    },
    /** These dead letters are stored now: the next count has them. */
    stored(hostIds: Iterable<string>): void {
      for (const hostId of hostIds) pending.set(hostId, (pending.get(hostId) ?? 0) - 1);
    },
  };
};

const sum = (counts: Iterable<number>) => {
  let all = 0;
  for (const count of counts) all += count;
  return all;
};
