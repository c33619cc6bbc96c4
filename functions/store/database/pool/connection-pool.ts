/**
 * The connections of one pool, and the calls that wait for one.
 *
 * Invariants
 * - Calls begin in the order of their arrival, except that a statement may share a connection while no call waits.
 * - A call waits for up to half of its deadline, so that the other half is left to run; at most `waitingMax` calls wait.
 * - A connection that closed leaves the pool immediately, with all of its calls.
 */

import type { PendingQuery, Row } from "postgres";
import postgres from "postgres";
import { connectionError } from "./connection-error.ts";
import { createSingleSocket, type OpenSocket } from "./single-socket.ts";
import type { Query, Rows } from "./sql-client.ts";

/** Closes connections of a pool: the idle ones that have received nothing for `silentMs`, or all without it. */
export type DropConnections = (cause: Error, silentMs: number | undefined) => void;

interface PoolOptions extends ConnectionOptions {
  connectionsMax: number;
  waitingMax: number;
  /** From the start of a call, including its wait; 0: none. */
  deadlineMs: number;
  /** Gives each statement a connection to itself. */
  isExclusive: boolean;
  /** Returns how long to wait before the next connection after so many failures. */
  backoffMs(failures: number): number;
  /** Returns how long a connection may be used; the pool then closes it after a call, because the memory of its server process grows. */
  lifetimeMs(): number;
  /** Called when a connection closed because of its server. */
  onFault(cause: Error): void;
}

export interface ConnectionPool {
  /** Runs a statement on a connection that is free, new or shared, in this order. */
  query(query: Query): Promise<Rows>;
  /** Runs `work` on a connection of its own. Rejects as soon as that closes, whatever `work` does. */
  exclusively<Result>(work: (connection: PooledConnection) => Promise<Result>): Promise<Result>;
  /** Returns how many connections are open or being opened. */
  count(): number;
  drop: DropConnections;
  /** Rejects further calls, waits up to `timeoutMs` for those under way, and closes every connection. */
  end(timeoutMs: number): Promise<void>;
}

/** Statements that may share a connection: PostgreSQL runs them one after the other. */
const sharingMax = 100;

/** Creates a pool, which connects when it is first used. */
export const createConnectionPool = (options: PoolOptions): ConnectionPool => {
  /** Open connections, and the time after which each is replaced. */
  const connections = new Map<PooledConnection, number>();
  const waiting: PooledCall[] = [];
  let failures = 0;
  let opensAt = 0;
  let opening: ReturnType<typeof setTimeout> | undefined;
  let expiring: ReturnType<typeof setTimeout> | undefined;
  let onIdle: (() => void) | undefined;

  const open = (): PooledConnection | undefined => {
    const waitMs = failures === 0 ? 0 : opensAt - performance.now();
    if (waitMs > 0) {
      opening ??= setTimeout(() => {
        opening = undefined;
        serveWaiting();
      }, waitMs);
      return undefined;
    }
    const connection = openConnection(options, { closed, faulted: options.onFault });
    connections.set(connection, performance.now() + options.lifetimeMs());
    return connection;
  };
  const closed = (connection: PooledConnection, wasOpening: boolean) => {
    connections.delete(connection);
    if (wasOpening) opensAt = performance.now() + options.backoffMs(++failures);
    queueMicrotask(serveWaiting);
  };

  const find = ({ isExclusive }: PooledCall): PooledConnection | undefined => {
    let shared: PooledConnection | undefined;
    for (const connection of connections.keys()) {
      const load = connection.load();
      if (load === 0) return connection;
      if (!connection.isTaken() && load < (shared?.load() ?? sharingMax)) shared = connection;
    }
    const added = connections.size < options.connectionsMax ? open() : undefined;
    return added ?? (isExclusive ? undefined : shared);
  };
  const submit = (call: PooledCall) => {
    if (onIdle !== undefined) return void call.fail(connectionError("CONNECTION_ENDED"));
    const connection = waiting.length === 0 ? find(call) : undefined;
    if (connection !== undefined) return void connection.accept(call);
    if (waiting.length >= options.waitingMax)
      return void call.fail(connectionError("TOO_MANY_WAITING"));
    waiting.push(call);
    if (call.deadlineAt > 0) expiring ??= setTimeout(expire, options.deadlineMs / 2);
  };
  const expire = () => {
    expiring = undefined;
    const latest = performance.now() + options.deadlineMs / 2 + 1;
    while (waiting[0] && waiting[0].deadlineAt <= latest)
      waiting.shift()?.fail(connectionError("DEADLINE_EXCEEDED"));
    if (waiting[0]) expiring = setTimeout(expire, waiting[0].deadlineAt - latest + 1);
  };
  const serveWaiting = () => {
    while (waiting[0]) {
      const connection = find(waiting[0]);
      if (connection === undefined) return;
      connection.accept(waiting.shift() as PooledCall);
    }
    if (onIdle && [...connections.keys()].every((connection) => connection.load() === 0)) onIdle();
  };
  const finish = (connection: PooledConnection, call: PooledCall) => {
    if (connection.state().is === "open") failures = 0;
    connection.release(call);
    if (connection.load() === 0 && performance.now() >= (connections.get(connection) ?? Infinity))
      void connection.end();
    if (waiting.length > 0 || onIdle !== undefined) serveWaiting();
  };
  const deadline = () => (options.deadlineMs > 0 ? performance.now() + options.deadlineMs : 0);

  const drop: DropConnections = (cause, silentMs) => {
    const isSilent = (connection: PooledConnection) =>
      silentMs === undefined ||
      (connection.load() === 0 && performance.now() - connection.answeredAt() >= silentMs);
    for (const connection of connections.keys()) if (isSilent(connection)) connection.close(cause);
  };
  return {
    query: (query) =>
      new Promise((resolve, reject) => {
        const call: PooledCall = {
          deadlineAt: deadline(),
          isExclusive: options.isExclusive,
          start(connection) {
            connection.send(
              query,
              (rows) => {
                resolve(rows);
                finish(connection, call);
              },
              (error) => {
                reject(error);
                finish(connection, call);
              },
            );
          },
          fail: reject,
        };
        submit(call);
      }),
    exclusively: (work) =>
      new Promise((resolve, reject) => {
        const call: PooledCall = {
          deadlineAt: deadline(),
          isExclusive: true,
          start(connection) {
            work(connection)
              .then(resolve, reject)
              .finally(() => finish(connection, call));
          },
          fail: reject,
        };
        submit(call);
      }),
    count: () => connections.size,
    drop,
    async end(timeoutMs) {
      const { promise: idle, resolve } = Promise.withResolvers<void>();
      onIdle = resolve;
      serveWaiting();
      const timer = setTimeout(resolve, timeoutMs);
      await idle;
      for (const pending of [timer, opening, expiring]) clearTimeout(pending);
      for (const call of waiting.splice(0)) call.fail(connectionError("CONNECTION_ENDED"));
      await Promise.all(
        [...connections.keys()].map((connection) =>
          connection.load() === 0
            ? connection.end()
            : connection.close(connectionError("CONNECTION_ENDED")),
        ),
      );
    },
  };
};

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

