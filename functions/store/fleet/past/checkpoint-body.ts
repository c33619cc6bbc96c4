/**
 * A table of hosts as bytes: its columns one after the other, each number in as few bytes as those of its column need. A table that begins with
 * the hosts of another is written as the difference from it: of each column the places of the hosts that have another value, and these values.
 */
import type { CheckpointLayout, StoredColumn } from "../../../../drizzle/schema/fleet-history.ts";
import type { BlockCodec } from "../../ingest/block-codec.ts";
import { pickFlags, pickNumbers } from "../columns/column-loops.ts";
import type { HostIndex } from "../columns/host-index.ts";
import { type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import { createValues, HostTable, type HostValues, pickKeys } from "../columns/resident-hosts.ts";

/** The version of these bytes. */
export const checkpointFormat = 2;

/** A table as it is stored. */
interface CheckpointBody {
  hosts: number;
  columns: CheckpointLayout["columns"];
  rawBytes: number;
  body: Uint8Array;
}

/** Returns a table as it is stored: with a base, whose hosts it must begin with, as the difference. */
export const encodeCheckpoint = (
  table: HostTable,
  codec: Pick<BlockCodec, "compress">,
  base?: HostTable,
): CheckpointBody => {
  const before = base && columnsOf(base);
  const parts: Uint8Array[] = [];
  let rawBytes = 0;
  const add = ({ buffer, byteOffset, byteLength }: ArrayBufferView): void => {
    parts.push(new Uint8Array(buffer, byteOffset, byteLength));
    rawBytes += aligned(byteLength);
  };
  const columns: Record<string, StoredColumn> = {};
  for (const [name, own] of columnsOf(table)) {
    const named = isNameColumn(name) ? numberTexts(table, name, base) : undefined;
    const all = named?.numbers ?? own;
    const known = before?.get(name);
    const places = known && changedPlaces(all, known);
    const values = places ? pick(all, places) : all;
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

/** Returns the table of stored bytes, with the first hosts of an index; those of a difference begin with those of its base. Null if they are damaged. */
export const decodeCheckpoint = (
  { hosts, columns, rawBytes, body }: CheckpointBody,
  codec: Pick<BlockCodec, "decompress" | "free">,
  { index, base }: { index: HostIndex; base?: HostTable | undefined },
): HostTable | null => {
  const bytes = codec.decompress(body, rawBytes);
  if (bytes === null) return null;
  // A small one is anywhere in Node's pool.
  const { buffer, byteOffset } = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
  const places = new Map<string, Uint32Array>();
  const partOf = (name: string) => {
    const { at, changed = hosts, code } = columns[name] as StoredColumn;
    const from = byteOffset + at;
    if (base === undefined) return { code, from, count: hosts };
    places.set(name, addUp(new Uint32Array(buffer, from, changed).slice()));
    return { code, from: from + aligned(4 * changed), count: changed };
  };
  const values = createValues(
    (name) => {
      const { code, from, count } = partOf(name);
      if (code === undefined) return new Float64Array(buffer, from, count).slice();
      return decodeNumbers(new codeTypes[code.bytes](buffer, from, count), code);
    },
    (name) => {
      const { from, count } = partOf(name);
      return new BigInt64Array(buffer, from, count).slice();
    },
    (name) => {
      const { from, count } = partOf(name);
      return new Uint8Array(buffer, from, count).slice();
    },
  );
  const names = Object.fromEntries(nameColumns.map((name) => [name, columns[name]?.texts ?? []]));
  const table = base ? base.share({ count: hosts, index, names }) : new HostTable(index, values, names, hosts);
  const changed = allOf(values);
  for (const [name, at] of places) table.setEach(name, at, (nth) => changed.get(name)?.[nth] as number | bigint);
  codec.free(bytes);
  return table;
};

/** Returns the lines of a table's hosts from a place on. */
export const encodeLines = (table: HostTable, from = 0): Uint8Array => {
  const { identities } = table.index;
  const lines = table.ids.slice(from, table.count).map((id, nth) => `${id}${identities[from + nth]}\n`);
  return new TextEncoder().encode(lines.join(""));
};

/** Returns the hosts of lines. */
export const decodeLines = (lines: Uint8Array): (readonly [id: string, identity: string])[] => {
  const each = new TextDecoder().decode(lines).split("\n").slice(0, -1);
  return each.map((line) => [line.slice(0, idLength), line.slice(idLength)]);
};

const idLength = 36;

/** Each part begins where an array of any type may. */
const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;

const allOf = ({ numbers, keys, flags }: ReturnType<HostTable["values"]>) =>
  new Map<string, HostValues>([...numbers, ...keys, ...flags]);
const columnsOf = (table: HostTable) => allOf(table.values());

const isNameColumn = (name: string): name is NameColumn => (nameColumns as readonly string[]).includes(name);

/** The texts of a column and the number of each host's, by those that a base has first. */
const numberTexts = (table: HostTable, name: NameColumn, base: HostTable | undefined) => {
  const own = table.names(name);
  const texts = [...(base?.names(name) ?? [])];
  const numbers = own.map((text) => (texts.includes(text) ? texts.indexOf(text) : texts.push(text) - 1));
  const { values } = table.column(name);
  const renumbered = new Float64Array(table.count);
  for (let place = 0; place < renumbered.length; place++)
    renumbered[place] = numbers[values[place] as number] as number;
  return { texts, numbers: renumbered };
};

const changedPlaces = (values: HostValues, before: HostValues): Uint32Array => {
  const places = new Uint32Array(values.length);
  let count = 0;
  for (let place = 0; place < values.length; place++) if (values[place] !== before[place]) places[count++] = place;
  return places.subarray(0, count);
};

/** Returns the places, given the distance of each from the one before, which compresses well. Changes the array. */
const addUp = (distances: Uint32Array): Uint32Array => {
  for (let nth = 1; nth < distances.length; nth++)
    distances[nth] = (distances[nth] as number) + (distances[nth - 1] as number);
  return distances;
};

const pick = (values: HostValues, places: Uint32Array): HostValues => {
  if (values instanceof Float64Array) return pickNumbers(values, places);
  return values instanceof BigInt64Array ? pickKeys(values, places) : pickFlags(values, places);
};

type Code = NonNullable<StoredColumn["code"]>;

const codeTypes = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

/** Returns how numbers fit fewer bytes; undefined if they do not. Times are often whole seconds. */
const codeOf = (values: Float64Array): Code | undefined => {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values)
    if (Number.isFinite(value)) {
      if (value < least) least = value;
      if (value > most) most = value;
    }
  const first = Number.isFinite(least) ? least : 0;
  const unit = [1000, 1].find((each) => areMultiples(values, first, each));
  const bytes = unit && ([1, 2, 4] as const).find((each) => (most - first) / unit < 2 ** (8 * each) - 2);
  return bytes && { bytes, first, unit };
};

const areMultiples = (values: Float64Array, first: number, unit: number): boolean => {
  for (const value of values) if (Number.isFinite(value) && (value - first) % unit !== 0) return false;
  return true;
};

const encodeNumbers = (values: Float64Array, { bytes, first, unit }: Code) => {
  const infinite = 2 ** (8 * bytes) - 1;
  const codeFor = (value: number): number => {
    if (value === Number.POSITIVE_INFINITY) return infinite;
    return value === Number.NEGATIVE_INFINITY ? infinite - 1 : (value - first) / unit;
  };
  const codes = new codeTypes[bytes](values.length);
  for (let at = 0; at < values.length; at++) codes[at] = codeFor(values[at] as number);
  return codes;
};

const decodeNumbers = (codes: Uint8Array | Uint16Array | Uint32Array, { bytes, first, unit }: Code): Float64Array => {
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
