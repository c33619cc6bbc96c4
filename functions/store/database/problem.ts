import { Problem } from "#functions/problems.ts";

/** The code of `ObjectStoreUnavailable`. */
const storeUnavailable = "OBJECT_STORE_UNAVAILABLE";

/** Codes of `connectionError`, of postgres.js, of pg and of the operating system for a connection that failed or was lost. */
const connectionCodes = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_DESTROYED",
  "CONNECTION_ENDED",
  "CONNECT_TIMEOUT",
  "DEADLINE_EXCEEDED",
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "EMFILE",
  "ENETDOWN",
  "ENETUNREACH",
  "ENOENT",
  "ENOTFOUND",
  "EPIPE",
  "ERR_SOCKET_CLOSED",
  "ERR_STREAM_DESTROYED",
  "ERR_STREAM_WRITE_AFTER_END",
  "ETIMEDOUT",
  "NOT_COMMITTED",
  storeUnavailable,
  "PASSWORD_UNAVAILABLE",
  "SERVER_REFUSED",
  "TOO_MANY_WAITING",
]);

/**
 * SQLSTATE classes and codes for which a retry may succeed: connection exceptions (08), serialization failure and deadlock (40), out of
 * disk, memory or connections (53), timeouts and shutdown (55P03, 57), system errors (58), a standby after a failover (25006).
 */
const unavailableStates = /^(08|40|53|57|58)|^(25006|55P03)$/;

/** pg reports a lost connection and a connect timeout without a code. */
const connectionMessages =
  /^(Connection terminated|timeout expired|Client has encountered a connection error)/;

/** Text that PostgreSQL cannot store: NUL bytes, or \u0000 inside JSON (D6). */
const untranslatableStates = new Set(["22021", "22P05"]);

/**
 * Converts an error of the database or of an object store: `database_unavailable` or `store_unavailable` when a retry may succeed,
 * `validation_failed` when a value cannot be stored as text, otherwise undefined (a bug of core: `internal`). Follows the causes that drizzle wraps.
 */
export const databaseProblem = (error: unknown): Problem | undefined => {
  for (const cause of causesOf(error)) {
    if (cause instanceof Problem) return undefined;
    const code = "code" in cause ? cause.code : undefined;
    if (typeof code !== "string") {
      if (connectionMessages.test(cause.message)) return unavailable(cause);
      continue;
    }
    const isSqlState = code.length === 5 && "severity" in cause;
    if (connectionCodes.has(code)) return unavailable(cause);
    if (isSqlState && (unavailableStates.test(code) || endsConnection(cause)))
      return unavailable(cause);
    if (isSqlState && untranslatableStates.has(code))
      return new Problem("validation_failed", {
        detail: "a text value holds a character that cannot be stored",
        cause,
      });
  }
  return undefined;
};

/** Reports whether an error ends the connection, and so says nothing about the statement: a rejected login, a limit of connections, a shutdown. */
const endsConnection = (cause: Error) =>
  "severity" in cause && (cause.severity === "FATAL" || cause.severity === "PANIC");

const unavailable = (cause: Error): Problem => {
  const isStore = "code" in cause && cause.code === storeUnavailable;
  const code = isStore ? "store_unavailable" : "database_unavailable";
  return new Problem(code, { cause, retryAfterSeconds: 1 });
};

/**
 * Reports whether items that failed in a shared transaction should be retried individually: always, unless the database or the store is
 * unavailable. That
 * includes a deadlock or serialization failure (class 40): a single item cannot deadlock with itself.
 */
export const canRetryIndividually = (error: unknown): boolean =>
  isTransactionRollback(error) || !isUnavailable(databaseProblem(error));

const isUnavailable = (problem: Problem | undefined) =>
  problem !== undefined && ["database_unavailable", "store_unavailable"].includes(problem.code);

const isTransactionRollback = (error: unknown) => hasState(error, /^40...$/);

/** Reports whether a lock was not free within `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean => hasState(error, /^55P03$/);

/** Yields an error and its causes. */
function* causesOf(error: unknown): Generator<Error> {
  let cause = error;
  for (let depth = 0; cause instanceof Error && depth < 5; depth++) {
    yield cause;
    cause = cause.cause;
  }
}

/** Reports whether the server reported an error of such a state, as `error` or as a cause of it. */
export const hasState = (error: unknown, states: RegExp): boolean => {
  for (const cause of causesOf(error))
    if ("severity" in cause && "code" in cause && states.test(String(cause.code))) return true;
  return false;
};
