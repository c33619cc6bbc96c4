/**
 * One connection to PostgreSQL: a client of postgres.js with `max: 1`, through its documented interface alone.
 *
 * Invariants
 * - It has one socket in its life, and is never used again once that has closed. So nothing of it can reach another connection: no unsent
 *   statement, no half-read answer, and not the rest of a transaction.
 * - Every accepted call ends: with its answer, or with the cause when the connection closes.
 * - A call past its deadline closes the connection, which discards a late answer.
 * - An error that the server did not report closes it: postgres.js may have sent half a statement, and would then confuse the answers.
 *
 * Its states are those of `ConnectionState`. Its pool decides which calls it runs, and how many.
 */
import type { PendingQuery, Row } from "postgres";
import postgres from "postgres";
import { connectionError } from "./connection-error.ts";
import { createSingleSocket, type OpenSocket } from "./single-socket.ts";
import type { Query, Rows } from "./sql-client.ts";

/** A state of a connection, with its exits. */
type ConnectionState =
  /** Connects and signs in; postgres.js keeps its statements. Exits: open, by the first answer; closed. */
  | { readonly is: "opening" }
  /** Has answered a statement. Exits: closed. */
  | { readonly is: "open" }
  /** Has no socket, and fails every call. No exit. */
  | { readonly is: "closed"; readonly cause: Error };

/** Work for one connection: a statement or a transaction. */
export interface PooledCall {
  /** By `performance.now()`; 0: none. */
  readonly deadlineAt: number;
  /** Whether it needs a connection to itself. */
  readonly isExclusive: boolean;
  /** Runs it on the connection that accepted it. */
  start(connection: PooledConnection): void;
  /** Ends it without an answer. Has no effect once it has ended. */
  fail(cause: Error): void;
}

/** How to connect. */
export interface ConnectionOptions {
  /** Returns where the next connection goes, and the options of postgres.js. */
  connecting(): { url: string; settings: object };
  /** Runs first; empty: nothing. Other statements are sent without waiting for its answer. */
  setup: string;
  /** Absent: as postgres.js does. */
  openSocket?: OpenSocket | undefined;
  /** Reports whether a server that reports these parameters must not be used. */
  refusesServer(parameters: Readonly<Record<string, string>>): boolean;
  /** Reports whether a server must not be used after it reported this error. */
  endsWriting(error: ServerError): boolean;
}

/** The events of a connection; `closed` is called once, before its calls fail. */
interface ConnectionEvents {
  closed(connection: PooledConnection, wasOpening: boolean): void;
  /** It closed because of its server, so that other connections may be unusable too. */
  faulted(cause: Error): void;
}

/** A connection, as its pool uses it. */
export interface PooledConnection {
  state(): ConnectionState;
  /** Returns the number of its calls. */
  load(): number;
  /** Reports whether it runs a call that needs a connection to itself. */
  isTaken(): boolean;
  /** Returns when the server last answered, by `performance.now()`. */
  answeredAt(): number;
  /** Starts a call. It counts until `release`, or until the connection closes. */
  accept(call: PooledCall): void;
  release(call: PooledCall): void;
  /** Sends a statement of an accepted call. Calls `resolve` or `reject`, unless the connection closes. */
  send(query: Query, resolve: (rows: Rows) => void, reject: (error: Error) => void): void;
  /** Closes at once; its calls fail with `cause`. */
  close(cause: Error): void;
  /** Closes an idle connection, after a message to the server. */
  end(): Promise<void>;
}

/** An error that the server reported. */
type ServerError = Error & { readonly severity: string; readonly code: string };

const endsSession = ({ severity }: ServerError) => severity === "FATAL" || severity === "PANIC";
const isServerError = (error: Error): error is ServerError => "severity" in error;

/** Errors of connections from postgres.js and the system name the failed call; errors of values do not. */
const isConnectionError = (error: Error) => "errno" in error || "syscall" in error;

/** How long the server may take to close an ended connection. */
const endSeconds = 1;

/**
 * Returns the rows in an array of their own, and empties that of postgres.js. V8 moves its contents to the old generation even once they
 * are garbage: each row of an export then survived until a full collection.
 */
const takeRows = (rows: Rows): Rows => {
  const { command, count } = rows;
  const taken = Object.defineProperties([...rows], {
    command: { value: command },
    count: { value: count },
  });
  rows.length = 0;
  return taken as Rows;
};

