/** The fleet as it was, in core's memory while somebody looks at it: a past that all transactions have written no longer changes. */
import type { SQL } from "drizzle-orm";
import type { Clock } from "../../../../kit/clock.ts";
import type { Database } from "../../database/database.ts";
import type { FleetColumns } from "./fleet-columns.ts";
import { type HostTable, loadHosts } from "./resident-hosts.ts";

/** The columns of hosts at past times. */
export interface PastColumns {
  /** Returns those of a time; `now` is that of the call. They are loaded with the first look. */
  at(time: Date, now: Date): FleetColumns;
}

/** Times that are kept: what was before and what is after a change. */
const keptMax = 2;
/** Without a look for so long, the memory is freed. */
const idleMs = 300_000;
/** An event may be committed so long after its time. */
const commitMsMax = 60_000;

interface Kept {
  hosts: Promise<HostTable>;
  usedAt: number;
}

/** Creates the columns, still empty. One time is loaded after the other. */
export const createPastColumns = ({
  db,
  clock,
  hostsAt,
  stopping,
}: {
  db: Pick<Database, "execute">;
  clock: Pick<Clock, "monotonic" | "sleep">;
  /** Returns the relation with the hosts of a time. */
  hostsAt(time: Date): SQL;
  /** Aborts when core stops. */
  stopping?: AbortSignal;
}): PastColumns => {
  /** Those used last come last. */
  const kept = new Map<number, Kept>();
  let last: Promise<unknown> = Promise.resolve();

  const load = (time: Date): Promise<HostTable> => {
    const hosts = last.then(() => loadHosts(db, hostsAt(time)));
    last = hosts.catch(() => undefined);
    return hosts;
  };
  const freeWhenIdle = async (key: number, own: Kept): Promise<void> => {
    for (let leftMs = idleMs; leftMs > 0 && kept.get(key) === own; leftMs = own.usedAt + idleMs - clock.monotonic())
      await clock.sleep(leftMs, stopping);
    if (kept.get(key) === own) kept.delete(key);
  };
  const find = (time: Date, now: Date): Promise<HostTable> => {
    if (now.getTime() - time.getTime() < commitMsMax) return load(time);
    const key = time.getTime();
    const known = kept.get(key);
    const own = known ?? { hosts: load(time), usedAt: 0 };
    own.usedAt = clock.monotonic();
    kept.delete(key);
    kept.set(key, own);
    for (const oldest of [...kept.keys()].slice(0, -keptMax)) kept.delete(oldest);
    if (known === undefined) {
      own.hosts.catch(() => kept.delete(key));
      freeWhenIdle(key, own).catch(() => kept.clear());
    }
    return own.hosts;
  };

  return {
    at: (time, now) => {
      const current = () => find(time, now);
      return { current, load: () => current().then(() => undefined) };
    },
  };
};
