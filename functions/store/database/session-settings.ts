/**
 * Settings that decide what a statement and the text of its result mean. A role, a database or a server may have other defaults, so every
 * connection gets these: those of the startup message, which every pooler passes, and the others by SET. Outside of a transaction, a statement
 * behind a pooler in transaction mode has only the first: it must not depend on the others, but for those that core checks (server-settings.ts).
 */

/** For the startup message; drivers send `client_encoding`. In full, as the server reports them: a pooler compares the texts. */
export const startupSettings = {
  DateStyle: "ISO, MDY",
  TimeZone: "UTC",
  standard_conforming_strings: "on",
};

/**
 * With those of the startup message, which pg cannot send. Parallel workers would cost a scan of the fleet half as much CPU again, and take it
 * from heartbeats and ingest. JIT compiles a statement at each call and takes half a second, longer than any of these runs.
 */
const settings = {
  ...startupSettings,
  search_path: "public",
  bytea_output: "hex",
  IntervalStyle: "postgres",
  extra_float_digits: 1,
  array_nulls: "on",
  max_parallel_workers_per_gather: 0,
  jit: "off",
};

const assign = (
  scope: "session" | "local",
  values: Readonly<Record<string, string | number>>,
): string =>
  Object.entries(values)
    .map(([name, value]) => `set ${scope} ${name} = '${value}'`)
    .join("; ");

/** Statements that set the settings of a transaction. */
export const setForTransaction = assign("local", settings);

const sessionSettings = {
  ...settings,
  default_transaction_isolation: "read committed",
  idle_session_timeout: 0,
};

/** Returns statements that set the settings of a session, and its timeouts. `transaction_timeout` is unknown before PostgreSQL 17. */
export const setForSession = (deadlineMs: number): string => `
  ${assign("session", sessionSettings)}; ${setTimeouts("session", deadlineMs)};
  do $$ begin set transaction_timeout = 0; exception when undefined_object then null; end $$`;

/**
 * Returns statements that set the timeouts of a session, or of a transaction (`local`), shorter than the deadline of its calls where there
 * is one: an error of the server costs no connection. By SET: a pooler refuses them in the startup message.
 */
export const setTimeouts = (scope: "session" | "local", deadlineMs: number): string =>
  assign(scope, {
    statement_timeout: Math.floor(deadlineMs * 0.9),
    lock_timeout: Math.floor(deadlineMs * 0.8),
    idle_in_transaction_session_timeout: deadlineMs === 0 ? 0 : idleInTransactionMs,
  });

/** After it, the server releases the locks of a core that is stopped or unreachable. */
const idleInTransactionMs = 10_000;
