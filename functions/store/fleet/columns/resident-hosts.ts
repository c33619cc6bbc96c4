/** The hosts that core keeps in memory, a column at a time, and the statement that reads them. */
import { type SQL, sql } from "drizzle-orm";
import type { Database } from "../../database/database.ts";
import type { ColumnView, HostColumn } from "./evaluate-expression.ts";

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
}

const times = [
  "last_heartbeat_at",
  "last_envelope_at",
  "revoked_from",
  "expired_from",
  "expiring_from",
  "enrolled_at",
  "certificate_not_after",
  "config_assigned_at",
  "running_config_since",
  "condition_since",
  "version_since",
  "recovered_at",
  "last_auth_failure_at",
] as const;
const amounts = ["queue_bytes", "queue_bytes_max", "lost_records", "label_set_id"] as const;
const keys = ["desired_config_key", "running_config_key", "last_known_good_config_key"] as const;
const flags = ["renewal_failed", "config_invalid", "queue_at_risk", "forwarder_connected"] as const;
const nameColumns = ["version", "platform", "drift", "core", "subnet", "policy_id"] as const;

/** A column with few different texts. */
export type NameColumn = (typeof nameColumns)[number];

/** Rows of `fleet_status`, when they were read. */
export interface PackedRows {
  since: string;
  server: string;
  packed: Uint8Array | null;
  texts: readonly (readonly [identity: string, ...names: string[]])[];
}

const packed: SQL = sql.raw(
  [
    "uuid_send(identity_id)",
    ...times.map((name) => `timestamptz_send(${name})`),
    ...amounts.map((name) => `int8send(${name})`),
    ...keys.map((name) => `int8send(${name})`),
    ...flags.map((name) => `boolsend(${name})`),
  ].join(" || "),
);
const texts: SQL = sql.raw(["identity", ...nameColumns].join(", "));
const idBytes = 16;
/** Room for them before the first is known. */
const firstRows = 1000;
const rowBytes = idBytes + 8 * (times.length + amounts.length + keys.length) + flags.length;

/** Reads rows of hosts as bytes of fixed width, which take a twentieth of the time of rows of text. */
export const readPacked = async (
  db: Pick<Database, "execute">,
  which: SQL,
  hosts: SQL = sql`fleet_status`,
): Promise<PackedRows> => {
  const [row] = await db.execute<
    Omit<PackedRows, "texts"> & { texts: PackedRows["texts"] | null } & Record<string, unknown>
  >(sql`
    select pg_snapshot_xmin(pg_current_snapshot())::text as since, pg_postmaster_start_time()::text as server,
      string_agg(packed, ''::bytea) as packed, json_agg(texts) as texts
    from (select ${packed} as packed, json_build_array(${texts}) as texts from ${hosts} ${which}) changed`);
  if (row === undefined) throw new Error("an aggregate returned no row");
  return { ...row, texts: row.texts ?? [] };
};

/** Rows of a statement that loads. */
const batchRows = 5000;

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
    after = rows.texts.length < batchRows ? undefined : rows.texts.at(-1)?.[0];
  }
  return loaded;
};

