/**
 * The hosts at times of the past, whole enough to start a view of the past with. Invariants: a checkpoint has what every transaction of its time
 * has written, as it is taken `settledMs` later; between two of them there are about `changesPerCheckpoint` changes, or core was stopped;
 * one that is written as a difference begins with the hosts of its base, which is a day older at most.
 */
import { and, desc, eq, isNull, lte, sql } from "drizzle-orm";
import { fleetCheckpoint } from "../../../../drizzle/schema/fleet-history.ts";
import { dayMs } from "../../../../kit/clock.ts";
import type { Executor } from "../../database/database.ts";
import { arrayLiteral } from "../../database/query-parts.ts";
import type { BlockCodec } from "../../ingest/block-codec.ts";
import { nameColumns } from "../columns/packed-rows.ts";
import type { HostTable } from "../columns/resident-hosts.ts";
import { timestampAt } from "../rows.ts";
import { decodeCheckpoint, encodeCheckpoint, type KnownHosts } from "./checkpoint-body.ts";

/** Changes of hosts after which a checkpoint is due. */
export const changesPerCheckpoint = 5000;

/** An event may be committed so long after its time. */
export const settledMs = 120_000;

/** Where checkpoints are kept. */
export interface CheckpointStore {
  db: Executor;
  codec: Pick<BlockCodec, "compress" | "decompress" | "free">;
}

/** Whether a checkpoint has the columns of this version: an upgrade that adds some begins anew. */
const hasColumns = sql`names ?& ${arrayLiteral(nameColumns)}::text[]`;

/** Finds when the newest checkpoint is of; null without one. */
export const findLastCheckpoint = async (db: Executor): Promise<Date | null> => {
  const [row] = await db.execute<{ at: string | null }>(sql`select max(at) as at from fleet_checkpoint`);
  return row?.at ? new Date(row.at) : null;
};

/** Finds when the first checkpoint is of that is not before a time; null without one. */
export const findNextCheckpoint = async (db: Executor, time: Date): Promise<Date | null> => {
  const [row] = await db.execute<{ at: string | null }>(
    sql`select min(at) as at from fleet_checkpoint where at >= ${timestampAt(time)} and ${hasColumns}`,
  );
  return row?.at ? new Date(row.at) : null;
};

/** Reads and writes checkpoints, one call after the other. */
interface Checkpoints {
  /** Returns the hosts of a checkpoint, as columns of the caller's own. */
  read(at: Date): Promise<HostTable>;
  /** Stores the hosts of a time: as the difference from the last whole checkpoint within a day, if they begin with its hosts. */
  add(at: Date, table: HostTable): Promise<void>;
}

/** Creates a reader and writer. The whole checkpoint used last stays in memory, as times nearby have the same, and so do the hosts. */
export const createCheckpoints = ({ db, codec }: CheckpointStore): Checkpoints => {
  let last: { at: number; table: HostTable; bytes: Uint8Array } | undefined;
  let known: KnownHosts | undefined;
  const readWhole = async (at: Date): Promise<HostTable> => {
    if (last?.at === at.getTime()) return last.table;
    const { table, bytes, ...read } = decodeCheckpoint(await findCheckpoint(db, at), codec, { known });
    known = read.known;
    if (last) codec.free(last.bytes);
    last = { at: at.getTime(), table, bytes };
    return table;
  };
  return {
    async read(at) {
      const row = await findCheckpoint(db, at);
      if (row.baseAt === null) return (await readWhole(at)).copy();
      return decodeCheckpoint(row, codec, { base: await readWhole(row.baseAt) }).table;
    },
    async add(at, table) {
      const [before] = await db
        .select({ at: fleetCheckpoint.at })
        .from(fleetCheckpoint)
        .where(and(isNull(fleetCheckpoint.baseAt), lte(fleetCheckpoint.at, at), hasColumns))
        .orderBy(desc(fleetCheckpoint.at))
        .limit(1);
      const whole = before && (await readWhole(before.at));
      // Also a whole one begins with the hosts of that before it, so that core's memory has them once.
      const ordered = whole && orderLike(table, whole);
      const base = ordered && before.at.getTime() >= at.getTime() - dayMs ? whole : undefined;
      const body = encodeCheckpoint(ordered ?? table, codec, base);
      await db
        .insert(fleetCheckpoint)
        .values({ at, baseAt: base ? (before?.at ?? null) : null, ...body })
        .onConflictDoNothing();
    },
  };
};

const findCheckpoint = async (db: Executor, at: Date): Promise<typeof fleetCheckpoint.$inferSelect> => {
  const [row] = await db.select().from(fleetCheckpoint).where(eq(fleetCheckpoint.at, at));
  if (row === undefined) throw new Error("a checkpoint of the fleet is missing");
  return row;
};

/** Returns a table with the hosts of another first, in their order; undefined if it lacks one of them. */
const orderLike = (table: HostTable, first: HostTable): HostTable | undefined => {
  const places = new Uint32Array(table.count);
  const isPlaced = new Uint8Array(table.count);
  let count = 0;
  for (let at = 0; at < first.count; at++) {
    const place = table.placeOf(first.ids[at] as string);
    if (place === undefined) return undefined;
    places[count++] = place;
    isPlaced[place] = 1;
  }
  for (let place = 0; place < table.count; place++) if (isPlaced[place] === 0) places[count++] = place;
  return table.copy(places);
};
