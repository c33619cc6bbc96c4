/**
 * A table of hosts as bytes: its columns one after the other, each number in as few bytes as those of its column need. A table that begins
 * with the hosts of another is written as the difference from it: of each column the places of the hosts that have another value, each as the
 * distance from the one before, which compresses well, and these values.
 */
import type { CheckpointLayout, StoredColumn } from "../../../../drizzle/schema/fleet-history.ts";
import type { BlockCodec } from "../../ingest/block-codec.ts";
import type { HostIndex } from "../columns/host-index.ts";
import { type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import {
  columnNames,
  type HostTable,
  type HostValues,
  lengthen,
  type NameTexts,
  pickValues,
  typeOf,
} from "../columns/resident-hosts.ts";

/** The version of these bytes. */
export const checkpointFormat = 2;

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
  const add = ({ buffer, byteOffset, byteLength }: ArrayBufferView): void => {
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
const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;

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

const areMultiples = (values: Float64Array, first: number, unit: number): boolean => {
  for (const value of values)
    if (Number.isFinite(value) && (value - first) % unit !== 0) return false;
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
