/*
 * The accounts of an open queue. Invariants:
 * - What a transaction of the queue accepts is counted in that transaction: a crash leaves both or neither.
 * - Whatever cannot be written now is written with the next transaction, in its order.
 * - Accounts are sealed in their order, and acknowledged in it.
 * - Accounts that a corrupt database has lost while the queue was open are written to the one that replaces it.
 * - No account of a queue id follows the one that ended it.
 */
import { type Clock, minuteMs } from "#kit/clock.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { RefusedRecords } from "./account-content.ts";
import { type AccountRow, missingAccount } from "./account-table.ts";
import {
  type AccountEvent,
  account,
  ackedBefore,
  type LossTotals,
  type Observation,
  resumeAccounts,
} from "./period.ts";
import { type AccountSigner, type SealedAccount, sealAccounts } from "./seal-accounts.ts";
import type { QueueStore, QueueTransaction } from "./store.ts";
import { createRecordWaiters } from "./waiters.ts";

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
  /** Reports whether the queue id has its last account. */
  hasEnded(): boolean;
  /** Counts records that a source did not accept. */
  refused(reason: SourceRefusal, records: Readonly<RefusedRecords>): void;
  /** Resolves at the next change of what is pending; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
}

/** The calls of a queue to its accounts. */
export interface AccountHooks {
  /** Runs a transaction of the queue in which the accounts are written. */
  transaction(change: (transaction: QueueTransaction) => void): void;
  /** In a transaction, records were stored or have expired, or appends wait for room. */
  apply(event: AccountEvent): void;
  /** In a transaction: the queue has another id, under which nothing through `acked` is sent again. */
  renamed(transaction: QueueTransaction, acked: number): void;
  /** The database was replaced. */
  replaced(): void;
}

/** Accounts that core has are kept for one whose database is restored: some weeks of them. */
const keptMax = 1_000;
/** How long an idle queue goes without saving when it last ran. */
const saveMs = 10 * minuteMs;

