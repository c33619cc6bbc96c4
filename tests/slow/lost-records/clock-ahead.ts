import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** Returns options of Node with which a program's wall clock is ahead of the machine's. */
export const clockAheadFlags = (aheadMs: number): string[] => {
  const move = `const now = Date.now; Date.now = () => now() + ${aheadMs};`;
  return ["--import", `data:text/javascript,${encodeURIComponent(move)}`];
};

/**
 * Moves the clock of a lab's database ahead, as far as statements ask for it. The server would find its own function by number, whatever the
 * catalog says: it gets another name, and another function has its.
 */
export const moveDatabaseClock = (sql: SqlClient, aheadMs: number): Promise<unknown> =>
  sql.unsafe(`set allow_system_table_mods = on;
    do $do$ begin
      if to_regprocedure('pg_catalog.machine_timestamp()') is null then
        alter function pg_catalog.clock_timestamp() rename to machine_timestamp;
      end if;
    end $do$;
    create or replace function pg_catalog.clock_timestamp() returns timestamptz language sql volatile
      as $$ select pg_catalog.machine_timestamp() + interval '${aheadMs} milliseconds' $$;
    reset allow_system_table_mods`);