/** Opens a connection, which connects with its first statement. */
export const openConnection = (
  options: ConnectionOptions,
  on: ConnectionEvents,
): PooledConnection => {
  const calls = new Set<PooledCall>();
  const unanswered = new Set<PendingQuery<Row[]>>();
  const parameters: Record<string, string> = {};
  let state: ConnectionState = { is: "opening" };
  let answeredAt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  /** `rejectFailed` rejects the call whose error closes the connection, before the other calls fail with `cause`. */
  const close = (cause: Error, rejectFailed = () => {}) => {
    if (state.is === "closed") return;
    const wasOpening = state.is === "opening";
    state = { is: "closed", cause };
    clearTimeout(timer);
    // Sends no message to the server, which may not read.
    socket?.destroy();
    void client.end({ timeout: 0 });
    on.closed(connection, wasOpening);
    rejectFailed();
    for (const call of calls) call.fail(cause);
    calls.clear();
  };
  const fault = (cause: Error, rejectFailed?: () => void) => {
    close(cause, rejectFailed);
    on.faulted(cause);
  };

  const socket =
    options.openSocket && createSingleSocket(options.openSocket, (cause) => close(cause));
  const { url, settings } = options.connecting();
  const client = postgres(url, {
    ...settings,
    ...(socket && { socket: socket.open }),
    max: 1,
    // Otherwise postgres.js would close a connection that the pool believes to be idle.
    max_lifetime: null,
    onclose: () => {
      // Otherwise postgres.js would connect again for statements that it has not sent.
      for (const query of unanswered) query.cancel();
      close(connectionError("CONNECTION_CLOSED"));
    },
    onparameter: (name, value) => {
      parameters[name] = value;
      if (state.is !== "closed" && options.refusesServer(parameters))
        fault(connectionError("SERVER_REFUSED"));
    },
  });

  const answered = () => {
    if (state.is === "opening") state = { is: "open" };
    answeredAt = performance.now();
  };
  const rejected = (error: Error, reject: (error: Error) => void) => {
    const rejectFailed = () => reject(error);
    if (state.is === "closed") reject(state.cause);
    else if (isServerError(error)) {
      if (endsSession(error)) close(error, rejectFailed);
      else if (options.endsWriting(error)) fault(error, rejectFailed);
      else {
        answered();
        rejectFailed();
      }
    } else if (state.is === "opening" || isConnectionError(error)) close(error, rejectFailed);
    else close(connectionError("CONNECTION_CLOSED", error), rejectFailed);
  };

  // One timer for all calls, set again only when it fires too early: a call costs a comparison.
  const watch = () => {
    if (timer !== undefined) return;
    const [oldest] = calls;
    if (oldest === undefined || oldest.deadlineAt === 0) return;
    // First reads answers that arrived during a long turn of the event loop.
    timer = setTimeout(
      () => setImmediate(check),
      Math.max(1, oldest.deadlineAt - performance.now()),
    );
  };
  const check = () => {
    timer = undefined;
    const [oldest] = calls;
    if (oldest === undefined || state.is === "closed") return;
    if (oldest.deadlineAt - performance.now() > 1) watch();
    else fault(connectionError("DEADLINE_EXCEEDED"));
  };

  let isTaken = false;
  const connection: PooledConnection = {
    state: () => state,
    load: () => calls.size,
    isTaken: () => isTaken,
    answeredAt: () => answeredAt,
    accept(call) {
      calls.add(call);
      isTaken = call.isExclusive;
      watch();
      call.start(connection);
    },
    release(call) {
      calls.delete(call);
      isTaken = false;
    },
    send(query, resolve, reject) {
      if (state.is === "closed") return reject(state.cause);
      const pending = query(client);
      unanswered.add(pending);
      pending.then(
        (rows) => {
          unanswered.delete(pending);
          if (state.is === "closed") return reject(state.cause);
          answered();
          resolve(takeRows(rows));
        },
        (error: Error) => {
          unanswered.delete(pending);
          rejected(error, reject);
        },
      );
    },
    close,
    async end() {
      const cause = connectionError("CONNECTION_ENDED");
      if (state.is !== "open") return close(cause);
      state = { is: "closed", cause };
      clearTimeout(timer);
      on.closed(connection, false);
      await client.end({ timeout: endSeconds });
      socket?.destroy();
    },
  };
  if (options.setup !== "")
    connection.send(
      (own) => own.unsafe(options.setup),
      () => undefined,
      (error) => close(error),
    );
  return connection;
};
