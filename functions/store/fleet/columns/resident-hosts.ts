/** The hosts that core keeps in memory, a column at a time. */
import { type SQL, sql } from "drizzle-orm";
import type { Database } from "../../database/database.ts";
import { pickFlags, pickNumbers } from "./column-loops.ts";
import type { ColumnView, HostColumn } from "./evaluate-expression.ts";
import { HostIndex } from "./host-index.ts";
import {
  hostColumns,
  idAt,
  idBytes,
  type NameColumn,
  nameColumns,
  type PackedLayout,
  type PackedRows,
  packedTimeAt,
  readPacked,
} from "./packed-rows.ts";

/** The hosts in core's memory. Valid until the next wait for anything: a refresh changes it in place. */
export interface ResidentHosts extends ColumnView {
  /** Ids in lower case, by place. */
  readonly ids: readonly string[];
  placeOf(id: string): number | undefined;
  /** The places in the order of identities. */
  identityOrder(): Uint32Array;
  /** The number of hosts whose identity comes before a text, or is it. */
  identitiesThrough(text: string): number;
  /** The texts of a column of names, by their number in it. */
  names(column: NameColumn): readonly string[];
  /** Returns those of them that a host has. */
  usedNames(column: NameColumn): string[];
  /** Returns a table with the hosts at some places, in their order, or with all, as they are now. */
  copy(places?: Uint32Array): HostTable;
}

/** Rows of a statement that loads. */
const batchRows = 5000;
/** Room for hosts before the first is known. */
const firstRows = 1000;

/** The place of a host that a table lacks. */
const nowhere = 2 ** 32 - 1;

/** Loads all hosts of a relation. */
export const loadHosts = async (db: Pick<Database, "execute">, hosts?: SQL): Promise<HostTable> => {
  const loaded = new HostTable();
  for (let after: string | undefined = ""; after !== undefined; ) {
    const rows: PackedRows = await readPacked(
      db,
      sql`where identity > ${after} order by identity limit ${batchRows}`,
      hosts,
    );
    // What changes from here on is read again.
    if (loaded.since === undefined) Object.assign(loaded, { since: rows.since, server: rows.server });
    loaded.take(rows);
    after = rows.texts.length < batchRows ? undefined : (rows.texts.at(-1)?.[0] ?? undefined);
  }
  return loaded;
};

/** The values of a table's hosts, a column at a time. */
interface ColumnValues {
  /** Of times, of amounts, and of names the number of the text. */
  numbers: Map<string, Float64Array>;
  keys: Map<string, BigInt64Array>;
  flags: Map<string, Uint8Array>;
}

type NameTexts = Readonly<Partial<Record<NameColumn, readonly string[]>>>;

/** The values of a column. */
export type HostValues = Float64Array | BigInt64Array | Uint8Array;

/** Hosts that are taken from packed rows. */
export class HostTable implements ResidentHosts {
  since: string | undefined;
  server: string | undefined;
  readAt = 0;
  decided: Map<string, Uint8Array> | undefined;
  count: number;
  readonly index: HostIndex;
  #values: ColumnValues;
  /** Columns whose arrays another table has too, until one of them is changed. */
  readonly #shared = new Set<string>();
  readonly #names: Map<NameColumn, { texts: string[]; places: Map<string, number> }>;

