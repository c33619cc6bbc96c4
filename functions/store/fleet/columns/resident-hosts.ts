/** The hosts that core keeps in memory, a column at a time. */
import { type SQL, sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";
import { type HostValues, pickValues } from "./column-loops.ts";
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
  /** By the monotonic clock: they have every change that was committed before. */
  readonly readAt: number;
  /** Ids in lower case, by place. */
  readonly ids: readonly string[];
  placeOf(id: string): number | undefined;
  /** Their places, identities and order. */
  readonly index: Pick<HostIndex, "identities" | "ranks" | "rankOf">;
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

/** The place of a host that a table lacks: no array has it. */
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
    if (loaded.since === undefined)
      Object.assign(loaded, { since: rows.since, server: rows.server });
    loaded.take(rows);
    after = rows.texts.length < batchRows ? undefined : (rows.texts.at(-1)?.[0] ?? undefined);
  }
  return loaded;
};

/** The texts of columns of names, by their numbers. */
export type NameTexts = Readonly<Partial<Record<NameColumn, readonly string[]>>>;

/** The names of all columns. */
export const columnNames: readonly string[] = Object.values(hostColumns).flat();

/** Returns the type of array that has the values of a column. */
export const typeOf = (name: string) => {
  if (hostColumns.keys.includes(name)) return BigInt64Array;
  return hostColumns.flags.includes(name) ? Uint8Array : Float64Array;
};

/** Returns the values of a column, in an array that has this length or more. */
export const lengthen = (
  name: string,
  values: HostValues | undefined,
  length: number,
): HostValues => {
  if (values && values.length >= length) return values;
  const longer = new (typeOf(name))(length);
  if (values) longer.set(values as never);
  return longer;
};

/**
 * Hosts that are taken from packed rows. Invariants:
 * - A column is created when it is first read. Its changes until then wait in `#changes`, and apply to it in their order.
 * - The array of a column has a place for each of the first `count` hosts of the index, and perhaps for more.
 * - The text of a name never changes its number.
 */
export class HostTable implements ResidentHosts {
  since: string | undefined;
  server: string | undefined;
  readAt = 0;
  decided: Map<string, Uint8Array> | undefined;
  count: number;
  readonly index: HostIndex;
  readonly #create: ((name: string) => HostValues) | undefined;
  /** Those that have been read. */
  readonly #columns = new Map<string, HostValues>();
  /** Changes of the others, by column. */
  readonly #changes = new Map<string, ((values: HostValues) => void)[]>();
  readonly #names: Map<NameColumn, { texts: string[]; places: Map<string, number> }>;

