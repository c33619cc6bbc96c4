/**
 * Stores the fleet at past times, from which a view of the past starts. Invariants:
 * - A checkpoint has everything that transactions of its time have written, because it is taken `settledMs` later.
 * - Between two checkpoints are about `changesPerCheckpoint` changes, unless core was stopped.
 * - A checkpoint stored as a difference begins with the hosts of its base, which is at most a day older.
 */
import { and, desc, eq, gte, isNull, lte, sql } from "drizzle-orm";
import { LRUCache } from "lru-cache";
import { type CheckpointLayout, fleetCheckpoint } from "#drizzle/schema/fleet-history.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  asDate,
  firstRow,
  orNull,
  readScalar,
  texts,
} from "#functions/store/database/statements.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { dayMs } from "#kit/clock.ts";
import { HostIndex } from "../columns/host-index.ts";
import { columnNames, HostTable } from "../columns/resident-hosts.ts";
import {
  type CheckpointHosts,
  checkpointFormat,
  decodeCheckpoint,
  decodeLines,
  encodeCheckpoint,
  encodeLines,
} from "./encode-checkpoint.ts";

/** Changes of hosts after which a checkpoint is due. */
export const changesPerCheckpoint = 5000;

/** An event may commit this long after its time. */
export const settledMs = 120_000;

/** Where checkpoints are kept. */
export interface CheckpointStore {
  db: Executor;
  codec: BlockCodec;
}

/** Whether a checkpoint has the format and the columns of this version. After an upgrade that changes them, checkpoints start anew. */
const isReadable = sql`(layout->>'format')::int = ${checkpointFormat} and layout->'columns' ?& ${texts(columnNames)}`;

/** Returns the time of the newest checkpoint; null without one. */
export const findLastCheckpoint = (db: Executor): Promise<Date | null> =>
  readScalar(db, orNull(asDate), sql`select max(at) from fleet_checkpoint`);

/** The time of a checkpoint and of its base; null for one without. */
type CheckpointAt = Pick<typeof fleetCheckpoint.$inferSelect, "at" | "baseAt">;

/** Finds the first checkpoint that is not before a time; undefined without one. */
export const findNextCheckpoint = (db: Executor, time: Date): Promise<CheckpointAt | undefined> =>
  firstRow(
    db
      .select({ at: fleetCheckpoint.at, baseAt: fleetCheckpoint.baseAt })
      .from(fleetCheckpoint)
      .where(and(gte(fleetCheckpoint.at, time), isReadable))
      .orderBy(fleetCheckpoint.at)
      .limit(1),
  );

/** Reads and writes checkpoints. */
interface Checkpoints {
  /** Returns the hosts of a checkpoint for `takeBack`, in a table that the caller may change; null if it is damaged or deleted. */
  read(checkpoint: CheckpointAt): Promise<HostTable | null>;
  /**
   * Stores the hosts of a time: as the difference from the last whole checkpoint of the past day if they begin with its hosts, otherwise
   * whole.
   */
  add(at: Date, table: HostTable): Promise<void>;
}

/** Whole checkpoints in memory: nearby times have the same base. */
const wholesMax = 3;

