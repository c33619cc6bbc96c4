/**
 * The hosts at times of the past, whole enough to start a view of the past with. Invariants: a checkpoint has what every transaction of its time
 * has written, as it is taken `settledMs` later; between two of them there are about `changesPerCheckpoint` changes, or core was stopped;
 * one that is written as a difference begins with the hosts of its base, which is a day older at most.
 */
import { and, desc, eq, gte, isNull, lte, sql } from "drizzle-orm";
import {
  type CheckpointLayout,
  fleetCheckpoint,
  type StoredColumn,
} from "#drizzle/schema/fleet-history.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { arrayLiteral, firstRow } from "#functions/store/database/statements.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { dayMs } from "#kit/clock.ts";
import { HostIndex } from "../columns/host-index.ts";
import { type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import {
  columnNames,
  HostTable,
  type HostValues,
  lengthen,
  type NameTexts,
  pickValues,
  typeOf,
} from "../columns/resident-hosts.ts";

/**
 * A table of hosts as bytes: its columns one after the other, each number in as few bytes as those of its column need. A table that begins
 * with the hosts of another is written as the difference from it: of each column the places of the hosts that have another value, each as the
 * distance from the one before, which compresses well, and these values.
 */

/** The version of these bytes. */
const checkpointFormat = 2;

/** A table as it is stored. */
interface CheckpointBody {
  hosts: number;
  columns: CheckpointLayout["columns"];
  rawBytes: number;
  body: Uint8Array;
}

/** The hosts of a checkpoint, whose columns are read when they are needed. */
export interface CheckpointHosts {
  index: HostIndex;
  count: number;
  names: NameTexts;
  /** Returns the values of a column, as an array of the caller's own. */
  read(name: string): HostValues;
}

/** Returns a table as it is stored: with a base, whose hosts it must begin with, as the difference. */
export const encodeCheckpoint = (
  table: HostTable,
  codec: Pick<BlockCodec, "compress">,
  base?: CheckpointHosts,
): CheckpointBody => {
  const parts: Uint8Array[] = [];
  let rawBytes = 0;
  const add = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => {
    parts.push(new Uint8Array(buffer, byteOffset, byteLength));
    rawBytes += aligned(byteLength);
  };
  const columns: Record<string, StoredColumn> = {};
  for (const name of columnNames) {
    const named = isNameColumn(name) ? numberTexts(table, name, base?.names[name]) : undefined;
    const all = named?.numbers ?? table.values(name);
    const places = base && changedPlaces(all, base.read(name));
    const values = places ? pickValues(all, places) : all;
    const code = values instanceof Float64Array ? codeOf(values) : undefined;
    columns[name] = { at: rawBytes, changed: places?.length, code, texts: named?.texts };
    if (places) add(places.map((place, nth) => place - (places[nth - 1] ?? 0)));
    add(code ? encodeNumbers(values as Float64Array, code) : values);
  }
  const raw = new Uint8Array(rawBytes);
  let at = 0;
  for (const part of parts) {
    raw.set(part, at);
    at += aligned(part.length);
  }
  return { hosts: table.count, columns, rawBytes, body: codec.compress(raw) };
};

/** Returns the hosts of stored bytes, the first ones of an index; those of a difference begin with those of its base. Null if they are damaged. */
export const decodeCheckpoint = (
  { hosts: count, columns, rawBytes, body }: CheckpointBody,
  codec: Pick<BlockCodec, "decompress">,
  { index, base }: { index: HostIndex; base?: CheckpointHosts | undefined },
): CheckpointHosts | null => {
  const raw = codec.decompress(body, rawBytes);
  if (raw === null) return null;
  // A small one is anywhere in Node's pool.
  const { buffer, byteOffset } = raw.byteOffset % 8 === 0 ? raw : raw.slice();
  const valuesAt = (
    name: string,
    at: number,
    length: number,
    code: StoredColumn["code"],
  ): HostValues => {
    const from = byteOffset + at;
    if (code) return decodeNumbers(new codeTypes[code.bytes](buffer, from, length), code);
    return new (typeOf(name))(buffer, from, length).slice();
  };
  const read = (name: string): HostValues => {
    const { at, changed, code } = columns[name] as StoredColumn;
    if (base === undefined || changed === undefined) return valuesAt(name, at, count, code);
    const distances = new Uint32Array(buffer, byteOffset + at, changed);
    const values = lengthen(name, base.read(name), count);
    const others = valuesAt(name, at + aligned(distances.byteLength), changed, code);
    for (let nth = 0, place = 0; nth < changed; nth++) {
      place += distances[nth] as number;
      values[place] = others[nth] as number;
    }
    return values;
  };
  const names = Object.fromEntries(nameColumns.map((name) => [name, columns[name]?.texts ?? []]));
  return { index, count, names, read };
};

/** Returns the lines of a table's hosts from a place on. */
export const encodeLines = (table: HostTable, from = 0): Uint8Array => {
  const { identities } = table.index;
  const lines = table.ids
    .slice(from, table.count)
    .map((id, nth) => `${id}${identities[from + nth]}\n`);
  return new TextEncoder().encode(lines.join(""));
};

/** Returns the hosts of lines. */
export const decodeLines = (lines: Uint8Array): (readonly [id: string, identity: string])[] => {
  const each = new TextDecoder().decode(lines).split("\n").slice(0, -1);
  return each.map((line) => [line.slice(0, idLength), line.slice(idLength)]);
};

const idLength = 36;

/** Each part begins where an array of any type may. */
const aligned = (bytes: number) => Math.ceil(bytes / 8) * 8;

const isNameColumn = (name: string): name is NameColumn =>
  (nameColumns as readonly string[]).includes(name);

/** The texts of a column and the number of each host's, by those that a base has first. */
const numberTexts = (table: HostTable, name: NameColumn, first: readonly string[] = []) => {
  const texts = [...first];
  const numbers = table
    .names(name)
    .map((text) => (texts.includes(text) ? texts.indexOf(text) : texts.push(text) - 1));
  return {
    texts,
    numbers: table
      .numbers(name)
      .slice(0, table.count)
      .map((number) => numbers[number] as number),
  };
};

const changedPlaces = (values: HostValues, before: HostValues): Uint32Array => {
  const places = new Uint32Array(values.length);
  let count = 0;
  for (let place = 0; place < values.length; place++)
    if (values[place] !== before[place]) places[count++] = place;
  return places.subarray(0, count);
};

type Code = NonNullable<StoredColumn["code"]>;

const codeTypes = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

/** Returns how numbers fit fewer bytes; undefined if they do not. Times are often whole seconds. */
const codeOf = (values: Float64Array): Code | undefined => {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const value of values)
    if (Number.isFinite(value)) {
      if (value < least) least = value;
      if (value > most) most = value;
    }
  const first = Number.isFinite(least) ? least : 0;
  const unit = [1000, 1].find((each) => areMultiples(values, first, each));
  if (unit === undefined) return undefined;
  const bytes = ([1, 2, 4] as const).find((each) => (most - first) / unit < 2 ** (8 * each) - 2);
  return bytes && { bytes, first, unit };
};

