/**
 * What core is compared with: a loop of PostgreSQL's own COPY, without anything of core's. It writes envelopes as rows of a table as
 * core had when this floor was first measured, a partitioned one with a BRIN index and payloads that are not compressed.
 */
import { Client } from "pg";
import { from as copyFrom } from "pg-copy-streams";
import { type CorpusRecord, toEnvelopes } from "../support/corpus/corpus.ts";
import { type DatabaseUse, measureUse } from "./database-use.ts";

const columns =
  "host_id, queue_id, sequence, kind, observed_at, received_at, source, attributes, payload";
const createTable = `create table if not exists bench_floor (host_id text not null, queue_id bytea not null, sequence bigint not null,
    kind text not null, observed_at timestamptz, received_at timestamptz not null, source text not null, attributes jsonb not null,
    payload bytea not null, xid bigint not null default pg_current_xact_id()::text::bigint) partition by range (received_at);
  alter table bench_floor alter payload set storage external;
  create table if not exists bench_floor_default partition of bench_floor default;
  create index if not exists bench_floor_xid on bench_floor using brin (xid) with (pages_per_range = 256);
  truncate bench_floor; checkpoint`;

/** What a floor reached, in envelopes a second, and what it cost. */
export interface Floor extends DatabaseUse {
  rate: number;
}

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const chunkBytes = 256 * 1024;

/** Measures a loop that only COPYs the records as rows, encoded before, `rowsOfBatch` in a transaction, to the database of process `pid`. */
export const measureCopyLoop = async ({
  url,
  pid,
  seconds,
  records,
  rowsOfBatch,
}: {
  url: string;
  pid: number;
  seconds: number;
  records: readonly CorpusRecord[];
  rowsOfBatch: number;
}): Promise<Floor> => {
  const batches = Array.from(
    { length: Math.max(1, Math.floor(records.length / rowsOfBatch)) },
    (_, batch) => {
      const rows = records.slice(batch * rowsOfBatch, (batch + 1) * rowsOfBatch);
      return {
        rows: rows.length,
        copied: Buffer.concat([signature, ...encodeRows(rows), Buffer.of(0xff, 0xff)]),
      };
    },
  );
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(createTable);
  const run = async (text: string) => (await client.query(text)).rows[0];
  const use = await measureUse(run, { pid, table: "bench_floor" });
  const startedAt = performance.now();
  let written = 0;
  for (let batch = 0; performance.now() < startedAt + seconds * 1000; batch++) {
    const { rows = 0, copied = Buffer.alloc(0) } = batches[batch % batches.length] ?? {};
    await copyRows(client, copied);
    written += rows;
  }
  const rate = written / ((performance.now() - startedAt) / 1000);
  const used = await use(written);
  await client.query("truncate bench_floor");
  await client.end();
  return { rate, ...used };
};

const copyRows = (client: Client, copied: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    const stream = client.query(
      copyFrom(`copy bench_floor (${columns}) from stdin with (format binary)`),
    );
    stream.once("finish", resolve).once("error", reject);
    for (let at = 0; at < copied.length; at += chunkBytes)
      stream.write(copied.subarray(at, at + chunkBytes));
    stream.end();
  });

const hostId = "spiffe://fleet.bench/7f1c2a9e-floor";
const queueId = Buffer.alloc(16, 7);
const postgresEpochMs = Date.UTC(2000, 0, 1);

/** Rows in PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format"). */
const encodeRows = (records: readonly CorpusRecord[]): Buffer[] => {
  const int64 = (value: bigint) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(value);
    return bytes;
  };
  const time = (ms: number) => int64(BigInt(ms - postgresEpochMs) * 1000n);
  return toEnvelopes(records, 2 ** 28).flatMap(
    ({ sequence, kind, source, attributes, payload }, index) => {
      const at = records[index]?.at ?? 0;
      const json = Buffer.from(`\x01${JSON.stringify(attributes)}`);
      const texts = [Buffer.from(kind), time(at), time(at), Buffer.from(source), json, payload];
      const fields = [Buffer.from(hostId), queueId, int64(sequence), ...texts];
      const length = (bytes: Uint8Array) => {
        const prefix = Buffer.alloc(4);
        prefix.writeInt32BE(bytes.length);
        return prefix;
      };
      return [
        Buffer.of(0, fields.length),
        ...fields.flatMap((field) => [length(field), Buffer.from(field)]),
      ];
    },
  );
};
