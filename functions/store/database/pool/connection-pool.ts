/**
 * The connections of one pool, and the calls that wait for one.
 *
 * Invariants
 * - Calls begin in the order of their arrival, except that a statement may share a connection while no call waits.
 * - A call waits for up to half of its deadline, so that the other half is left to run; at most `waitingMax` calls wait.
 * - A connection that closed leaves the pool immediately, with all of its calls.
 * - A refused login fails no call while another connection is open: the call waits for that one.
 */

import { connectionError } from "./connection-error.ts";
import { loginRefusalOf } from "./login-refusal.ts";
import {
  type ConnectionOptions,
  openConnection,
  type PooledCall,
  type PooledConnection,
} from "./pooled-connection.ts";
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
  /** Called when the login of a new connection was refused. */
  onRefusal(): void;
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

/** Reports whether the server refused the login of a connection, which then has run nothing. */
const isRefused = (connection: PooledConnection) => {
  const state = connection.state();
  return state.is === "closed" && loginRefusalOf(state.cause) !== undefined;
};

/** The wait before the next connection after a refused login: the server logs each, and a new password takes a moment to arrive. */
const refusedMs = 500;

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
  const isEnding = () => onIdle !== undefined;

  const open = (): PooledConnection | undefined => {
    const waitMs = opensAt - performance.now();
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
    if (wasOpening) {
      const isKnown = isRefused(connection);
      opensAt = performance.now() + (isKnown ? refusedMs : options.backoffMs(++failures));
      if (isKnown) options.onRefusal();
    }
    queueMicrotask(serveWaiting);
  };

  const findOrOpen = ({ isExclusive }: PooledCall): PooledConnection | undefined => {
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
    if (isEnding()) return void call.fail(connectionError("CONNECTION_ENDED"));
    const connection = waiting.length === 0 ? findOrOpen(call) : undefined;
    if (connection !== undefined) return void connection.accept(call);
    if (waiting.length >= options.waitingMax)
      return void call.fail(connectionError("TOO_MANY_WAITING"));
    waiting.push(call);
    watchWaiting(call);
  };
  const watchWaiting = ({ deadlineAt }: PooledCall) => {
    if (deadlineAt > 0) expiring ??= setTimeout(expire, options.deadlineMs / 2);
  };
  const expire = () => {
    expiring = undefined;
    // A timer may fire up to 1 ms early.
    const latest = performance.now() + options.deadlineMs / 2 + 1;
    while (waiting[0] && waiting[0].deadlineAt <= latest)
      waiting.shift()?.fail(connectionError("DEADLINE_EXCEEDED"));
    if (waiting[0]) expiring = setTimeout(expire, waiting[0].deadlineAt - latest + 1);
  };
  const serveWaiting = () => {
    for (let call = waiting[0]; call !== undefined; call = waiting[0]) {
      const connection = findOrOpen(call);
      if (connection === undefined) return;
      waiting.shift();
      connection.accept(call);
    }
    if (onIdle && [...connections.keys()].every((connection) => connection.load() === 0)) onIdle();
  };
  const finish = (connection: PooledConnection, call: PooledCall) => {
    if (connection.state().is === "open") failures = 0;
    connection.release(call);
    if (connection.load() === 0 && performance.now() >= (connections.get(connection) ?? Infinity))
      void connection.end();
    if (waiting.length > 0 || isEnding()) serveWaiting();
  };
  /** Submits a call, which ends once `run` has called `resolve` or `reject`. */
  const runCall = <Result>(
    isExclusive: boolean,
    run: (
      connection: PooledConnection,
      resolve: (result: Result) => void,
      reject: (error: Error) => void,
    ) => void,
  ): Promise<Result> =>
    new Promise((resolve, reject) => {
      let runsOn: PooledConnection | undefined;
      const call: PooledCall = {
        deadlineAt: options.deadlineMs > 0 ? performance.now() + options.deadlineMs : 0,
        isExclusive,
        start(connection) {
          runsOn = connection;
          run(
            connection,
            (result) => {
              resolve(result);
              finish(connection, call);
            },
            (error) => {
              if (runsOn === connection) call.fail(error);
              finish(connection, call);
            },
          );
        },
        fail(cause) {
          const isRepeated = runsOn !== undefined && isRefused(runsOn) && hasOpen();
          runsOn = undefined;
          if (!isRepeated) return void reject(cause);
          waiting.unshift(call);
          watchWaiting(call);
        },
      };
      submit(call);
    });

  const hasOpen = () => connections.keys().some((connection) => connection.state().is === "open");

  const drop: DropConnections = (cause, silentMs) => {
    const isSilent = (connection: PooledConnection) =>
      silentMs === undefined ||
      (connection.load() === 0 && performance.now() - connection.answeredAt() >= silentMs);
    for (const connection of connections.keys()) if (isSilent(connection)) connection.close(cause);
  };
  return {
    query: (query) =>
      runCall(options.isExclusive, (connection, resolve, reject) =>
        connection.send(query, resolve, reject),
      ),
    exclusively: (work) =>
      runCall(true, (connection, resolve, reject) => void work(connection).then(resolve, reject)),
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
