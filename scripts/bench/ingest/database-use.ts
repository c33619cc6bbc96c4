import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { rounded } from "../support/bench.ts";
import { cpuSecondsOf } from "../support/processes.ts";

/** What PostgreSQL spent on each envelope: microseconds of CPU, bytes of its tables and of its log (WAL). */
export interface DatabaseUse {
  cpu_us: number;
  table_bytes: number;
  wal_bytes: number;
}

/** Returns a function that returns what was used since, for each of the envelopes. `table` has partitions; `run` returns the first row. */
export const measureUse = async (
  run: (statement: string) => Promise<unknown>,
  { pid, table }: { pid: number; table: string },
) => {
  const read = async () => {
    const row = await run(`select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal,
      (select sum(pg_total_relation_size(relid)) from pg_partition_tree('${table}'))::float8 as bytes`);
    const { wal, bytes } = row as { wal: number; bytes: number };
    return { cpu: cpuSecondsOf(pid), wal, bytes };
  };
  const before = await read();
  return async (envelopes: number): Promise<DatabaseUse> => {
    const now = await read();
    return {
      cpu_us: rounded(((now.cpu - before.cpu) * 1e6) / envelopes, 2),
      table_bytes: rounded((now.bytes - before.bytes) / envelopes),
      wal_bytes: rounded((now.wal - before.wal) / envelopes),
    };
  };
};

/** Measures the use of a bench's own database, as `measureUse` does. */
export const measureDatabaseUse = ({ sql, pid }: EmbeddedDatabase, table: string) =>
  measureUse(async (statement) => (await sql.unsafe(statement))[0], { pid, table });