/** Hosts that are taken from packed rows. */
export class HostTable implements ResidentHosts {
  since: string | undefined;
  server: string | undefined;
  readAt = 0;
  count = 0;
  readonly ids: string[] = [];
  readonly #places = new Map<string, number>();
  readonly #identities: string[] = [];
  readonly #names = new Map(
    nameColumns.map((name) => [name, { texts: [] as string[], places: new Map<string, number>() }]),
  );
  #numbers = new Map(
    [...times, ...amounts, ...nameColumns].map((name) => [name as string, new Float64Array(firstRows)]),
  );
  #keys = new Map(keys.map((name) => [name as string, new BigInt64Array(firstRows)]));
  #flags = new Map(flags.map((name) => [name as string, new Uint8Array(firstRows)]));
  #order = new Uint32Array();

  placeOf(id: string): number | undefined {
    return this.#places.get(id);
  }

  names(column: NameColumn): readonly string[] {
    return this.#names.get(column)?.texts ?? [];
  }

  column(name: string): HostColumn {
    const values = this.#numbers.get(name);
    const names = this.#names.get(name as NameColumn);
    if (values && names) return { kind: "names", values, places: names.places };
    if (values) return { kind: "numbers", values };
    const flagValues = this.#flags.get(name);
    if (flagValues) return { kind: "flags", values: flagValues };
    const keyValues = this.#keys.get(name);
    if (keyValues) return { kind: "keys", values: keyValues };
    if (name === "identity") return { kind: "texts", values: this.#identities };
    if (name === "identity_id") return { kind: "texts", values: this.ids };
    throw new Error(`no column ${name} in core's memory`);
  }

  identityOrder(): Uint32Array {
    if (this.#order.length < this.count) {
      const sorted = [
        ...this.#order,
        ...Array.from({ length: this.count - this.#order.length }, (_, at) => this.#order.length + at),
      ];
      const identities = this.#identities;
      // The new ones come last, so that the sort merges two runs.
      sorted.sort((a, b) => compareBytes(identities[a] as string, identities[b] as string));
      this.#order = Uint32Array.from(sorted);
    }
    return this.#order;
  }

  identitiesThrough(text: string): number {
    const order = this.identityOrder();
    let [from, until] = [0, order.length];
    while (from < until) {
      const middle = (from + until) >> 1;
      if (compareBytes(this.#identities[order[middle] as number] as string, text) <= 0) from = middle + 1;
      else until = middle;
    }
    return from;
  }

  take({ packed: bytes, texts: allTexts }: PackedRows): void {
    if (bytes === null) return;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    allTexts.forEach(([identity, ...names], index) => {
      let at = index * rowBytes;
      const place = this.#placeFor(idAt(bytes, at), identity);
      at += idBytes;
      const numbersOf = (name: string) => this.#numbers.get(name) as Float64Array;
      for (const name of times) {
        numbersOf(name)[place] = timeAt(view, at);
        at += 8;
      }
      for (const name of amounts) {
        numbersOf(name)[place] = view.getInt32(at) * 2 ** 32 + view.getUint32(at + 4);
        at += 8;
      }
      for (const name of keys) {
        (this.#keys.get(name) as BigInt64Array)[place] = view.getBigInt64(at);
        at += 8;
      }
      for (const name of flags) (this.#flags.get(name) as Uint8Array)[place] = view.getUint8(at++);
      nameColumns.forEach((name, nth) => {
        numbersOf(name)[place] = this.#nameNumber(name, names[nth] as string);
      });
    });
  }

  #placeFor(id: string, identity: string): number {
    const known = this.#places.get(id);
    if (known !== undefined) return known;
    const place = this.count++;
    this.#places.set(id, place);
    this.ids.push(id);
    this.#identities.push(identity);
    if (place >= (this.#flags.get(flags[0])?.length ?? 0)) this.#grow(place * 1.5);
    return place;
  }

  #grow(length: number): void {
    const grown = <Values extends Float64Array | BigInt64Array | Uint8Array>(
      columns: Map<string, Values>,
      create: (length: number) => Values,
    ) =>
      new Map(
        [...columns].map(([name, values]) => {
          const longer = create(length);
          longer.set(values as never);
          return [name, longer] as const;
        }),
      );
    this.#numbers = grown(this.#numbers, (size) => new Float64Array(size));
    this.#keys = grown(this.#keys, (size) => new BigInt64Array(size));
    this.#flags = grown(this.#flags, (size) => new Uint8Array(size));
  }

  #nameNumber(column: NameColumn, text: string): number {
    const { texts: known, places } = this.#names.get(column) as { texts: string[]; places: Map<string, number> };
    const place = places.get(text) ?? known.push(text) - 1;
    places.set(text, place);
    return place;
  }
}

/** The order of texts in the database: by bytes. */
const compareBytes = (a: string, b: string): number => {
  if (a === b) return 0;
  for (let at = 0; at < a.length && at < b.length; at++) {
    const [one, other] = [a.charCodeAt(at), b.charCodeAt(at)];
    // A surrogate is of a character with more bytes than any other unit.
    if (one !== other)
      return (one >= 0xd800 && one < 0xe000) === (other >= 0xd800 && other < 0xe000)
        ? one - other
        : one >= 0xd800 && one < 0xe000
          ? 1
          : -1;
  }
  return a.length - b.length;
};

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

const idAt = (bytes: Uint8Array, at: number): string => {
  let id = "";
  for (let index = 0; index < idBytes; index++) {
    id += hex[bytes[at + index] as number];
    if (index === 3 || index === 5 || index === 7 || index === 9) id += "-";
  }
  return id;
};

/** 2000-01-01, from which PostgreSQL counts microseconds. */
const epochMs = Date.UTC(2000, 0, 1);

const timeAt = (view: DataView, at: number): number => {
  const [high, low] = [view.getInt32(at), view.getUint32(at + 4)];
  if (high === 0x7fffffff && low === 0xffffffff) return Number.POSITIVE_INFINITY;
  if (high === -0x80000000 && low === 0) return Number.NEGATIVE_INFINITY;
  return (high * 2 ** 32 + low) / 1000 + epochMs;
};
