/**
 * Stores the fleet at past times, from which a view of the past starts. Invariants:
 * - A checkpoint has everything that transactions of its time have written, because it is taken `settledMs` later.
 * - Between two checkpoints are about `changesPerCheckpoint` changes, unless core was stopped.
 * - A checkpoint stored as a difference begins with the hosts of its base, which is at most a day older.
 */
import { and, desc, eq, gte, isNull, lte, sql } from "drizzle-orm";
import { LRUCache } from "lru-cache";
import {
  type CheckpointLayout,
  fleetCheckpoint,
  type StoredColumn,
} from "#drizzle/schema/fleet-history.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { arrayLiteral, firstRow } from "#functions/store/database/statements.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { dayMs } from "#kit/clock.ts";
import { type HostValues, pickValues } from "../columns/column-loops.ts";
import { HostIndex } from "../columns/host-index.ts";
import { type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import {
  columnNames,
  HostTable,
  lengthen,
  type NameTexts,
  typeOf,
} from "../columns/resident-hosts.ts";

/** The version of the encoding. */
const checkpointFormat = 2;

/** A table as it is stored. */
interface CheckpointBody {
  hosts: number;
  columns: CheckpointLayout["columns"];
  rawBytes: number;
  body: Uint8Array;
}

/** The hosts of a checkpoint. Columns are decoded when they are read. */
export interface CheckpointHosts {
  index: HostIndex;
  count: number;
  names: NameTexts;
  /** Returns the values of a column, in an array that the caller may change. */
  read(name: string): HostValues;
}

/**
 * Encodes a table of hosts column by column, each number in as few bytes as its column needs. With a base, whose hosts the table must begin
 * with, encodes for each column only the hosts whose value differs: their indexes, each as the distance from the one before, which compresses
 * well, and their values.
 */
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
    const changed = base && changedIndexes(all, base.read(name));
    const values = changed ? pickValues(all, changed) : all;
    const code = values instanceof Float64Array ? codeOf(values) : undefined;
    columns[name] = { at: rawBytes, changed: changed?.length, code, texts: named?.texts };
    if (changed) add(changed.map((index, nth) => index - (changed[nth - 1] ?? 0)));
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

/** Decodes the hosts of a checkpoint, which begin with those of `base` if it is a difference. Returns null if the bytes are damaged. */
export const decodeCheckpoint = (
  { hosts: count, columns, rawBytes, body }: CheckpointBody,
  codec: Pick<BlockCodec, "decompress">,
  { index, base }: { index: HostIndex; base?: CheckpointHosts | undefined },
): CheckpointHosts | null => {
  const raw = codec.decompress(body, rawBytes);
  if (raw === null) return null;
  // A small buffer may begin anywhere in Node's pool.
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
    const changedValues = valuesAt(name, at + aligned(distances.byteLength), changed, code);
    for (let nth = 0, host = 0; nth < changed; nth++) {
      host += distances[nth] as number;
      values[host] = changedValues[nth] as number;
    }
    return values;
  };
  const names = Object.fromEntries(nameColumns.map((name) => [name, columns[name]?.texts ?? []]));
  return { index, count, names, read };
};

/** Encodes the lines of a table's hosts from an index on. */
export const encodeLines = (table: HostTable, from = 0): Uint8Array => {
  const { identities } = table.index;
  const lines = table.ids
    .slice(from, table.count)
    .map((id, nth) => `${id}${identities[from + nth]}\n`);
  return new TextEncoder().encode(lines.join(""));
};

/** Decodes lines to hosts. */
export const decodeLines = (lines: Uint8Array): (readonly [id: string, identity: string])[] => {
  const each = new TextDecoder().decode(lines).split("\n").slice(0, -1);
  return each.map((line) => [line.slice(0, idLength), line.slice(idLength)]);
};

const idLength = 36;

/** Each part begins where an array of any type may begin. */
const aligned = (bytes: number) => Math.ceil(bytes / 8) * 8;

const isNameColumn = (name: string): name is NameColumn =>
  (nameColumns as readonly string[]).includes(name);

/** Numbers the texts of a column; those of the base keep their numbers. */
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

const changedIndexes = (values: HostValues, before: HostValues): Uint32Array => {
  const indexes = new Uint32Array(values.length);
  let count = 0;
  for (let index = 0; index < values.length; index++)
    if (values[index] !== before[index]) indexes[count++] = index;
  return indexes.subarray(0, count);
};

type Code = NonNullable<StoredColumn["code"]>;

const codeTypes = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

/** Returns the encoding with which numbers take fewer bytes; undefined if none does. Times are often whole seconds. */
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
  // Copied first, so that the loop runs over one type of array.
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

/** An event may commit this long after its time. */
export const settledMs = 120_000;

/** Where checkpoints are kept. */
export interface CheckpointStore {
  db: Executor;
  codec: BlockCodec;
}

/** Whether a checkpoint has the format and the columns of this version. After an upgrade that changes them, checkpoints start anew. */
const isReadable = sql`(layout->>'format')::int = ${checkpointFormat} and layout->'columns' ?& ${arrayLiteral(columnNames)}::text[]`;

/** Returns the time of the newest checkpoint; null without one. */
export const findLastCheckpoint = async (db: Executor): Promise<Date | null> => {
  const [row] = await db.execute<{ at: string | null }>(
    sql`select max(at) as at from fleet_checkpoint`,
  );
  return row?.at ? new Date(row.at) : null;
};

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