const areMultiples = (values: Float64Array, first: number, unit: number) => {
  for (const value of values)
    if (Number.isFinite(value) && (value - first) % unit !== 0) return false;
  return true;
};

const encodeNumbers = (values: Float64Array, { bytes, first, unit }: Code) => {
  const infinite = 2 ** (8 * bytes) - 1;
  const codeFor = (value: number) => {
    if (value === Number.POSITIVE_INFINITY) return infinite;
    return value === Number.NEGATIVE_INFINITY ? infinite - 1 : (value - first) / unit;
  };
  const codes = new codeTypes[bytes](values.length);
  for (let at = 0; at < values.length; at++) codes[at] = codeFor(values[at] as number);
  return codes;
};

const decodeNumbers = (
  codes: Uint8Array | Uint16Array | Uint32Array,
  { bytes, first, unit }: Code,
): Float64Array => {
  const infinite = 2 ** (8 * bytes) - 1;
  // Copied first, so that the loop is over one kind of array.
  const values = new Float64Array(codes);
  for (let at = 0; at < values.length; at++) {
    const code = values[at] as number;
    if (code < infinite - 1) values[at] = first + unit * code;
    else values[at] = code === infinite ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  }
  return values;
};

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
const forgetNewest = (table: HostTable, at: number) => {
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