  /** Without `create` it is empty; with it, it has the first hosts of the index, all by default, and creates a column when that is first read. */
  constructor(
    index = new HostIndex(),
    create?: (name: string) => HostValues,
    names: NameTexts = {},
    count = index.ids.length,
  ) {
    this.index = index;
    this.count = count;
    this.#create = create;
    this.#names = new Map(
      nameColumns.map((name) => {
        const texts = [...(names[name] ?? [])];
        return [name, { texts, places: new Map(texts.map((text, place) => [text, place])) }];
      }),
    );
    if (create === undefined) for (const name of columnNames) this.#read(name);
  }

  #read(name: string): HostValues {
    const known = this.#columns.get(name);
    if (known) return known;
    if (!columnNames.includes(name)) throw new Error(`no column ${name} in core's memory`);
    const values = lengthen(name, this.#create?.(name), Math.max(this.count, firstRows));
    for (const change of this.#changes.get(name) ?? []) change(values);
    this.#changes.delete(name);
    this.#columns.set(name, values);
    return values;
  }

  get ids(): readonly string[] {
    return this.index.ids;
  }

  placeOf(id: string): number | undefined {
    const place = this.index.placeOf(id);
    return place === undefined || place < this.count ? place : undefined;
  }

  names(column: NameColumn): readonly string[] {
    // Its changes may have others.
    this.#read(column);
    return this.#names.get(column)?.texts ?? [];
  }

  usedNames(column: NameColumn): string[] {
    const texts = this.names(column);
    const isUsed = new Uint8Array(texts.length);
    const numbers = this.numbers(column);
    for (let place = 0; place < this.count; place++) isUsed[numbers[place] as number] = 1;
    return texts.filter((_, number) => isUsed[number] === 1);
  }

  /** The texts of all columns of names. */
  allNames(): Record<NameColumn, readonly string[]> {
    const entries = nameColumns.map((name) => [name, this.names(name)] as const);
    return Object.fromEntries(entries) as Record<NameColumn, readonly string[]>;
  }

  column(name: string): HostColumn {
    if (name === "identity") return { kind: "texts", values: this.index.identities };
    if (name === "identity_id") return { kind: "texts", values: this.ids };
    const values = this.#read(name);
    if (values instanceof BigInt64Array) return { kind: "keys", values };
    if (values instanceof Uint8Array) return { kind: "flags", values };
    return { kind: "numbers", values, texts: this.#names.get(name as NameColumn)?.places };
  }

  /** Returns the numbers of a column, which the caller may change. */
  numbers(name: string): Float64Array {
    const values = this.#read(name);
    if (values instanceof Float64Array) return values;
    throw new Error(`no numbers ${name} in core's memory`);
  }

  /** Returns the values of a column; the array is that of the table. */
  values(name: string): HostValues {
    return this.#read(name).subarray(0, this.count);
  }

  /** Sets the values of a column for the hosts at some places. */
  setEach(name: string, places: Uint32Array, valueFor: (nth: number) => number | bigint): void {
    const change = (values: HostValues) => {
      for (let nth = 0; nth < places.length; nth++)
        values[places[nth] as number] = valueFor(nth) as number;
    };
    const values = this.#columns.get(name);
    if (values) change(values);
    else this.#changes.set(name, [...(this.#changes.get(name) ?? []), change]);
  }

  copy(places?: Uint32Array): HostTable {
    const columns = new Map(
      columnNames.map((name) => [
        name,
        places ? pickValues(this.#read(name), places) : this.values(name).slice(),
      ]),
    );
    const create = (name: string) => columns.get(name) as HostValues;
    // The index of all may grow later: these hosts keep their places, and others have none below `count`.
    return places
      ? new HostTable(this.index.pick(places), create, this.allNames())
      : new HostTable(this.index, create, this.allNames(), this.count);
  }

  /** Takes the columns of rows. Those of hosts that the table lacks are added, or without an identity left out. */
  take({ packed: bytes, texts: allTexts }: PackedRows, layout: PackedLayout = hostColumns): void {
    if (bytes === null) return;
    const rowBytes =
      idBytes +
      8 * (layout.times.length + layout.amounts.length + layout.keys.length) +
      layout.flags.length;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const places = Uint32Array.from(allTexts, ([identity], row) => {
      const id = idAt(bytes, row * rowBytes);
      return (identity === null ? this.placeOf(id) : this.#placeFor(id, identity)) ?? nowhere;
    });
    let at = idBytes;
    const setAll = (
      names: readonly string[],
      width: number,
      valueAt: (at: number) => number | bigint,
    ) => {
      for (const name of names) {
        const from = at;
        this.setEach(name, places, (row) => valueAt(row * rowBytes + from));
        at += width;
      }
    };
    setAll(layout.times, 8, (from) => packedTimeAt(view, from));
    setAll(layout.amounts, 8, (from) => view.getInt32(from) * 2 ** 32 + view.getUint32(from + 4));
    setAll(layout.keys, 8, (from) => view.getBigInt64(from));
    setAll(layout.flags, 1, (from) => view.getUint8(from));
    for (const [nth, name] of layout.names.entries())
      this.setEach(name, places, (row) =>
        this.#nameNumber(name, allTexts[row]?.[nth + 1] as string),
      );
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
    for (const [name, values] of this.#columns)
      this.#columns.set(name, lengthen(name, values, length));
  }

  #nameNumber(column: NameColumn, text: string): number {
    const { texts: known, places } = this.#names.get(column) as {
      texts: string[];
      places: Map<string, number>;
    };
    const place = places.get(text) ?? known.push(text) - 1;
    places.set(text, place);
    return place;
  }
}
