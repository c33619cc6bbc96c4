/**
 * Copies stored telemetry to a table of rows, for SQL, which cannot read compressed blocks. One connection reads, in a transaction that
 * writes nothing; another writes, in short ones, because exports wait for every transaction that writes.
 */
import { errorCode } from "#kit/describe-error.ts";
import type { SqlClient, SqlRunner } from "../database/pool/sql-client.ts";
import { asIs, type RowOf, rowReader } from "../database/statements.ts";
import type { ObjectReader } from "./object-data.ts";
import {
  type BlockCodec,
  BlockCorrupt,
  type DamagedBlock,
  readCheckedBlock,
  type StoredEnvelope,
} from "./stored-envelope.ts";

/** The telemetry to copy, by the time of receipt, and its destination. */
export interface TelemetryTable {
  /** The name of the table, which must not exist. */
  table: string;
  from: Date;
  /** Exclusive. */
  to: Date;
  /** Only of this host. */
  hostId?: string | undefined;
  /** Called for each damaged block, whose envelopes are omitted. */
  onDamaged?: ((block: DamagedBlock) => void) | undefined;
}

/** What reads blocks. */
interface BlockReaders {
  codec: Pick<BlockCodec, "decompress" | "digest">;
  objects: Pick<ObjectReader, "withData">;
}

/** Why a table is not created or dropped. */
export class TableRefused extends Error {
  override readonly name = "TableRefused";
}

const blockColumns = {
  hostId: String,
  queueId: asIs<Uint8Array>,
  firstSequence: BigInt,
  lastSequence: BigInt,
  envelopes: Number,
  receivedText: String,
  receivedAt: BigInt,
  xid: String,
  rawBytes: Number,
  encoding: Number,
  data: asIs<Uint8Array>,
  digest: asIs<Uint8Array>,
};
type Block = RowOf<typeof blockColumns>;

/** Each may have megabytes. */
const blocksOfRead = 16;
const rowsOfRead = 100;
const rowsOfInsert = 2_000;
/** The comment of a table that core created here: it drops no other. */
const mark = "svc-server envelopes: a copy of telemetry, which retention does not drop";
const duplicateTable = "42P07";

/**
 * Copies telemetry into a new table; returns the number of copied envelopes. Drops the table when it fails. Throws `TableRefused`.
 */
export const createTelemetryTable = async (
  sql: SqlClient,
  copied: TelemetryTable,
  readers: BlockReaders,
): Promise<number> => {
  const { table } = copied;
  try {
    await sql.begin(async (tx) => {
      await tx`create table ${tx(table)} (
        host_id text not null, queue_id bytea not null, sequence bigint not null, kind text not null, observed_at timestamptz,
        received_at timestamptz not null, source text not null, attributes jsonb not null, payload bytea not null, xid bigint not null)`;
      await tx.unsafe(`comment on table "${table.replaceAll('"', '""')}" is '${mark}'`);
    });
  } catch (cause) {
    if (errorCode(cause) !== duplicateTable) throw cause;
    throw new TableRefused(
      `the table ${table} exists already: choose another name, or drop it with --drop`,
      { cause },
    );
  }
  try {
    return await sql.begin("read only", (reader) => copyInto(sql, reader, copied, readers));
  } catch (cause) {
    await sql`drop table ${sql(table)}`.catch(() => undefined);
    throw cause;
  }
};

const copyInto = async (
  sql: SqlClient,
  reader: SqlRunner,
  { table, from, to, hostId, onDamaged }: TelemetryTable,
  { codec, objects }: BlockReaders,
) => {
  await reader`set local statement_timeout = 0`;
  await reader`set local idle_in_transaction_session_timeout = 0`;
  const first = from.toISOString();
  const last = to.toISOString();
  const where = reader`received_at >= ${first}::text::timestamptz and received_at < ${last}::text::timestamptz
    ${hostId === undefined ? reader`` : reader`and host_id = ${hostId}`}`;
  let copied = 0;
  const insert = async (rows: readonly object[]) => {
    for (let first = 0; first < rows.length; first += rowsOfInsert)
      await sql`insert into ${sql(table)} ${sql(rows.slice(first, first + rowsOfInsert))}`;
    copied += rows.length;
  };
  await reader`declare single no scroll cursor for
    select host_id, queue_id, sequence::text, kind, observed_at::text, received_at::text, source, attributes, payload, xid::text
    from ingest_envelope where ${where}`;
  for (;;) {
    const rows = await reader.unsafe(`fetch ${rowsOfRead} from single`);
    if (rows.length === 0) break;
    await insert(rows.map((row) => ({ ...row, attributes: JSON.stringify(row.attributes) })));
  }
  await reader`declare blocks no scroll cursor for
    select host_id, queue_id, first_sequence, last_sequence, envelopes, received_at::text as received_text,
      (extract(epoch from received_at) * 1e6)::bigint as received_at, xid, raw_bytes, encoding, data, digest
    from ingest_block where ${where}`;
  for (;;) {
    const blocks = await reader.unsafe(`fetch ${blocksOfRead} from blocks`);
    if (blocks.length === 0) return copied;
    const read = blocks.map(rowReader(blockColumns));
    for (const [index, block] of (await objects.withData(read)).entries())
      await insert(rowsOf(block, { named: read[index] as Block, codec, onDamaged }));
  }
};

const rowsOf = (
  block: Block | BlockCorrupt,
  {
    named,
    codec,
    onDamaged,
  }: Pick<TelemetryTable, "onDamaged"> & Pick<BlockReaders, "codec"> & { named: Block },
): object[] => {
  let envelopes: StoredEnvelope[];
  try {
    if (block instanceof BlockCorrupt) throw block;
    envelopes = readCheckedBlock(block, codec);
  } catch (cause) {
    if (onDamaged === undefined || !(cause instanceof BlockCorrupt)) throw cause;
    onDamaged(named);
    return [];
  }
  return envelopes.map(({ sequence, kind, observedAt, source, attributes, payload }) => ({
    host_id: named.hostId,
    queue_id: named.queueId,
    sequence: String(sequence),
    kind,
    source,
    received_at: named.receivedText,
    xid: named.xid,
    payload,
    observed_at: observedAt === null ? null : rfc3339Microseconds(observedAt),
    attributes: JSON.stringify(attributes),
  }));
};

/** Returns microseconds since the Unix epoch as RFC 3339 with microseconds, which a Date does not have. */
const rfc3339Microseconds = (at: bigint) => {
  const fraction = ((at % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const second = new Date(Number((at - fraction) / 1000n)).toISOString();
  return second.replace(".000Z", `.${String(fraction).padStart(6, "0")}Z`);
};

/** Drops a table that `createTelemetryTable` has created. Throws `TableRefused` for any other one. */
export const dropTelemetryTable = (sql: SqlClient, table: string): Promise<void> =>
  sql.begin(async (tx) => {
    const [found] = await tx<{ mark: string | null }[]>`
      select obj_description(to_regclass(quote_ident(${table}::text)), 'pg_class') as mark`;
    if (found?.mark !== mark)
      throw new TableRefused(
        `${table} is no table that svc-server envelopes has created: it stays`,
      );
    await tx`drop table ${tx(table)}`;
  });
