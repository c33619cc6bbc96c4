/** Encodes hosts as bytes, and decodes them. */
import type { CheckpointLayout, StoredColumn } from "#drizzle/schema/fleet-history.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { type HostValues, pickValues } from "../columns/column-loops.ts";
import type { HostIndex } from "../columns/host-index.ts";
import { type NameColumn, nameColumns } from "../columns/packed-rows.ts";
import {
  columnNames,
  type HostTable,
  lengthen,
  type NameTexts,
  typeOf,
} from "../columns/resident-hosts.ts";

/** The version of the encoding. */
export const checkpointFormat = 2;

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
