import { sql } from "drizzle-orm";
import type { Executor } from "./database.ts";
import { asIs, type RowOf, readOne, readScalar } from "./statements.ts";

/** The settings that decide whether a committed row survives a crash and whether the server accepts writes. */
type ServerSettings = RowOf<typeof serverSettings>;
const serverSettings = {
  /** The major version. */
  version: Number,
  fsync: Boolean,
  /** Whether a transaction can write: false on a standby, and where `default_transaction_read_only` is on. */
  writable: Boolean,
  /** Settings that core cannot use, and cannot set itself, each with the command that corrects it. */
  faults: asIs<string[]>,
};

/**
 * Selects the faults of a session. Its settings are core's own, or behind a pooler in transaction mode those of the role, on which a
 * statement outside of a transaction relies. A server that is read-only as a whole is a standby, and not a fault.
 */
export const selectFaults = `
  select format('a database with the encoding %s, not UTF8: create database NAME template template0 encoding ''UTF8''',
    current_setting('server_encoding')) as fault where current_setting('server_encoding') <> 'UTF8'
  union all select format('a database without schema public: create schema public authorization %I', session_user)
    where to_regnamespace('public') is null
  union all select format('sessions with %1$s = %2$s: alter role %3$I in database %4$I set %1$s = %5$L', name, current_setting(name),
    session_user, current_database(), wanted)
  from (values
    ('search_path', 'public', to_regnamespace('public') is not null and not 'public' = any(current_schemas(false))),
    ('default_transaction_isolation', 'read committed', current_setting('default_transaction_isolation') <> 'read committed'),
    ('array_nulls', 'on', current_setting('array_nulls') = 'off'),
    ('extra_float_digits', '1', current_setting('extra_float_digits')::int < 0),
    ('default_transaction_read_only', 'off', exists(select from pg_settings
      where name = 'default_transaction_read_only' and setting = 'on' and source in ('database', 'user', 'database user')))
  ) as relied (name, wanted, is_other) where is_other`;

/** Reads the settings of the server. */
export const readServerSettings = (db: Executor): Promise<ServerSettings> =>
  readOne(
    db,
    serverSettings,
    sql`
    select current_setting('server_version_num')::int / 10000 as version, current_setting('fsync') = 'on' as fsync,
      current_setting('transaction_read_only') = 'off' as writable, array(${sql.raw(selectFaults)}) as faults`,
  );

/** The largest difference of core's and the database's clock: beyond it core is not ready and drops nothing. */
export const clockDifferenceMsMax = 5 * 60_000;

/** Returns the time of the server in milliseconds, which retention and partitions use, because cores may disagree. */
export const readDatabaseTime = (db: Executor): Promise<number> =>
  readScalar(db, Number, sql`select floor(extract(epoch from clock_timestamp()) * 1000) as ms`);