/** A state of a connection, with its exits. */
type ConnectionState =
  /** Connects and signs in; postgres.js keeps its statements. Exits: open, by the first answer; closed. */
  | { readonly is: "opening" }
  /** Has answered a statement. Exits: closed. */
  | { readonly is: "open" }
  /** Has no socket, and fails every call. No exit. */
  | { readonly is: "closed"; readonly cause: Error };

/** Work for one connection: a statement or a transaction. */
interface PooledCall {
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
  url: string;
  /** Options of postgres.js. */
  settings: object;
  /** Runs first; empty: nothing. Other statements are sent without waiting for its answer. */
  setup: string;
  /** Absent: as postgres.js does. */
  openSocket?: OpenSocket | undefined;
  /** Whether a server that reports these parameters must not be used. */
  refusesServer(parameters: Readonly<Record<string, string>>): boolean;
  /** Whether a server must not be used after it reported this error. */
  endsWriting(error: ServerError): boolean;
}

/** The events of a connection; `closed` is called once, before its calls fail. */
interface ConnectionEvents {
  closed(connection: PooledConnection, wasOpening: boolean): void;
  /** It closed because of its server, so that other connections may be unusable too. */
  faulted(cause: Error): void;
}

export interface PooledConnection {
  state(): ConnectionState;
  /** Returns the number of its calls. */
  load(): number;
  /** Returns whether it runs a call that needs a connection to itself. */
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
const openConnection = (options: ConnectionOptions, on: ConnectionEvents): PooledConnection => {
  const calls = new Set<PooledCall>();
  const unanswered = new Set<PendingQuery<Row[]>>();
  const parameters: Record<string, string> = {};
  let state: ConnectionState = { is: "opening" };
  let answeredAt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  /** `first` runs before the other calls fail: it rejects the call whose error closes the connection. */
  const close = (cause: Error, first = () => {}) => {
    if (state.is === "closed") return;
    const wasOpening = state.is === "opening";
    state = { is: "closed", cause };
    clearTimeout(timer);
    // Sends no message to the server, which may not read.
    socket?.destroy();
    void client.end({ timeout: 0 });
    on.closed(connection, wasOpening);
    first();
    for (const call of calls) call.fail(cause);
    calls.clear();
  };
  const fault = (cause: Error, first?: () => void) => {
    close(cause, first);
    on.faulted(cause);
  };

  const socket =
    options.openSocket && createSingleSocket(options.openSocket, (cause) => close(cause));
  const client = postgres(options.url, {
    ...options.settings,
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