  /** Without values it is empty; with them it has the first hosts of the index, all by default. */
  constructor(index = new HostIndex(), values = emptyValues(), names: NameTexts = {}, count = index.ids.length) {
    this.index = index;
    this.count = count;
    this.#values = values;
    this.#names = new Map(
      nameColumns.map((name) => {
        const texts = [...(names[name] ?? [])];
        return [name, { texts, places: new Map(texts.map((text, place) => [text, place])) }];
      }),
    );
  }

  get ids(): readonly string[] {
    return this.index.ids;
  }

  placeOf(id: string): number | undefined {
    const place = this.index.placeOf(id);
    return place === undefined || place < this.count ? place : undefined;
  }

  identityOrder(): Uint32Array {
    return this.index.order();
  }

  identitiesThrough(text: string): number {
    return this.index.through(text);
  }

  names(column: NameColumn): readonly string[] {
    return this.#names.get(column)?.texts ?? [];
  }

  usedNames(column: NameColumn): string[] {
    const texts = this.names(column);
    const isUsed = new Uint8Array(texts.length);
    const numbers = this.#values.numbers.get(column) as Float64Array;
    for (let place = 0; place < this.count; place++) isUsed[numbers[place] as number] = 1;
    return texts.filter((_, number) => isUsed[number] === 1);
  }

  /** The texts of all columns of names. */
  allNames(): Record<NameColumn, readonly string[]> {
    const entries = nameColumns.map((name) => [name, this.names(name)] as const);
    return Object.fromEntries(entries) as Record<NameColumn, readonly string[]>;
  }

  column(name: string): HostColumn {
    const values = this.#values.numbers.get(name);
    const names = this.#names.get(name as NameColumn);
    if (values && names) return { kind: "names", values, places: names.places };
    if (values) return { kind: "numbers", values };
    const flagValues = this.#values.flags.get(name);
    if (flagValues) return { kind: "flags", values: flagValues };
    const keyValues = this.#values.keys.get(name);
    if (keyValues) return { kind: "keys", values: keyValues };
    if (name === "identity") return { kind: "texts", values: this.index.identities };
    if (name === "identity_id") return { kind: "texts", values: this.ids };
    throw new Error(`no column ${name} in core's memory`);
  }

  /** Returns the numbers of a column, which the caller may change. */
  numbers(name: string): Float64Array {
    return this.#own(this.#values.numbers, name);
  }

  #own<Values extends HostValues>(columns: Map<string, Values>, name: string): Values {
    const values = columns.get(name);
    if (values === undefined) throw new Error(`no column ${name} in core's memory`);
    if (!this.#shared.delete(name)) return values;
    const own = values.slice() as Values;
    columns.set(name, own);
    return own;
  }

  /** Sets the values of a column for the hosts at some places, of those that the table has. */
  setEach(name: string, places: Uint32Array, valueFor: (nth: number) => number | bigint): void {
    const { numbers, keys, flags } = this.#values;
    const columns = (numbers.has(name) ? numbers : flags.has(name) ? flags : keys) as Map<string, Float64Array>;
    let values = columns.get(name) as Float64Array;
    for (let nth = 0; nth < places.length; nth++) {
      const place = places[nth] as number;
      if (place >= this.count) continue;
      const value = valueFor(nth) as number;
      if (values[place] === value) continue;
      values = this.#own(columns, name);
      values[place] = value;
    }
  }

  /** Returns the values of all hosts; the arrays are those of the table. */
  values(): ColumnValues {
    const cut = <Values extends Float64Array | BigInt64Array | Uint8Array>(columns: Map<string, Values>) =>
      mapValues(columns, (each) => each.subarray(0, this.count) as Values);
    const { numbers, keys, flags } = this.#values;
    return { numbers: cut(numbers), keys: cut(keys), flags: cut(flags) };
  }

  /**
   * Returns a table with the first `count` hosts of an index that begins with those of this one, as far as it has them. It copies the values of
   * a column with the first change: those of this table must not change any more.
   */
  share({
    count = this.count,
    index = this.index,
    names = this.allNames(),
  }: {
    count?: number;
    index?: HostIndex;
    names?: NameTexts;
  } = {}): HostTable {
    const { numbers, keys, flags } = this.#values;
    const values = { numbers: new Map(numbers), keys: new Map(keys), flags: new Map(flags) };
    const table = new HostTable(index, values, names, count);
    if (count > this.count) table.#grow(count);
    else for (const name of [...numbers.keys(), ...keys.keys(), ...flags.keys()]) table.#shared.add(name);
    return table;
  }

  copy(places?: Uint32Array): HostTable {
    const { numbers, keys, flags } = places ? this.#values : this.values();
    const values: ColumnValues = {
      numbers: mapValues(numbers, (each) => (places ? pickNumbers(each, places) : each.slice())),
      keys: mapValues(keys, (each) => (places ? pickKeys(each, places) : each.slice())),
      flags: mapValues(flags, (each) => (places ? pickFlags(each, places) : each.slice())),
    };
    // The index of all may grow later: these hosts keep their places, and others have none below `count`.
    return places
      ? new HostTable(this.index.pick(places), values, this.allNames())
      : new HostTable(this.index, values, this.allNames(), this.count);
  }

  /** Takes the columns of rows. Those of hosts that the table lacks are added, or without an identity left out. */
  take({ packed: bytes, texts: allTexts }: PackedRows, layout: PackedLayout = hostColumns): void {
    if (bytes === null) return;
    const rowBytes =
      idBytes + 8 * (layout.times.length + layout.amounts.length + layout.keys.length) + layout.flags.length;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const places = Uint32Array.from(allTexts, ([identity], row) => {
      const id = idAt(bytes, row * rowBytes);
      return (identity === null ? this.placeOf(id) : this.#placeFor(id, identity)) ?? nowhere;
    });
    let at = idBytes;
    const setAll = (names: readonly string[], width: number, valueAt: (at: number) => number | bigint) => {
      for (const name of names) {
        this.setEach(name, places, (row) => valueAt(row * rowBytes + at));
        at += width;
      }
    };
    setAll(layout.times, 8, (from) => packedTimeAt(view, from));
    setAll(layout.amounts, 8, (from) => view.getInt32(from) * 2 ** 32 + view.getUint32(from + 4));
    setAll(layout.keys, 8, (from) => view.getBigInt64(from));
    setAll(layout.flags, 1, (from) => view.getUint8(from));
    for (const [nth, name] of layout.names.entries())
      this.setEach(name, places, (row) => this.#nameNumber(name, allTexts[row]?.[nth + 1] as string));
  }

  #placeFor(id: string, identity: string): number {
    const known = this.placeOf(id);
    if (known !== undefined) return known;
    const place = this.index.add(id, identity);
    this.count = place + 1;
    if (place >= this.numbers("version").length) this.#grow(place * 1.5);
    return place;
  }

  #grow(length: number): void {
    const { numbers, keys, flags } = this.#values;
    const longer = <Values extends Float64Array | BigInt64Array | Uint8Array>(created: Values, values: Values) => {
      created.set(values.subarray(0, length) as never);
      return created;
    };
    this.#values = {
      numbers: mapValues(numbers, (each) => longer(new Float64Array(length), each)),
      keys: mapValues(keys, (each) => longer(new BigInt64Array(length), each)),
      flags: mapValues(flags, (each) => longer(new Uint8Array(length), each)),
    };
  }

  #nameNumber(column: NameColumn, text: string): number {
    const { texts: known, places } = this.#names.get(column) as { texts: string[]; places: Map<string, number> };
    const place = places.get(text) ?? known.push(text) - 1;
    places.set(text, place);
    return place;
  }
}

/** Creates the values of every column, each by its length. */
export const createValues = (
  numbersFor: (name: string) => Float64Array,
  keysFor: (name: string) => BigInt64Array,
  flagsFor: (name: string) => Uint8Array,
): ColumnValues => {
  const { times, amounts, names, keys, flags } = hostColumns;
  return {
    numbers: new Map([...times, ...amounts, ...names].map((name) => [name, numbersFor(name)])),
    keys: new Map(keys.map((name) => [name, keysFor(name)])),
    flags: new Map(flags.map((name) => [name, flagsFor(name)])),
  };
};

const emptyValues = (): ColumnValues =>
  createValues(
    () => new Float64Array(firstRows),
    () => new BigInt64Array(firstRows),
    () => new Uint8Array(firstRows),
  );

const mapValues = <From, To>(columns: ReadonlyMap<string, From>, map: (values: From) => To): Map<string, To> =>
  new Map([...columns].map(([name, values]) => [name, map(values)]));

/** Returns the keys of the hosts at some places. */
export const pickKeys = (values: BigInt64Array, places: Uint32Array): BigInt64Array => {
  const picked = new BigInt64Array(places.length);
  for (let at = 0; at < places.length; at++) picked[at] = values[places[at] as number] as bigint;
  return picked;
};
