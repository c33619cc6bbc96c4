/** The sources of telemetry of the hosts in core's memory, which counts them without a scan of the accounts. */
import { sql } from "drizzle-orm";
import { LRUCache } from "lru-cache";
import { type Clock, dayMs } from "#kit/clock.ts";
import type { Executor } from "../database/database.ts";
import { idAt, idBytes } from "./columns/packed-rows.ts";
import type { ResidentHosts } from "./columns/resident-hosts.ts";
import { ofRecentDays } from "./predicate.ts";
import type { HostCounts } from "./select-hosts.ts";

/** The number of hosts with a source, in a selection and in all. */
export type CountedSources = Map<string, HostCounts<"selected">>;

/** The sources of all hosts. */
export interface HostSources {
  /**
   * Counts the sources at a time, of all hosts of a view and of the selected ones; undefined until they are read, which the first call
   * starts.
   */
  count(view: ResidentHosts, isSelected: Uint8Array, time: Date): CountedSources | undefined;
}

/** The set of each host by its index, and the sources of each set, of which a fleet has few; 0 is none. */
interface SourceSets {
  setOf: Uint32Array;
  sets: (readonly string[])[];
}

/** The sources of a day, once they are read. `error`: the last read failed; the next call throws it. */
interface KnownDay {
  known?: SourceSets;
  error?: unknown;
  isReading: boolean;
  readAt: number;
}

/** Accounts arrive once an hour. */
const keptMs = 300_000;
/** Days in memory: the present one, and a past one. */
const daysMax = 2;

/** Creates the sources, unread at first. Reads them again periodically, and frees them with their hosts. */
export const createHostSources = ({
  db,
  clock,
}: {
  db: Executor;
  clock: Pick<Clock, "monotonic">;
}): HostSources => {
  const daysOfHosts = new WeakMap<ResidentHosts["ids"], LRUCache<number, KnownDay>>();
  const find = (view: ResidentHosts, day: number): KnownDay => {
    const days = daysOfHosts.get(view.ids) ?? new LRUCache<number, KnownDay>({ max: daysMax });
    daysOfHosts.set(view.ids, days);
    const known: KnownDay = days.get(day) ?? { isReading: false, readAt: Number.NEGATIVE_INFINITY };
    days.set(day, known);
    return known;
  };
  const read = async (own: KnownDay, view: ResidentHosts, time: Date) => {
    own.isReading = true;
    own.readAt = clock.monotonic();
    try {
      own.known = await readSets(db, view, time);
    } catch (error) {
      own.error = error;
      // The call after the one that throws it reads again.
      own.readAt = Number.NEGATIVE_INFINITY;
    }
    own.isReading = false;
  };
  return {
    count(view, isSelected, time) {
      const own = find(view, Math.floor(time.getTime() / dayMs));
      if (own.error !== undefined) {
        const { error } = own;
        own.error = undefined;
        throw error;
      }
      if (!own.isReading && clock.monotonic() - own.readAt > keptMs) void read(own, view, time);
      return own.known && countSets(own.known, isSelected);
    },
  };
};

const countSets = ({ setOf, sets }: SourceSets, isSelected: Uint8Array): CountedSources => {
  const selected = new Uint32Array(sets.length);
  const all = new Uint32Array(sets.length);
  // Hosts that have enrolled since have none yet.
  const count = Math.min(isSelected.length, setOf.length);
  for (let place = 0; place < count; place++) {
    const set = setOf[place] as number;
    selected[set] = (selected[set] as number) + (isSelected[place] as number);
    all[set] = (all[set] as number) + 1;
  }
  const counted: CountedSources = new Map();
  for (const [set, sources] of sets.entries())
    for (const source of sources) {
      const sum = counted.get(source) ?? { selected: 0, all: 0 };
      counted.set(source, {
        selected: sum.selected + (selected[set] as number),
        all: sum.all + (all[set] as number),
      });
    }
  return counted;
};

/** Hosts of a read: each batch occupies core for some milliseconds. */
const batchHosts = 5000;

/** The hosts of a set in a batch. */
interface SetRow extends Record<string, unknown> {
  sources: string[];
  ids: Uint8Array;
  /** The last host of a full batch. */
  next: string | null;
}

const readSets = async (db: Executor, view: ResidentHosts, time: Date): Promise<SourceSets> => {
  const setOf = new Uint32Array(view.ids.length);
  const sets: (readonly string[])[] = [[]];
  const numbers = new Map<string, number>();
  const recent = ofRecentDays(sql`day`, time);
  const known = await db.execute(sql`select from volume_source where ${recent} limit 1`);
  for (let after: string | null = known.length === 0 ? null : ""; after !== null; ) {
    const rows: SetRow[] = await db.execute<SetRow>(sql`
      select sources, string_agg(uuid_send(identity_id), ''::bytea) as ids,
        case when sum(count(*)) over () = ${batchHosts} then max(max(identity)) over () end as next
      from (select identity_id, identity, array(select distinct source from volume_source v
          where host_id = identity collate "default" and ${recent} order by source) as sources
        from fleet_status where identity > ${after} order by identity limit ${batchHosts}) host
      group by sources`);
    for (const { sources, ids } of rows) {
      if (sources.length === 0) continue;
      const key = JSON.stringify(sources);
      const number = numbers.get(key) ?? sets.push(sources) - 1;
      numbers.set(key, number);
      for (let at = 0; at < ids.length; at += idBytes) {
        const place = view.placeOf(idAt(ids, at));
        if (place !== undefined) setOf[place] = number;
      }
    }
    after = rows[0]?.next ?? null;
  }
  return { setOf, sets };
};
