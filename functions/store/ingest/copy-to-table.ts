/** Stored telemetry as a table of rows, for SQL: blocks are compressed, which PostgreSQL cannot read. */
import type { SqlClient } from "../database/pool/sql-client.ts";
import type { BlockCodec } from "./block-codec.ts";
import { readStoredBlock } from "./stored-envelope.ts";

/** Which telemetry to copy, by the time of receipt. */
export interface CopiedTelemetry {
  /** The table's name; it is created unless it exists. */
  table: string;
  from: Date;
  /** Exclusive. */
  to: Date;
  /** Of this host alone. */
  hostId?: string;
}

interface Block {
  host_id: string;
  queue_id: Uint8Array;
  received_at: string;
  xid: string;
  raw_bytes: number;
  encoding: number;
  data: Uint8Array;
}

const blocksOfRead = 200;
const rowsOfInsert = 2_000;

/** Copies telemetry into a table, in one transaction; returns how many envelopes it has copied. */
export const copyToTable = (
  sql: SqlClient,
  { table, from, to, hostId }: CopiedTelemetry,
  codec: Pick<BlockCodec, "decompress">,
): Promise<number> =>
  sql.begin(async (tx) => {
    await tx`set local statement_timeout = 0`;
    await tx`create table if not exists ${tx(table)} (
      host_id text not null, queue_id bytea not null, sequence bigint not null, kind text not null, observed_at timestamptz,
      received_at timestamptz not null, source text not null, attributes jsonb not null, payload bytea not null, xid bigint not null)`;
    const [first, last] = [from.toISOString(), to.toISOString()];
    const isWanted = tx`received_at >= ${first}::text::timestamptz and received_at < ${last}::text::timestamptz
      ${hostId === undefined ? tx`` : tx`and host_id = ${hostId}`}`;
    const { count } = await tx`
      insert into ${tx(table)} select host_id, queue_id, sequence, kind, observed_at, received_at, source, attributes, payload, xid
      from ingest_envelope where ${isWanted}`;
    let copied = count;
    await tx`declare blocks no scroll cursor for
      select host_id, queue_id, received_at::text, xid::text, raw_bytes, encoding, data from ingest_block where ${isWanted}`;
    for (;;) {
      const blocks = await tx.unsafe<Block[]>(`fetch ${blocksOfRead} from blocks`);
      if (blocks.length === 0) return copied;
      const rows = blocks.flatMap((block) => rowsOf(block, codec));
      for (let at = 0; at < rows.length; at += rowsOfInsert)
        await tx`insert into ${tx(table)} ${tx(rows.slice(at, at + rowsOfInsert))}`;
      copied += rows.length;
    }
  });

const rowsOf = (block: Block, codec: Pick<BlockCodec, "decompress">) => {
  const { host_id, queue_id, received_at, xid, raw_bytes: rawBytes, encoding, data } = block;
  const stored = { hostId: host_id, queueId: queue_id, receivedAt: 0n, rawBytes, encoding, data };
  return readStoredBlock(stored, codec).map(({ sequence, kind, observedAt, source, attributes, payload }) => ({
    ...{ host_id, queue_id, sequence: String(sequence), kind, source, received_at, xid, payload },
    observed_at: observedAt === null ? null : new Date(Number(observedAt / 1000n)).toISOString(),
    attributes: JSON.stringify(attributes),
  }));
};
