/**
 * PostgreSQL as ingest relies on it: a model of its transactions, row locks and order of commits, which models.test.ts holds to the
 * real server. Invariants of the model, as of the server:
 * - What a transaction writes is seen by others once it has committed, all at once; a connection that ends before takes it back.
 * - A row is locked by one transaction until it ends; who waits longer than its `lock_timeout` fails with 55P03.
 * - A transaction has an id from its first write on, and ids rise.
 */
import { type EnvelopeKey, emptyTables, type Tables } from "./tables.ts";
import type { Process, World } from "./world.ts";

/** How the server differs from a real one: a planted fault. */
export interface ServerFault {
  ignoresExpectedCursors?: boolean;
  keepsCursors?: boolean;
  grantsEveryLock?: boolean;
}

/** A transaction. */
export interface Transaction {
  xid: number | undefined;
  readonly held: Set<string>;
  readonly writes: ((tables: Tables, xid: number) => void)[];
  lockTimeoutMs: number;
}

/** The server. */
export interface DatabaseServer {
  readonly process: Process;
  /** What has committed. */
  readonly tables: Tables;
  readonly fault: ServerFault;
  begin(): Transaction;
  /** Resolves once the row is locked; rejects with 55P03. */
  lock(transaction: Transaction, row: string): Promise<void>;
  /** Plans a write for the commit. */
  write(transaction: Transaction, change: (tables: Tables, xid: number) => void): void;
  commit(transaction: Transaction): void;
  rollback(transaction: Transaction): void;
  /** Throws if a client cannot connect now. Calls `onLost` when the connection is lost. */
  connect(onLost: () => void): () => void;
  /** Ends all connections and rolls back what they had begun. */
  restart(): void;
  /** Keeps what is committed now, to restore it later. */
  backUp(): Tables;
  /** Goes back to a backup, or to a standby that lagged. */
  restore(tables: Tables): void;
  /** How often it was restored: what core's check of its lineage finds. */
  restores(): number;
  /** Refuses connections until then. */
  refuseUntil(ms: number): void;
}

/** An error as the server reports it. */
export const serverError = (code: string, message: string): Error =>
  Object.assign(new Error(message), { code, severity: "ERROR" });

/** Makes a server. */
export const createDatabaseServer = (world: World, fault: ServerFault = {}): DatabaseServer => {
  const process = world.process("database");
  let tables = emptyTables();
  let nextXid = 1;
  let refusedUntil = 0;
  let restores = 0;
  const connections = new Set<() => void>();
  const owners = new Map<string, Transaction>();
  const waiting = new Map<string, { transaction: Transaction; grant(): void; fail(error: Error): void }[]>();

  const grantNext = (row: string): void => {
    const [next] = waiting.get(row)?.splice(0, 1) ?? [];
    if (next === undefined) return;
    owners.set(row, next.transaction);
    next.transaction.held.add(row);
    next.grant();
  };
  const release = (transaction: Transaction): void => {
    for (const row of transaction.held) {
      owners.delete(row);
      grantNext(row);
    }
    transaction.held.clear();
  };
  const abandon = (transaction: Transaction): void => {
    for (const [row, queue] of waiting)
      waiting.set(
        row,
        queue.filter((waiter) => waiter.transaction !== transaction),
      );
    transaction.writes.length = 0;
    release(transaction);
  };
  const disconnectAll = (): void => {
    for (const lose of [...connections]) lose();
    connections.clear();
  };

  return {
    process,
    fault,
    get tables() {
      return tables;
    },
    begin: () => ({ xid: undefined, held: new Set(), writes: [], lockTimeoutMs: 5_000 }),
    lock: (transaction, row) => {
      const owner = owners.get(row);
      if (fault.grantsEveryLock || owner === transaction) return Promise.resolve();
      if (owner === undefined) {
        owners.set(row, transaction);
        transaction.held.add(row);
        return Promise.resolve();
      }
      return new Promise((resolve, reject) => {
        const queue = waiting.get(row) ?? [];
        waiting.set(row, queue);
        const waiter = { transaction, grant: resolve, fail: reject };
        queue.push(waiter);
        world.as(process, () =>
          world.after(transaction.lockTimeoutMs, () => {
            const at = waiting.get(row)?.indexOf(waiter) ?? -1;
            if (at < 0) return;
            waiting.get(row)?.splice(at, 1);
            reject(serverError("55P03", "canceling statement due to lock timeout"));
          }),
        );
      });
    },
    write: (transaction, change) => {
      transaction.xid ??= nextXid++;
      transaction.writes.push(change);
    },
    commit: (transaction) => {
      for (const change of transaction.writes) change(tables, transaction.xid ?? 0);
      transaction.writes.length = 0;
      release(transaction);
    },
    rollback: abandon,
    connect: (onLost) => {
      if (world.now() < refusedUntil) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      connections.add(onLost);
      return () => void connections.delete(onLost);
    },
    restart: disconnectAll,
    backUp: () => structuredClone(tables),
    restore: (backup) => {
      disconnectAll();
      tables = structuredClone(backup);
      restores += 1;
    },
    restores: () => restores,
    refuseUntil: (ms) => {
      refusedUntil = ms;
    },
  };
};

/** The key of a queue's row. */
export const queueRow = ({ hostId, queueHex }: Pick<EnvelopeKey, "hostId" | "queueHex">): string =>
  `${hostId}\0${queueHex}`;
