/** Computes the hosts at an earlier time from those at a later one, by reverting the changes between. */
import { type SQL, sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";
import { factColumns } from "#proto/fleet-health/vocabulary.ts";
import {
  hostColumns,
  type PackedLayout,
  type PackedRows,
  readPacked,
} from "../columns/packed-rows.ts";
import type { HostTable, ResidentHosts } from "../columns/resident-hosts.ts";
import { type ChangedBetween, connectionsBefore, factsBefore, silencesBefore } from "../history.ts";

const none: PackedLayout = { times: [], amounts: [], keys: [], flags: [], names: [] };
const heartbeatColumns: PackedLayout = {
  ...none,
  times: ["last_heartbeat_at"],
  amounts: ["queue_bytes"],
};
const envelopeColumns: PackedLayout = { ...none, times: ["last_envelope_at"] };
const connectionColumns: PackedLayout = { ...none, names: ["core", "subnet"] };

/** Amounts without a history: unknown in the past, also those of checkpoints. The size of a queue is known in a silence. */
const unknown = hostColumns.amounts.filter(
  (name) => name !== "queue_bytes" && !factColumns.amounts.includes(name),
);

/** The facts at the first of two times, of hosts that have changed since. */
interface ChangesBack {
  facts: PackedRows;
  connections: PackedRows;
  /** Silences around that time that have ended since. */
  unheard: PackedRows;
  unsent: PackedRows;
}

/** Reads the changes, a row for each host and kind. */
export const readChanges = async (
  db: Pick<Database, "execute">,
  between: ChangedBetween,
): Promise<ChangesBack> => {
  const read = (relation: SQL, layout: PackedLayout) => readPacked(db, sql``, relation, layout);
  const [facts, connections, unheard, unsent] = await Promise.all([
    read(factsBefore(between), factColumns),
    read(connectionsBefore(between), connectionColumns),
    read(silencesBefore(between, { areOfEnvelopes: false }), heartbeatColumns),
    read(silencesBefore(between, { areOfEnvelopes: true }), envelopeColumns),
  ]);
  return { facts, connections, unheard, unsent };
};

/** Returns the hosts that were enrolled at a time: the same table without its last hosts, or another one if others were not enrolled. */
export const keepEnrolled = (hosts: HostTable, at: Date): HostTable => {
  const enrolled = hosts.numbers("enrolled_at");
  const places = new Uint32Array(hosts.count);
  let count = 0;
  for (let place = 0; place < hosts.count; place++)
    if ((enrolled[place] as number) <= at.getTime()) places[count++] = place;
  if (count > 0 && places[count - 1] !== count - 1) return hosts.copy(places.subarray(0, count));
  hosts.count = count;
  return hosts;
};

/**
 * Changes hosts of a later time, a whole second or now, to what they were at `time`: those that `hostsAt` returns. If they are of now, the
 * changes must have been read after them.
 */
export const takeBack = (
  table: HostTable,
  { facts, connections, unheard, unsent }: ChangesBack,
  time: Date,
): HostTable => {
  const at = time.getTime();
  const heartbeats = table.numbers("last_heartbeat_at");
  const envelopes = table.numbers("last_envelope_at");
  const queues = table.numbers("queue_bytes");
  const second = at - (at % 1000);
  // A silence that lasts at the later time had begun by this one, or the host was not silent.
  for (let place = 0; place < table.count; place++) {
    if ((heartbeats[place] as number) > at) {
      heartbeats[place] = at;
      queues[place] = -1;
    }
    if ((envelopes[place] as number) > second) envelopes[place] = second;
  }
  table.take(facts, factColumns);
  table.take(connections, connectionColumns);
  table.take(unheard, heartbeatColumns);
  table.take(unsent, envelopeColumns);
  return table;
};

/** Returns the hosts of a time, from those of `between.until` or of now. */
export const rewindHosts = async (
  db: Pick<Database, "execute">,
  hosts: ResidentHosts,
  between: ChangedBetween,
): Promise<HostTable> => {
  // Copied first: hosts of now change while the changes are read.
  const table = keepEnrolled(hosts.copy(), between.from);
  for (const name of unknown) table.numbers(name).fill(-1);
  table.numbers("last_auth_failure_at").fill(Number.NEGATIVE_INFINITY);
  return takeBack(table, await readChanges(db, between), between.from);
};
