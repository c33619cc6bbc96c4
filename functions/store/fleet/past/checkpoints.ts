/**
 * The hosts at times of the past, whole enough to start a view of the past with. Invariants: a checkpoint has what every transaction of its time
 * has written, as it is taken `settledMs` later; between two of them there are about `changesPerCheckpoint` changes, or core was stopped;
 * one that is written as a difference begins with the hosts of its base, which is a day older at most.
 */
import { and, desc, eq, gte, isNull, lte, sql } from "drizzle-orm";
import {
  type CheckpointLayout,
  fleetCheckpoint,
} from "../../../../drizzle/schema/fleet-history.ts";
import { dayMs } from "../../../../kit/clock.ts";
import type { Executor } from "../../database/database.ts";
import { arrayLiteral } from "../../database/query-parts.ts";
import type { BlockCodec } from "../../ingest/block-codec.ts";
import { HostIndex } from "../columns/host-index.ts";
import { columnNames, HostTable } from "../columns/resident-hosts.ts";
import {
  type CheckpointHosts,
  checkpointFormat,
  decodeCheckpoint,
  decodeLines,
  encodeCheckpoint,
  encodeLines,
} from "./checkpoint-body.ts";

/** Changes of hosts after which a checkpoint is due. */
export const changesPerCheckpoint = 5000;

/** An event may be committed so long after its time. */
export const settledMs = 120_000;

/** Where checkpoints are kept. */
export interface CheckpointStore {
  db: Executor;
  codec: BlockCodec;
}

/** Whether a checkpoint is in the format and has the columns of this version: an upgrade that changes them begins anew. */
const isReadable = sql`(layout->>'format')::int = ${checkpointFormat} and layout->'columns' ?& ${arrayLiteral(columnNames)}::text[]`;

/** Finds when the newest checkpoint is of; null without one. */
export const findLastCheckpoint = async (db: Executor): Promise<Date | null> => {
  const [row] = await db.execute<{ at: string | null }>(
    sql`select max(at) as at from fleet_checkpoint`,
  );
  return row?.at ? new Date(row.at) : null;
};

/** When a checkpoint is of, and the one that it differs from; null for a whole one. */
type CheckpointAt = Pick<typeof fleetCheckpoint.$inferSelect, "at" | "baseAt">;

/** Finds the first checkpoint that is not before a time; undefined without one. */
export const findNextCheckpoint = async (
  db: Executor,
  time: Date,
): Promise<CheckpointAt | undefined> => {
  const [row] = await db
    .select({ at: fleetCheckpoint.at, baseAt: fleetCheckpoint.baseAt })
    .from(fleetCheckpoint)
    .where(and(gte(fleetCheckpoint.at, time), isReadable))
    .orderBy(fleetCheckpoint.at)
    .limit(1);
  return row;
};

/** Reads and writes checkpoints. */
interface Checkpoints {
  /** Returns the hosts of a checkpoint for `takeBack`, as a table of the caller's own; null if it is damaged or deleted. */
  read(checkpoint: CheckpointAt): Promise<HostTable | null>;
  /** Stores the hosts of a time: as the difference from the last whole checkpoint within a day, if they begin with its hosts. */
  add(at: Date, table: HostTable): Promise<void>;
}

/** Whole checkpoints in memory: times nearby differ from the same. */
const wholesMax = 3;

/** Creates a reader and writer. The whole checkpoints used last stay in memory, and so do the hosts, which most of them share. */
export const createCheckpoints = ({ db, codec }: CheckpointStore): Checkpoints => {
  /** By their times; those used last come last. */
  const wholes = new Map<number, Promise<CheckpointHosts | null>>();
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
  const readWhole = (at: Date): Promise<CheckpointHosts | null> => {
    const key = at.getTime();
    const whole = wholes.get(key) ?? loadWhole(at);
    wholes.delete(key);
    wholes.set(key, whole);
    whole.catch(() => wholes.delete(key));
    for (const oldest of [...wholes.keys()].slice(0, -wholesMax)) wholes.delete(oldest);
    return whole;
  };
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
      // Also a whole one begins with the hosts of that before it, so that core's memory has them once.
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

/** Makes times infinite that are the checkpoint's own, as those of most hosts are: `takeBack` ends all at its time, and differences lack them. */
const forgetNewest = (table: HostTable, at: number): void => {
  const heartbeats = table.numbers("last_heartbeat_at");
  const envelopes = table.numbers("last_envelope_at");
  for (let place = 0; place < table.count; place++) {
    if (heartbeats[place] === at) heartbeats[place] = Number.POSITIVE_INFINITY;
    if (envelopes[place] === at - (at % 1000)) envelopes[place] = Number.POSITIVE_INFINITY;
  }
};

/** Returns a table with the hosts of another first, in their order; undefined if it lacks one of them. */
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
  // As they were enrolled, so that later checkpoints have the same hosts at the same places.
  others.sort((a, b) => (enrolled[a] as number) - (enrolled[b] as number));
  places.set(others, count);
  return table.copy(places);
};
