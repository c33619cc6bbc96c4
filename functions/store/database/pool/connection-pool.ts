/**
 * The connections of one pool, and the calls that wait for one.
 *
 * Invariants
 * - Calls begin in the order in which they came, except that a statement may share a connection while none waits.
 * - A call waits up to half of its deadline, which leaves it the other half to run; at most `waitingMax` calls wait.
 * - A connection that closed leaves the pool at once, with all of its calls.
 */
import {
  type ConnectionOptions,
  openConnection,
  type PooledCall,
  type PooledConnection,
} from "./connection.ts";
import { connectionError } from "./connection-error.ts";
import type { Query, Rows } from "./statement.ts";

/** Closes connections of a pool: the idle ones from which nothing has come for `silentMs`, or without it all. */
export type DropConnections = (cause: Error, silentMs: number | undefined) => void;

export interface PoolOptions extends ConnectionOptions {
  connectionsMax: number;
  waitingMax: number;
  /** From a call's beginning, its wait included; 0: none. */
  deadlineMs: number;
  /** Gives each statement a connection to itself. */
  isExclusive: boolean;
  /** Returns how long to wait before the next connection, after some that could not be opened. */
  backoffMs(failures: number): number;
  /** Returns how long a connection is used; it is then closed after a call, since the memory of its server process grows. */
  lifetimeMs(): number;
  /** A connection closed because of its server. */
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
  /** Accepts no more calls, waits up to `timeoutMs` for those that it has, and closes every connection. */
  end(timeoutMs: number): Promise<void>;
}

/** Statements that share a connection: PostgreSQL runs them one after the other. */
const sharingMax = 100;

/** Creates a pool, which connects when it is used. */
export const createConnectionPool = (options: PoolOptions): ConnectionPool => {
  /** The connections that are not closed, and when each has been used for long enough. */
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
  const closed = (connection: PooledConnection, wasOpening: boolean): void => {
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
  const submit = (call: PooledCall): void => {
    if (onIdle !== undefined) return void call.fail(connectionError("CONNECTION_ENDED"));
    const connection = waiting.length === 0 ? find(call) : undefined;
    if (connection !== undefined) return void connection.accept(call);
    if (waiting.length >= options.waitingMax)
      return void call.fail(connectionError("TOO_MANY_WAITING"));
    waiting.push(call);
    if (call.deadlineAt > 0) expiring ??= setTimeout(expire, options.deadlineMs / 2);
  };
  const expire = (): void => {
    expiring = undefined;
    const latest = performance.now() + options.deadlineMs / 2 + 1;
    while (waiting[0] && waiting[0].deadlineAt <= latest)
      waiting.shift()?.fail(connectionError("DEADLINE_EXCEEDED"));
    if (waiting[0]) expiring = setTimeout(expire, waiting[0].deadlineAt - latest + 1);
  };
  const serveWaiting = (): void => {
    while (waiting[0]) {
      const connection = find(waiting[0]);
      if (connection === undefined) return;
      connection.accept(waiting.shift() as PooledCall);
    }
    if (onIdle && [...connections.keys()].every((connection) => connection.load() === 0)) onIdle();
  };
  const finish = (connection: PooledConnection, call: PooledCall): void => {
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
