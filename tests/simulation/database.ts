/**
 * PostgreSQL as ingest relies on it: a model of its transactions, row locks and order of commits, which models.test.ts holds to the
 * real server. Invariants of the model, as of the server:
 * - What a transaction writes is seen by others once it has committed, all at once; a connection that ends before takes it back.
 * - A row is locked by one transaction until it ends; who waits longer than its `lock_timeout` fails with 55P03.
 * - A transaction has an id from its first write on, and ids rise. A snapshot knows the oldest that has not ended.
 * - A server that is restored, or a standby that is promoted, goes on after the last commit that it has: it gives the same ids anew.
 */
import {
  copyTables,
  type EnvelopeKey,
  emptyTables,
  type StoredEnvelope,
  type Tables,
} from "./tables.ts";
import type { Process, World } from "./world.ts";

/** How the server differs from a real one: a planted fault. */
export interface ServerFault {
  ignoresExpectedCursors?: boolean;
  keepsCursors?: boolean;
  /** What is rejected is not counted for an account. */
  forgetsRejections?: boolean;
  /** An account has no transaction id. */
  forgetsAccountXid?: boolean;
  /** An account does not take its counts off those of its queue. */
  keepsRanges?: boolean;
  grantsEveryLock?: boolean;
  /** A snapshot does not know of transactions that have not ended. */
  forgetsOpenTransactions?: boolean;
  /** A restore leaves no trace in what the server says of itself. */
  keepsIdentity?: boolean;
  /** Nor does it end the connections of those that read. */
  keepsReaders?: boolean;
  /** A write does not wait for the commit of its transaction. */
  writesAtOnce?: boolean;
  /** A transaction whose client has gone keeps its locks. */
  keepsLocks?: boolean;
  /** A queue that had ended stays so. */
  keepsEnds?: boolean;
  /** Of blocks that are copied together, a last one that its sender did not compress is not stored. */
  dropsSmallBlocks?: boolean;
  /** The name of an object stays as it was drawn when its blocks are stored. */
  consumesNothing?: boolean;
  /** A name is taken for valid whatever became of it. */
  consumesAnything?: boolean;
  /** Objects that rows name, or may name, are taken for garbage. */
  sweeps?: "stored" | "drawn";
  /** The sequence of objects begins anew with each draw. */
  drawsAgain?: boolean;
  /** No object has ever waited for a day. */
  forgetsDays?: boolean;
}

/** A transaction. */
export interface Transaction {
  xid: number | undefined;
  /** The start of the server that it is of: none outlives it, also when its client has gone. */
  readonly start: number;
  readonly held: Set<string>;
  readonly writes: ((tables: Tables, xid: number) => void)[];
  lockTimeoutMs: number;
}

/** The server. */
export interface DatabaseServer {
  readonly process: Process;
  /** What has committed. */
  readonly tables: Tables;
  /** What was written to the bucket, by name: the model reads the envelopes of rows there. */
  readonly bucket: Pick<ReadonlyMap<string, Uint8Array>, "get" | "has">;
  /** Milliseconds since 1970, by the server's clock. */
  now(): number;
  /** When it was started, and the timeline that it is on. */
  readonly identity: { startedAt: string; timeline: number };
  /** The oldest id of a transaction that has not ended, and the one after the last that has. */
  snapshot(): { xmin: number; xmax: number };
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
  /** Goes back to a backup; to one of a standby that is promoted, on another timeline. */
  restore(tables: Tables, options?: { isPromotion: boolean }): void;
  /** What it had when it went back, each time. */
  readonly discarded: readonly StoredEnvelope[];
  /** Why it failed statements that the model does not know. */
  readonly unknown: Set<string>;
  /** How often it was restored: what core's check of its lineage finds. */
  restores(): number;
  /** Notes that a core has noticed a restore, unless another one has, or it cannot be told from no restore. */
  noticeRestore(now: number): void;
  /** Refuses connections until then. */
  refuseUntil(ms: number): void;
  /** Until then some connections end after a commit, before its answer. */
  loseAnswersUntil(ms: number): void;
  /** Reports whether the answer to a commit is lost now. */
  losesAnswer(): boolean;
  /** Until then an older core stores, which counts nothing for accounts. */
  countNothingUntil(ms: number): void;
  /** Reports whether one stores now, and whether one ever has. */
  countsNothing(): boolean;
  hasUncounted(): boolean;
}

/** An error as the server reports it. */
export const serverError = (code: string, message: string): Error =>
  Object.assign(new Error(message), { code, severity: "ERROR" });

