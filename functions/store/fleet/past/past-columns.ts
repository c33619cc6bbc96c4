/** Keeps the fleet at past times in core's memory while somebody views it. A past that all transactions have written no longer changes. */

import { LRUCache } from "lru-cache";
import type { Database } from "#functions/store/database/database.ts";
import type { Clock } from "#kit/clock.ts";
import type { FleetColumns } from "../columns/fleet-columns.ts";
import { type HostTable, loadHosts, type ResidentHosts } from "../columns/resident-hosts.ts";
import { countChanges, hostsAt } from "../history.ts";
import { type CheckpointStore, createCheckpoints, findNextCheckpoint } from "./checkpoints.ts";
import { keepEnrolled, readChanges, rewindHosts, takeBack } from "./rewind-hosts.ts";

/** The columns of hosts at past times. */
export interface PastColumns {
  /** Returns the hosts at a time; `now` is the time of the call. The first call loads them. */
  at(time: Date, now: Date): Promise<ResidentHosts>;
}

/** Times in memory, such as before and after a change. */
const keptMax = 2;
/** The memory is freed after this time without a call. */
const idleMs = 300_000;
/** An event may commit this long after its time. */
const commitMsMax = 60_000;

interface Kept {
  hosts: Promise<HostTable>;
  usedAt: number;
}

/** Reverting more changes than that takes longer than reading the hosts of the time. */
const changesMax = 50_000;

/**
 * Creates the columns, empty at first. Loads one time after the other: takes the hosts of the next checkpoint, or the present ones, and
 * reverts the changes since.
 */
export const createPastColumns = ({
  db,
  clock,
  codec,
  present,
  stopping,
}: {
  db: Database;
  clock: Pick<Clock, "monotonic" | "sleep">;
  codec: CheckpointStore["codec"];
  /** The hosts as they are now. */
  present: FleetColumns;
  /** Aborts when core stops. */
  stopping?: AbortSignal;
}): PastColumns => {
  const kept = new LRUCache<number, Kept>({ max: keptMax });
  let lastLoad: Promise<unknown> = Promise.resolve();

  let checkpoints = createCheckpoints({ db, codec });
  const readHosts = async (time: Date): Promise<HostTable> => {
    const next = await findNextCheckpoint(db, time);
    const between = { from: time, until: next?.at ?? null };
    const areFew = async () => (await countChanges(db, between, changesMax)) < changesMax;
    if (next) {
      const changed = areFew().then((few) => (few ? readChanges(db, between) : undefined));
      const [hosts, changes] = await Promise.all([checkpoints.read(next), changed]);
      if (hosts && changes) return takeBack(keepEnrolled(hosts, time), changes, time);
    } else if (await areFew())
      return rewindHosts(db, (await currentHosts(present)) ?? (await loadHosts(db)), between);
    return loadHosts(db, hostsAt(time));
  };
  const load = (time: Date): Promise<HostTable> => {
    const hosts = lastLoad.then(async () =>
      Object.assign(await readHosts(time), { decided: new Map() }),
    );
    lastLoad = hosts.catch(() => undefined);
    return hosts;
  };
  const freeWhenIdle = async (key: number, own: Kept) => {
    for (
      let leftMs = idleMs;
      leftMs > 0 && kept.peek(key) === own;
      leftMs = own.usedAt + idleMs - clock.monotonic()
    )
      await clock.sleep(leftMs, stopping);
    if (kept.peek(key) === own) kept.delete(key);
    if (kept.size === 0) checkpoints = createCheckpoints({ db, codec });
  };
  const at = (time: Date, now: Date): Promise<HostTable> => {
    if (now.getTime() - time.getTime() < commitMsMax) return load(time);
    const key = time.getTime();
    const known = kept.get(key);
    const own = known ?? { hosts: load(time), usedAt: 0 };
    own.usedAt = clock.monotonic();
    if (known === undefined) {
      kept.set(key, own);
      own.hosts.catch(() => kept.delete(key));
      freeWhenIdle(key, own).catch(() => kept.clear());
    }
    return own.hosts;
  };

  return { at };
};

/** Returns the present hosts; undefined if they could not be loaded. */
const currentHosts = async (present: FleetColumns) => {
  const hosts = await present.current();
  if (hosts) return hosts;
  await present.load();
  return present.current();
};
