/** Columns of hosts as bytes of fixed width, and the statement that reads them. */
import { type SQL, sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";
import { factColumns } from "#proto/fleet-health/vocabulary.ts";
import { figureFilters, sortedFigures } from "#proto/management/reported-numbers.ts";

/** Columns of packed rows, in the order of their bytes; names are texts beside them. */
export interface PackedLayout {
  times: readonly string[];
  amounts: readonly string[];
  keys: readonly string[];
  flags: readonly string[];
  names: readonly NameColumn[];
}

/** The columns with few different texts. */
export const nameColumns = [
  "version",
  "platform",
  "drift",
  "core",
  "subnet",
  "policy_id",
  "agent",
] as const;

/** One of them. */
export type NameColumn = (typeof nameColumns)[number];

/** The figures that filters and orders read. */
const comparedFigures = new Set<string>([
  ...sortedFigures,
  ...figureFilters.map(({ figure }) => figure),
]);

/** All columns of a table. */
export const hostColumns: PackedLayout = {
  ...factColumns,
  names: nameColumns,
  times: [
    ...factColumns.times,
    "last_heartbeat_at",
    "last_envelope_at",
    "enrolled_at",
    "last_auth_failure_at",
  ],
  amounts: [
    ...factColumns.amounts,
    ...comparedFigures,
    "queue_bytes_max",
    "queue_oldest_seconds",
    "lost_records",
  ],
};

/** Rows of hosts, when they were read; without an identity those of hosts that a table may lack. */
export interface PackedRows {
  since: string;
  server: string;
  packed: Uint8Array | null;
  texts: readonly (readonly [identity: string | null, ...names: string[]])[];
}

const packedIn = ({ times, amounts, keys, flags }: PackedLayout): SQL =>
  sql.raw(
    [
      "uuid_send(identity_id)",
      ...times.map((name) => `timestamptz_send(${name})`),
      ...[...amounts, ...keys].map((name) => `int8send(${name})`),
      ...flags.map((name) => `boolsend(${name})`),
    ].join(" || "),
  );
/** Bytes of an id. */
export const idBytes = 16;

/** Reads rows of hosts as bytes of fixed width, which take a twentieth of the time of rows of text. */
export const readPacked = async (
  db: Pick<Database, "execute">,
  which: SQL,
  hosts: SQL = sql`fleet_status`,
  layout: PackedLayout = hostColumns,
): Promise<PackedRows> => {
  const texts = sql.raw(["identity", ...layout.names].join(", "));
  const [row] = await db.execute<
    Omit<PackedRows, "texts"> & { texts: PackedRows["texts"] | null } & Record<string, unknown>
  >(sql`
    select pg_snapshot_xmin(pg_current_snapshot())::text as since, pg_postmaster_start_time()::text as server,
      string_agg(packed, ''::bytea) as packed, json_agg(texts) as texts
    from (select ${packedIn(layout)} as packed, json_build_array(${texts}) as texts from ${hosts} ${which}) changed`);
  if (row === undefined) throw new Error("an aggregate returned no row");
  return { ...row, texts: row.texts ?? [] };
};

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Returns the id at a place of packed rows. */
export const idAt = (bytes: Uint8Array, at: number): string => {
  let id = "";
  for (let index = 0; index < idBytes; index++) {
    id += hex[bytes[at + index] as number];
    if (index === 3 || index === 5 || index === 7 || index === 9) id += "-";
  }
  return id;
};

/** 2000-01-01, from which PostgreSQL counts microseconds. */
const epochMs = Date.UTC(2000, 0, 1);

/** Returns a time at a place of packed rows, in milliseconds. */
export const packedTimeAt = (view: DataView, at: number): number => {
  const high = view.getInt32(at);
  const low = view.getUint32(at + 4);
  if (high === 0x7fffffff && low === 0xffffffff) return Number.POSITIVE_INFINITY;
  if (high === -0x80000000 && low === 0) return Number.NEGATIVE_INFINITY;
  return (high * 2 ** 32 + low) / 1000 + epochMs;
};