const noBucket: DatabaseServer["bucket"] = new Map();

/** Creates a server. */
export const createDatabaseServer = (
  world: World,
  fault: ServerFault = {},
  bucket: DatabaseServer["bucket"] = noBucket,
): DatabaseServer => {
  const process = world.process("database");
  let tables = emptyTables();
  let nextXid = 1;
  let lastEnded = 0;
  const active = new Set<number>();
  let identity = { startedAt: "0", timeline: 1 };
  let refusedUntil = 0;
  let losingUntil = 0;
  let uncountedUntil = 0;
  const discarded: StoredEnvelope[] = [];
  let restores = 0;
  /** Whether a core can tell: not of a standby that was promoted while it ran, nor of files that were copied back. */
  let isTold = false;
  let starts = 0;
  const connections = new Set<() => void>();
  const owners = new Map<string, Transaction>();
  const waiting = new Map<
    string,
    { transaction: Transaction; grant(): void; fail(error: Error): void }[]
  >();

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
  const end = ({ xid, start }: Transaction): void => {
    if (start === starts && xid !== undefined && active.delete(xid))
      lastEnded = Math.max(lastEnded, xid);
  };
  const abandon = (transaction: Transaction): void => {
    end(transaction);
    for (const [row, queue] of waiting)
      waiting.set(
        row,
        queue.filter((waiter) => waiter.transaction !== transaction),
      );
    transaction.writes.length = 0;
    if (!fault.keepsLocks) release(transaction);
  };
  const disconnectAll = (): void => {
    for (const lose of [...connections]) lose();
    connections.clear();
    starts += 1;
    lastEnded = Math.max(lastEnded, ...active);
    active.clear();
    if (!fault.keepsIdentity) identity = { ...identity, startedAt: String(world.now()) };
  };

  return {
    process,
    fault,
    bucket,
    get tables() {
      return tables;
    },
    now: () => world.clockOf(process).now(),
    get identity() {
      return identity;
    },
    snapshot: () => {
      const open = fault.forgetsOpenTransactions ? [] : active;
      return { xmin: Math.min(lastEnded + 1, ...open), xmax: lastEnded + 1 };
    },
    begin: () => ({
      xid: undefined,
      start: starts,
      held: new Set(),
      writes: [],
      lockTimeoutMs: 5_000,
    }),
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
      if (transaction.start !== starts) return;
      if (transaction.xid === undefined) {
        transaction.xid = nextXid++;
        active.add(transaction.xid);
      }
      if (fault.writesAtOnce) change(tables, transaction.xid);
      else transaction.writes.push(change);
    },
    commit: (transaction) => {
      if (transaction.start !== starts) return abandon(transaction);
      for (const change of transaction.writes) change(tables, transaction.xid ?? 0);
      tables.lastXid = Math.max(tables.lastXid, transaction.xid ?? 0);
      transaction.writes.length = 0;
      end(transaction);
      release(transaction);
    },
    rollback: abandon,
    connect: (onLost) => {
      if (world.now() < refusedUntil)
        throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      connections.add(onLost);
      return () => void connections.delete(onLost);
    },
    restart: disconnectAll,
    backUp: () => copyTables(tables),
    restore: (backup, { isPromotion } = { isPromotion: false }) => {
      disconnectAll();
      discarded.push(...tables.envelopes);
      tables = copyTables(backup);
      lastEnded = tables.lastXid;
      nextXid = lastEnded + 1;
      isTold = !isPromotion && (bucket === noBucket || world.chance.isLikely(0.5));
      if (isPromotion && !fault.keepsIdentity)
        identity = { ...identity, timeline: identity.timeline + 1 };
      restores += 1;
    },
    discarded,
    unknown: new Set(),
    restores: () => restores,
    noticeRestore: (now) => {
      if (isTold && tables.restored.count < restores)
        tables.restored = { at: now, count: restores };
    },
    refuseUntil: (ms) => {
      refusedUntil = ms;
    },
    loseAnswersUntil: (ms) => {
      losingUntil = ms;
    },
    losesAnswer: () => world.now() < losingUntil && world.chance.isLikely(0.3),
    countNothingUntil: (ms) => {
      uncountedUntil = ms;
    },
    countsNothing: () => world.now() < uncountedUntil,
    hasUncounted: () => uncountedUntil > 0,
  };
};

/** The key of a queue's row. */
export const queueRow = ({ hostId, queueHex }: Pick<EnvelopeKey, "hostId" | "queueHex">): string =>
  `${hostId}\0${queueHex}`;