/** Creates the accounts of a queue; `write` runs a transaction of it, unless the disk cannot be written. */
export const createQueueAccounts = (
  store: QueueStore,
  clock: Pick<Clock, "now" | "monotonic">,
  {
    totals,
    write,
  }: { totals(): LossTotals; write(change: (transaction: QueueTransaction) => void): boolean },
): { accounts: QueueAccounts; hooks: AccountHooks } => {
  const observe = (): Observation => ({
    queueId: store.state.queueId.toHex(),
    nextSequence: store.state.nextSequence,
    // Where an account needs them.
    get totals() {
      return totals();
    },
    wallMs: clock.now(),
    monotonicMs: clock.monotonic(),
  });
  const onDisk = createSavedAccounts(store);
  let state = resumeAccounts(
    store.accounts((table) => table.period()),
    observe(),
  );
  const waiters = createRecordWaiters();
  let signer: AccountSigner | undefined;

  const apply = (event: AccountEvent) => {
    state = account(state, event);
  };
  const wake = () => waiters.notify(1);
  const endedQueue = (): string | undefined => {
    const newest = onDisk.newest();
    return newest?.content.ended ? newest.queueId.toHex() : undefined;
  };
  const hasEnded = () => endedQueue() === store.state.queueId.toHex();
  const observeNow = () => {
    if (!hasEnded()) apply({ type: "observed", now: observe() });
  };
  /** Writes the account of the time until now; returns false while the disk cannot be written. */
  const close = (isEnd: boolean) => {
    observeNow();
    apply({ type: "stopped", isEnd, now: { ...observe(), wallMs: state.last.wallMs } });
    return write(() => undefined);
  };
  const save = ({ accounts, state: queue }: QueueTransaction, isRenamed: boolean) => {
    onDisk.lost().forEach(accounts.insert);
    for (const { queueId, content } of state.unsaved)
      accounts.insert({
        queueId: Uint8Array.fromHex(queueId),
        content,
        isAcked: false,
        sealed: undefined,
      });
    // With the transaction: nothing above its last sequence may be sent before an account that can be.
    if ((state.unsaved.length > 0 || isRenamed) && signer) sealAccounts(accounts, signer);
    accounts.savePeriod({ ...state.period, nextSequence: queue.nextSequence });
  };

  const hooks: AccountHooks = {
    transaction: (change) => {
      observeNow();
      const before = state;
      try {
        store.transaction((transaction) => {
          // Again from the start if the database is replaced meanwhile.
          state = before;
          change(transaction);
          save(transaction, state.period.queueId !== before.period.queueId);
        });
      } catch (error) {
        state = before;
        throw error;
      }
      const isChanged = state.unsaved.length > 0 || onDisk.lost().length > 0;
      apply({ type: "saved" });
      if (!isChanged) return;
      onDisk.saved();
      wake();
    },
    apply,
    renamed: ({ accounts, state: queue }, acked) => {
      const before = state.period.queueId;
      // Those of a queue that has ended stay its own.
      const rows = endedQueue() === before ? [] : accounts.rows();
      for (const { id, queueId, content, isAcked } of rows)
        if (!isAcked && queueId.toHex() === before)
          accounts.unseal(id, queue.queueId, ackedBefore(content, acked));
      apply({ type: "renamed", queueId: queue.queueId.toHex(), acked });
      onDisk.changed();
    },
    replaced: onDisk.replaced,
  };

  const accounts: QueueAccounts = {
    pendingThrough: () => onDisk.pending()[0]?.content.lastSequence,
    boundaryAbove: (sequence) =>
      onDisk.pending().find(({ content }) => content.lastSequence > sequence)?.content
        .lastSequence ?? Number.POSITIVE_INFINITY,
    next: () => onDisk.pending()[0]?.sealed,
    missing: (account, through) => {
      const dueId = onDisk.pending()[0]?.id ?? 0;
      const all = store.accounts((table) => table.rows().filter(({ id }) => id <= dueId));
      return missingAccount(all, account, through);
    },
    acknowledged: () => {
      const oldest = onDisk.takeOldest();
      if (oldest === undefined) return;
      if (write((transaction) => transaction.accounts.acknowledge(oldest.id, keptMax)))
        onDisk.changed();
      wake();
    },
    seal: (by) => {
      signer = by;
      if (state.unsaved.length > 0) write(() => undefined);
      if (onDisk.pending().every(({ sealed }) => sealed !== undefined)) return;
      write((transaction) => sealAccounts(transaction.accounts, by));
      onDisk.changed();
      onDisk.pending();
      wake();
    },
    observe: () => {
      observeNow();
      if (state.unsaved.length > 0 || state.last.monotonicMs - state.savedMs >= saveMs)
        write(() => undefined);
    },
    stop: () => {
      if (!state.period.isClosed) close(false);
    },
    end: () => store.state.records === 0 && close(true),
    hasEnded,
    refused: (reason, refused) => {
      if (refused.records === 0) return;
      // The machine may have slept since the last observation, or an hour may have ended.
      observeNow();
      apply({ type: "refused", reason, ...refused });
    },
    changed: (signal) => waiters.wait(0, signal),
  };
  return { accounts, hooks };
};

/** The accounts on disk. They are read as soon as they change, to be known if the database turns out to be corrupt. */
const createSavedAccounts = (store: Pick<QueueStore, "accounts">) => {
  let known: { pending: readonly AccountRow[]; newest: AccountRow | undefined } = {
    pending: [],
    newest: undefined,
  };
  let isStale = true;
  /** Those that the corruption of a database has lost, oldest first. */
  let lost: readonly AccountRow[] = [];
  const pending = (): readonly AccountRow[] => {
    if (isStale) {
      const all = store.accounts((table) => table.rows());
      known = { pending: all.filter(({ isAcked }) => !isAcked), newest: all.at(-1) };
      isStale = false;
    }
    return known.pending;
  };
  /** Reads the accounts, unless the database cannot be read now. */
  const read = () => {
    try {
      pending();
    } catch {
      // The next call reads them, and throws.
    }
  };
  read();
  return {
    pending,
    /** Returns the one that the next account follows. */
    newest: () => known.newest,
    lost: () => lost,
    changed: () => {
      isStale = true;
    },
    /** All that was unsaved or lost is on disk now. */
    saved: () => {
      lost = [];
      isStale = true;
      read();
    },
    takeOldest: (): AccountRow | undefined => {
      const [oldest, ...others] = pending();
      known = { ...known, pending: others };
      return oldest;
    },
    replaced: () => {
      const found = store.accounts((table) => table.rows()).map(nameOf);
      const before = known.newest?.isAcked ? [known.newest] : known.pending;
      lost = before.filter((row) => !found.includes(nameOf(row)));
      isStale = true;
    },
  };
};

/** Names an account among those of all queue ids, whatever row it has. */
const nameOf = ({ queueId, content }: AccountRow) =>
  `${queueId.toHex()} ${JSON.stringify(content)}`;