/** Creates a reader and writer. Keeps the last used whole checkpoints in memory, and their hosts, most of which they share. */
export const createCheckpoints = ({ db, codec }: CheckpointStore): Checkpoints => {
  const wholes = new LRUCache<number, Promise<CheckpointHosts | null>>({
    max: wholesMax,
    memoMethod: (at) => {
      const whole = loadWhole(new Date(at));
      whole.catch(() => wholes.delete(at));
      return whole;
    },
  });
  /** The hosts of whole checkpoints, and the digests of lines that they begin with. */
  let known = { index: new HostIndex(), digests: new Set<string>() };

  const find = async (at: Date, lines?: typeof fleetCheckpoint.lines) => {
    const { hosts, rawBytes, body, layout } = fleetCheckpoint;
    const [row] = await db
      .select({ hosts, rawBytes, body, layout, lines: lines ?? sql<null>`null` })
      .from(fleetCheckpoint)
      .where(eq(fleetCheckpoint.at, at));
    return row?.layout ? { ...row, layout: row.layout, columns: row.layout.columns } : undefined;
  };
  const readLines = ({ lines, layout }: { lines: Uint8Array | null; layout: CheckpointLayout }) =>
    lines ? codec.decompress(lines, layout.lines.bytes) : new Uint8Array();
  const readIndex = async (
    at: Date,
    { digest }: CheckpointLayout["lines"],
  ): Promise<HostIndex | null> => {
    if (known.digests.has(digest)) return known.index;
    const row = await find(at, fleetCheckpoint.lines);
    const lines = row && readLines(row);
    if (!lines) return null;
    const index = known.index.extend(0, decodeLines(lines));
    codec.free(lines);
    if (index !== known.index) known = { index, digests: new Set() };
    known.digests.add(digest);
    return index;
  };
  const loadWhole = async (at: Date): Promise<CheckpointHosts | null> => {
    const row = await find(at);
    const index = row && (await readIndex(at, row.layout.lines));
    return index ? decodeCheckpoint(row, codec, { index }) : null;
  };
  const readWhole = (at: Date): Promise<CheckpointHosts | null> => wholes.memo(at.getTime());
  const readDifference = async (at: Date, baseAt: Date): Promise<CheckpointHosts | null> => {
    const [row, base] = await Promise.all([find(at, fleetCheckpoint.lines), readWhole(baseAt)]);
    const lines = row && readLines(row);
    if (!lines || base === null) return null;
    return decodeCheckpoint(row, codec, {
      index: base.index.extend(base.count, decodeLines(lines)),
      base,
    });
  };
  return {
    async read({ at, baseAt }) {
      const hosts = await (baseAt === null ? readWhole(at) : readDifference(at, baseAt));
      return hosts && new HostTable(hosts.index, hosts.read, hosts.names, hosts.count);
    },
    async add(at, table) {
      const [before] = await db
        .select({ at: fleetCheckpoint.at })
        .from(fleetCheckpoint)
        .where(and(isNull(fleetCheckpoint.baseAt), lte(fleetCheckpoint.at, at), isReadable))
        .orderBy(desc(fleetCheckpoint.at))
        .limit(1);
      const whole = before && (await readWhole(before.at));
      // A whole checkpoint also begins with the hosts of the one before, so that memory has them once.
      const ordered = whole ? orderLike(table, whole) : undefined;
      const base =
        ordered && before && before.at.getTime() >= at.getTime() - dayMs ? whole : undefined;
      const own = ordered ?? table.copy();
      forgetNewest(own, at.getTime());
      const { hosts, columns, rawBytes, body } = encodeCheckpoint(own, codec, base ?? undefined);
      const text = encodeLines(own, base?.count);
      const lines = text.length > 0 ? codec.compress(text) : null;
      const digest = codec.digest(text).toHex();
      const layout = { format: checkpointFormat, columns, lines: { bytes: text.length, digest } };
      await db
        .insert(fleetCheckpoint)
        .values({
          at,
          baseAt: base ? (before?.at ?? null) : null,
          hosts,
          names: {},
          rawBytes,
          body,
          layout,
          lines,
        })
        .onConflictDoNothing();
    },
  };
};

/**
 * Replaces times that equal the checkpoint's own, as of most hosts, by infinity: differences omit them, and `takeBack` ends them all at its
 * time.
 */
const forgetNewest = (table: HostTable, at: number) => {
  const heartbeats = table.numbers("last_heartbeat_at");
  const envelopes = table.numbers("last_envelope_at");
  for (let place = 0; place < table.count; place++) {
    if (heartbeats[place] === at) heartbeats[place] = Number.POSITIVE_INFINITY;
    if (envelopes[place] === at - (at % 1000)) envelopes[place] = Number.POSITIVE_INFINITY;
  }
};

/** Returns a table with the hosts of another first, in their order; undefined if one of them is missing. */
const orderLike = (table: HostTable, first: CheckpointHosts): HostTable | undefined => {
  const places = new Uint32Array(table.count);
  const isPlaced = new Uint8Array(table.count);
  let count = 0;
  for (let at = 0; at < first.count; at++) {
    const place = table.placeOf(first.index.ids[at] as string);
    if (place === undefined) return undefined;
    places[count++] = place;
    isPlaced[place] = 1;
  }
  const enrolled = table.numbers("enrolled_at");
  const others = Array.from(isPlaced.keys()).filter((place) => isPlaced[place] === 0);
  // In the order of enrollment, so that later checkpoints have the same hosts at the same indexes.
  others.sort((a, b) => (enrolled[a] as number) - (enrolled[b] as number));
  places.set(others, count);
  return table.copy(places);
};
