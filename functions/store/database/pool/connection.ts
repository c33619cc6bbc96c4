/**
 * One connection to PostgreSQL: a client of postgres.js with `max: 1`, of which only the documented interface is used.
 *
 * Invariants
 * - It has one socket in its life, and is never used again once that has closed. So nothing of it can reach another connection: no
 *   statement that was not sent yet, no half-read answer, and not the rest of a transaction.
 * - Every call that it accepted ends: with its answer, or with the cause when the connection closes.
 * - A call past its deadline closes it. An answer that comes later is discarded with it.
 * - An error that is not the server's closes it: postgres.js may have sent half a statement, and would then confuse the answers.
 *
 * Its states are those of `ConnectionState`. Which calls it runs, and how many, its pool decides.
 */
import postgres, { type PendingQuery, type Row } from "postgres";
import { connectionError } from "./connection-error.ts";
import { createSingleSocket, type OpenSocket } from "./single-socket.ts";
import type { Query, Rows } from "./statement.ts";

/** A state of a connection, with its exits. */
export type ConnectionState =
  /** Connects and signs in; postgres.js keeps its statements. Exits: open, by the first answer; closed. */
  | { readonly is: "opening" }
  /** Has answered a statement. Exits: closed. */
  | { readonly is: "open" }
  /** Has no socket, and fails whatever is sent. No exit. */
  | { readonly is: "closed"; readonly cause: Error };

/** Work for one connection: a statement or a transaction. */
export interface PooledCall {
  /** By `performance.now()`; 0: none. */
  readonly deadlineAt: number;
  /** Whether it shares its connection with no other call. */
  readonly isExclusive: boolean;
  /** Runs it on the connection that accepted it. */
  start(connection: PooledConnection): void;
  /** Ends it without an answer. Has no effect once it has ended. */
  fail(cause: Error): void;
}

/** How to connect. */
export interface ConnectionOptions {
  url: string;
  /** Options of postgres.js. */
  settings: object;
  /** Runs first; empty: nothing. Other statements follow without waiting for its answer. */
  setup: string;
  /** Absent: as postgres.js does. */
  openSocket?: OpenSocket | undefined;
  /** Whether a server that reports these parameters must not be used. */
  refusesServer(parameters: Readonly<Record<string, string>>): boolean;
  /** Whether a server must not be used after it reported this error. */
  endsWriting(error: ServerError): boolean;
}

/** The events of a connection; `closed` comes once, before its calls fail. */
export interface ConnectionEvents {
  closed(connection: PooledConnection, wasOpening: boolean): void;
  /** It closed because of its server, so that others may be of no use either. */
  faulted(cause: Error): void;
}

export interface PooledConnection {
  state(): ConnectionState;
  /** Returns the number of its calls. */
  load(): number;
  /** Returns whether it has a call that shares it with no other. */
  isTaken(): boolean;
  /** Returns when the server last answered, by `performance.now()`. */
  answeredAt(): number;
  /** Starts a call. It counts until `release`, or until the connection closes. */
  accept(call: PooledCall): void;
  release(call: PooledCall): void;
  /** Sends a statement of an accepted call; one of the two is called, unless the connection closes. */
  send(query: Query, resolve: (rows: Rows) => void, reject: (error: Error) => void): void;
  /** Closes at once; its calls fail with `cause`. */
  close(cause: Error): void;
  /** Closes an idle connection, after a message to the server. */
  end(): Promise<void>;
}

/** An error that the server reported. */
export type ServerError = Error & { readonly severity: string; readonly code: string };

const endsSession = ({ severity }: ServerError): boolean =>
  severity === "FATAL" || severity === "PANIC";
const isServerError = (error: Error): error is ServerError => "severity" in error;

/** postgres.js and the system name the failed call, unlike an error of a value. */
const isConnectionError = (error: Error): boolean => "errno" in error || "syscall" in error;

const endSeconds = 1;

/**
 * Returns the rows in an array of their own, and empties the one of postgres.js. V8 moves what the one of postgres.js has to the old
 * generation, even once it is garbage: each row of an export then survived until a full collection.
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

  /** `first` runs before other calls than the one whose error closes the connection fail. */
  const close = (cause: Error, first = () => {}): void => {
    if (state.is === "closed") return;
    const wasOpening = state.is === "opening";
    state = { is: "closed", cause };
    clearTimeout(timer);
    // Without a word to the server, which may not read.
    socket?.destroy();
    void client.end({ timeout: 0 });
    on.closed(connection, wasOpening);
    first();
    for (const call of calls) call.fail(cause);
    calls.clear();
  };
  const fault = (cause: Error, first?: () => void): void => {
    close(cause, first);
    on.faulted(cause);
  };

  const socket =
    options.openSocket && createSingleSocket(options.openSocket, (cause) => close(cause));
  const client = postgres(options.url, {
    ...options.settings,
    ...(socket && { socket: socket.open }),
    max: 1,
    // postgres.js would let go of a connection that its pool believes to be idle.
    max_lifetime: null,
    onclose: () => {
      // postgres.js would connect again for those that it has not sent.
      for (const query of unanswered) query.cancel();
      close(connectionError("CONNECTION_CLOSED"));
    },
    onparameter: (name, value) => {
      parameters[name] = value;
      if (state.is !== "closed" && options.refusesServer(parameters))
        fault(connectionError("SERVER_REFUSED"));
    },
  });

  const answered = (): void => {
    if (state.is === "opening") state = { is: "open" };
    answeredAt = performance.now();
  };
  const rejected = (error: Error, reject: (error: Error) => void): void => {
    const answer = () => reject(error);
    if (state.is === "closed") reject(state.cause);
    else if (isServerError(error)) {
      if (endsSession(error)) close(error, answer);
      else if (options.endsWriting(error)) fault(error, answer);
      else {
        answered();
        answer();
      }
    } else if (state.is === "opening" || isConnectionError(error)) close(error, answer);
    else close(connectionError("CONNECTION_CLOSED", error), answer);
  };

  // One timer for all calls, set again only when it fires too early: a call costs a comparison.
  const watch = (): void => {
    if (timer !== undefined) return;
    const [oldest] = calls;
    if (oldest === undefined || oldest.deadlineAt === 0) return;
    // Answers that came within a long turn of the event loop are read first.
    timer = setTimeout(
      () => setImmediate(check),
      Math.max(1, oldest.deadlineAt - performance.now()),
    );
  };
  const check = (): void => {
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
