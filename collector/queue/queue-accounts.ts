/*
 * The accounts of an open queue. Invariants:
 * - What a transaction of the queue accepts is counted in that transaction: a crash leaves both or neither.
 * - Whatever cannot be written now is written with the next transaction, in its order.
 * - Accounts are sealed in their order, and acknowledged in it.
 * - Accounts that a corrupt database has lost while the queue was open are written to the one that replaces it.
 * - No account of a queue id follows the one that ended it.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../../kit/clock.ts";
import { accountPayload, type SourceRefusal } from "../../proto/completeness/account.ts";
import {
  type AccountContent,
  type AccountSigner,
  encodeAccountBody,
  type RefusedRecords,
  type SealedAccount,
} from "./account.ts";
import { type AccountRow, type AccountTable, missingAccount } from "./account-table.ts";
import {
  addAccepted,
  addRefused,
  beginPeriod,
  closePeriod,
  copyPeriod,
  type LossTotals,
  movePeriod,
  type Period,
  type Reading,
  resumePeriod,
} from "./period.ts";
import type { RecordCount } from "./record.ts";
import type { QueueStore, QueueTransaction } from "./store.ts";

/** The accounts of a queue, for its sources and its forwarder. */
export interface QueueAccounts {
  /** Returns the last sequence of the oldest account that core has not acknowledged; undefined without one. */
  pendingThrough(): number | undefined;
  /** Returns the last sequence of the next unacknowledged account above `sequence`; infinite without one. */
  boundaryAbove(sequence: number): number;
  /** Returns the oldest unacknowledged account; undefined without one, and until it is sealed. */
  next(): SealedAccount | undefined;
  /** Returns the account before `next` that core lacks, as it answers `account` with `through`; undefined if that is not kept, or is `next`. */
  missing(account: SealedAccount, through: number): SealedAccount | undefined;
  /** Core has the oldest unacknowledged account. */
  acknowledged(): void;
  /** Seals what is not sealed, and from now on each account as it is written. An account that cannot be signed waits for the next call. */
  seal(signer: AccountSigner): void;
  /** Notes the time; call it every `observeMs`. */
  observe(): void;
  /** Writes the account of the time until now: the collector stops. */
  stop(): void;
  /** Writes the last account of the queue id, unless records are left; returns whether it did. Nothing may be appended after it. */
  end(): boolean;
  /** Whether the queue id has its last account. */
  hasEnded(): boolean;
  /** Counts records that a source did not accept. */
  refused(reason: SourceRefusal, records: Readonly<RefusedRecords>): void;
  /** Resolves at the next change of what is pending; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
}

/** How the queue keeps its accounts, for its own transactions. */
export interface Bookkeeping {
  /** Runs a transaction of the queue in which the accounts are kept. */
  transaction(change: (transaction: QueueTransaction) => void): void;
  /** In a transaction: records of these counts are stored. */
  accepted(counts: readonly RecordCount[]): void;
  /** In a transaction: records were dropped because of their age. */
  expired(records: number): void;
  /** In a transaction: the queue has another id, under which nothing through `acked` is sent again. */
  renamed(transaction: QueueTransaction, acked: number): void;
  /** Appends wait for room from now on, or no longer. */
  waiting(isWaiting: boolean): void;
  /** The database was replaced. */
  replaced(): void;
}

/** Accounts that core has are kept for one whose database is restored: some weeks of them. */
const keptMax = 1_000;
/** How long an idle queue goes without saving when it last ran. */
const saveMs = 600_000;

/** Creates the accounts of a queue; `write` runs an empty transaction, unless the disk cannot be written. */
export const createQueueAccounts = (
  store: QueueStore,
  clock: Pick<Clock, "now" | "monotonic">,
  { totals, write }: { totals(): LossTotals; write(change: (transaction: QueueTransaction) => void): boolean },
): { accounts: QueueAccounts; books: Bookkeeping } => {
  const read = (): Reading => ({ wallMs: clock.now(), monotonicMs: clock.monotonic() });
  const observedNow = () => ({
    queueId: store.state.queueId.toHex(),
    nextSequence: store.state.nextSequence,
    totals: totals(),
  });
  let last = read();
  /** Accounts that are not on disk yet, oldest first. */
  let unsaved: { queueId: string; content: AccountContent }[] = [];
  let pending: AccountRow[] = [];
  /** The one that the next account follows. */
  let newest: AccountRow | undefined;
  /** The accounts that the corruption of a database has lost, oldest first. */
  let lost: AccountRow[] = [];
  let isStale = true;
  let savedMs = last.monotonicMs;
  /** Whether the period on disk lacks refusals, or the start. */
  let isUnsaved = true;
  let waitingSince: number | undefined;
  let period = begin();
  /** What the transaction that runs adds. */
  let draft = period;
  let drafted = unsaved;
  let waiters: (() => void)[] = [];
  let signer: AccountSigner | undefined;

  function begin(): Period {
    const observed = { ...observedNow(), wallMs: last.wallMs };
    const saved = store.accounts((table) => table.period());
    const resumed = saved && resumePeriod(saved, observed);
    unsaved = resumed?.closed ?? [];
    return resumed?.period ?? beginPeriod(observed);
  }

  const wake = (): void => {
    for (const waiter of waiters.splice(0)) waiter();
  };
  /** Read as soon as they change, to be known if the database turns out to be corrupt; what is committed stays so if they cannot be. */
  const rows = (): AccountRow[] => {
    if (!isStale) return pending;
    const all = store.accounts((table) => table.rows());
    pending = all.filter(({ isAcked }) => !isAcked);
    newest = all.at(-1);
    isStale = false;
    return pending;
  };
  const hasEnded = (): boolean =>
    newest?.content.ended === true && newest.queueId.toHex() === store.state.queueId.toHex();
  /** Moves the period to now, in memory. */
  const move = (): void => {
    if (hasEnded()) return;
    const now = read();
    const { queueId } = period;
    if (waitingSince !== undefined) {
      period.waitedMs += now.monotonicMs - waitingSince;
      waitingSince = now.monotonicMs;
    }
    const moved = movePeriod(period, last, now, observedNow);
    unsaved.push(...moved.closed.map((content) => ({ queueId, content })));
    period = moved.period;
    last = now;
    period.seenMs = now.wallMs;
  };
  /** Writes the account of the time until now; returns false while the disk cannot be written. */
  const close = (isEnd: boolean): boolean => {
    move();
    const { wallMs } = last;
    const observed = { ...observedNow(), wallMs };
    const content = closePeriod(period, wallMs, observed);
    unsaved.push({ queueId: period.queueId, content: isEnd ? { ...content, ended: true } : content });
    period = { ...beginPeriod(observed), isClosed: true };
    return write(() => undefined);
  };
  const save = ({ accounts, state }: QueueTransaction): void => {
    lost.forEach(accounts.insert);
    for (const { queueId, content } of drafted)
      accounts.insert({ queueId: Uint8Array.fromHex(queueId), content, isAcked: false, sealed: undefined });
    // With the transaction: nothing above its last sequence may be sent before an account that can be.
    if ((drafted.length > 0 || draft.queueId !== period.queueId) && signer) sealAll(accounts, signer);
    draft.nextSequence = state.nextSequence;
    accounts.savePeriod(draft);
  };

  const books: Bookkeeping = {
    transaction: (change) => {
      move();
      store.transaction((transaction) => {
        // Again from the start if the database is replaced meanwhile.
        draft = copyPeriod(period);
        drafted = unsaved;
        change(transaction);
        save(transaction);
      });
      period = draft;
      isUnsaved = false;
      savedMs = last.monotonicMs;
      if (unsaved.length === 0 && lost.length === 0) return;
      [unsaved, lost] = [[], []];
      isStale = true;
      attempt(rows);
      wake();
    },
    accepted: (counts) => {
      if (counts.length > 0) draft.isClosed = false;
      addAccepted(draft, counts);
    },
    expired: (records) => {
      draft.expired += records;
    },
    renamed: ({ accounts, state }, acked) => {
      const renamed = (content: AccountContent): AccountContent =>
        acked < content.firstSequence ? content : { ...content, ackedBeforeThrough: acked };
      const isLast = newest?.content.ended && newest.queueId.toHex() === draft.queueId;
      for (const { id, queueId, content, isAcked } of accounts.rows())
        if (!isLast && !isAcked && queueId.toHex() === draft.queueId)
          accounts.unseal(id, state.queueId, renamed(content));
      const queueId = state.queueId.toHex();
      drafted = unsaved.map(({ content }) => ({ queueId, content: renamed(content) }));
      Object.assign(draft, { queueId, ackedBeforeThrough: acked });
      isStale = true;
    },
    waiting: (isWaiting) => {
      const now = clock.monotonic();
      if (waitingSince !== undefined) period.waitedMs += now - waitingSince;
      waitingSince = isWaiting ? now : undefined;
    },
    replaced: () => {
      const found = store.accounts((table) => table.rows()).map(nameOf);
      const known = newest?.isAcked ? [newest] : pending;
      lost = known.filter((row) => !found.includes(nameOf(row)));
      isStale = true;
    },
  };

  const accounts: QueueAccounts = {
    pendingThrough: () => rows()[0]?.content.lastSequence,
    boundaryAbove: (sequence) =>
      rows().find(({ content }) => content.lastSequence > sequence)?.content.lastSequence ?? Number.POSITIVE_INFINITY,
    next: () => rows()[0]?.sealed,
    missing: (account, through) => {
      const dueId = rows()[0]?.id ?? 0;
      const all = store.accounts((table) => table.rows().filter(({ id }) => id <= dueId));
      return missingAccount(all, account, through);
    },
    acknowledged: () => {
      const [oldest] = rows();
      if (oldest === undefined) return;
      pending = pending.slice(1);
      if (write((transaction) => transaction.accounts.acknowledge(oldest.id, keptMax))) isStale = true;
      wake();
    },
    seal: (by) => {
      signer = by;
      if (unsaved.length > 0) write(() => undefined);
      if (rows().every(({ sealed }) => sealed !== undefined)) return;
      write((transaction) => sealAll(transaction.accounts, by));
      isStale = true;
      rows();
      wake();
    },
    observe: () => {
      move();
      if (unsaved.length > 0 || isUnsaved || last.monotonicMs - savedMs >= saveMs) write(() => undefined);
    },
    stop: () => {
      if (!period.isClosed) close(false);
    },
    end: () => store.state.records === 0 && close(true),
    hasEnded,
    refused: (reason, refused) => {
      if (refused.records === 0) return;
      period.isClosed = false;
      isUnsaved = true;
      addRefused(period, reason, refused);
    },
    changed: async (signal) => {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const abort = () => {
        waiters = waiters.filter((waiter) => waiter !== resolve);
        reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      waiters.push(resolve);
      await promise;
      signal.removeEventListener("abort", abort);
    },
  };
  attempt(rows);
  return { accounts, books };
};

/** Names an account among those of all queue ids, whatever row it has. */
const nameOf = ({ queueId, content }: AccountRow): string => `${queueId.toHex()} ${JSON.stringify(content)}`;

/** A key that does not sign must not keep the queue from storing. */
const attempt = <Result>(act: () => Result): Result | undefined => {
  try {
    return act();
  } catch {
    return undefined;
  }
};

const sealAll = (table: AccountTable, { hostId, certificateSha256, sign }: AccountSigner): void => {
  let before: { queueId: Uint8Array; sealed: SealedAccount } | undefined;
  for (const { id, queueId, content, sealed } of table.rows()) {
    if (sealed !== undefined) {
      before = { queueId, sealed };
      continue;
    }
    const isSameQueue = before?.queueId.toHex() === queueId.toHex();
    const number = isSameQueue ? (before?.sealed.number ?? 0) + 1 : 1;
    const previousSha256 = before
      ? createHash("sha256").update(accountPayload(before.sealed.body)).digest()
      : new Uint8Array();
    const previousQueueId = isSameQueue || before === undefined ? new Uint8Array() : before.queueId;
    const place = { hostId, queueId, number, previousSha256, previousQueueId, certificateSha256 };
    const body = encodeAccountBody(content, place);
    const signature = attempt(() => sign(accountPayload(body)));
    if (signature === undefined) return;
    const made = { number, lastSequence: content.lastSequence, body, signature };
    table.seal(id, made);
    before = { queueId, sealed: made };
  }
};
