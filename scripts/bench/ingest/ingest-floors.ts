/**
 * What core is compared with: loops of PostgreSQL's own statements, without anything of core's. Both write envelopes as rows of a table as
 * core had when these floors were first measured, a partitioned one with a BRIN index and payloads that are not compressed.
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

/** A loop to measure. */
export interface FloorOptions {
  url: string;
  /** Process id of PostgreSQL. */
  pid: number;
  seconds: number;
  records: readonly CorpusRecord[];
}

/** What a floor reached, in envelopes a second, and what it cost. */
export interface Floor extends DatabaseUse {
  rate: number;
}

/** Runs `write` until the time is up, which returns how many envelopes it wrote. */
const measureLoop = async (
  { url, pid, seconds }: FloorOptions,
  connections: number,
  write: (clients: readonly Client[], until: number) => Promise<number>,
): Promise<Floor> => {
  const clients = Array.from({ length: connections }, () => new Client({ connectionString: url }));
  await Promise.all(clients.map((client) => client.connect()));
  const [first] = clients;
  if (first === undefined) throw new Error("a floor needs a connection");
  await first.query(createTable);
  const use = await measureUse(async (text) => (await first.query(text)).rows[0], {
    pid,
    table: "bench_floor",
  });
  const startedAt = performance.now();
  const envelopes = await write(clients, startedAt + seconds * 1000);
  const rate = envelopes / ((performance.now() - startedAt) / 1000);
  const used = await use(envelopes);
  await first.query("truncate bench_floor");
  await Promise.all(clients.map((client) => client.end()));
  return { rate, ...used };
};

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const chunkBytes = 256 * 1024;

/** Measures a loop that only COPYs the records as rows, encoded before, `rowsOfBatch` in a transaction. */
export const measureCopyLoop = (
  options: FloorOptions & { rowsOfBatch: number },
): Promise<Floor> => {
  const { records, rowsOfBatch } = options;
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
  return measureLoop(options, 1, async ([client], until) => {
    let written = 0;
    for (let batch = 0; performance.now() < until; batch++) {
      const { rows = 0, copied = Buffer.alloc(0) } = batches[batch % batches.length] ?? {};
      const stream = client?.query(
        copyFrom(`copy bench_floor (${columns}) from stdin with (format binary)`),
      );
      await new Promise<void>((resolve, reject) => {
        stream?.once("finish", resolve).once("error", reject);
        for (let at = 0; at < copied.length; at += chunkBytes)
          stream?.write(copied.subarray(at, at + chunkBytes));
        stream?.end();
      });
      written += rows;
    }
    return written;
  });
};

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

/** Connections of the loops below: as many as core has. */
const connections = 2;

/**
 * Measures `senders` loops that each wait until their envelope is stored, without a network or a cursor: whatever waits when one of two
 * connections is free is one plain INSERT of many rows.
 */
export const measureInsertLoops = (options: FloorOptions & { senders: number }): Promise<Floor> =>
  measureLoop(options, connections, async (clients, until) => {
    const waiting: { values: unknown[]; done: () => void; fail: (error: unknown) => void }[] = [];
    const idle = [...clients];
    const insert = async (): Promise<void> => {
      const client = waiting.length > 0 ? idle.pop() : undefined;
      if (client === undefined) return;
      const group = waiting.splice(0);
      const rows = group.map(
        (_, row) => `(${group[0]?.values.map((_, column) => `$${row * 9 + column + 1}`)})`,
      );
      const text = `insert into bench_floor (${columns}) values ${rows}`;
      const values = group.flatMap((one) => one.values);
      await client.query({ name: `floor-${group.length}`, text, values }).then(
        () => group.forEach(({ done }) => void done()),
        (error: unknown) => group.forEach(({ fail }) => void fail(error)),
      );
      idle.push(client);
      // Once all who waited have their next envelope.
      setImmediate(() => void insert());
    };
    let written = 0;
    const loop = async (sender: number): Promise<void> => {
      for (let sequence = sender; performance.now() < until; sequence += options.senders) {
        const { kind, source, attributes, at, payload } =
          options.records[sequence % options.records.length] ?? {};
        const times = [new Date(at ?? 0), new Date()];
        const stored = Promise.withResolvers<void>();
        const values = [hostId, queueId, sequence, kind, ...times, source, attributes, payload];
        if (waiting.push({ values, done: stored.resolve, fail: stored.reject }) === 1)
          setImmediate(() => void insert());
        await stored.promise;
        written++;
      }
    };
    await Promise.all(Array.from({ length: options.senders }, (_, sender) => loop(sender)));
    return written;
  });
