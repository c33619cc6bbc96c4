/**
 * A host's disk as the queue needs it: a model of `QueueStore` (collector/queue/store.ts), which models.test.ts holds to the real one.
 * What a transaction has written is in memory until it is synced; a power cut takes the rest back. An image of the disk can be kept
 * and put back, here or in another host.
 */

import type { AccountContent } from "#collector/queue/account-content.ts";
import type { AccountRow, AccountTable } from "#collector/queue/account-table.ts";
import {
  type Block,
  type BlockRecord,
  createBlockMemory,
  joinBlock,
  recordsOf,
} from "#collector/queue/block.ts";
import { createBlockReader } from "#collector/queue/block-table.ts";
import { newOrigin, type QueueState } from "#collector/queue/format.ts";
import type { Checkpoint } from "#collector/queue/record.ts";
import type { QueueStore, QueueTransaction } from "#collector/queue/store.ts";
import type { Entropy } from "#kit/entropy.ts";
import {
  continuePast,
  createLedger,
  type DiskLoss,
  emptyPast,
  type Ledger,
  type PastRecord,
  pastRecordOf,
  type QueuePast,
} from "./queue-past.ts";

interface Row {
  readonly first: number;
  readonly last: number;
  readonly bytes: number;
  readonly ageMs: number;
  readonly block: Block;
}

/** A dead letter. */
export interface DeadLetter {
  readonly sequence: number;
  readonly queueId: string;
  readonly code: string;
}

/** Everything on a disk. Immutable. */
export interface DiskImage {
  readonly state: Readonly<QueueState>;
  readonly rows: readonly Row[];
  readonly deadLetters: readonly DeadLetter[];
  readonly checkpoints: readonly Checkpoint[];
  readonly accounts: readonly AccountRow[];
  readonly period: string | undefined;
  readonly past: QueuePast;
}

/** The files of a queue that is the product's own (file-disk.ts). */
export interface QueueFolder {
  dir: string;
  /** Gives up what the process had open. */
  close(): void;
}

/** A disk, and what happens to it. */
export interface Disk {
  /** Where its files are; undefined: the queue is on the model. */
  readonly folder: QueueFolder | undefined;
  /** What is on it, synced or not; undefined while it is empty. */
  image: DiskImage | undefined;
  /** What survives a power cut. */
  synced: DiskImage | undefined;
  /** How the next transactions fail: as on a full disk, or with EIO, which reads have too. */
  failure: "full" | "error" | undefined;
  /** How often it went back to an older image, or was damaged. */
  restores: number;
  /** When the queue that it has was last copied, and its last sequence then. */
  shared: Omit<DiskLoss, "at"> | undefined;
  /** How often its files were damaged. */
  damages: number;
  /** Damage has taken the mark, which says what the other files had, and another one some of these. */
  lacksMark: boolean;
  readonly ledger: Ledger;
}

/** Creates an empty disk. */
export const createDisk = (folder?: QueueFolder): Disk => ({
  folder,
  image: undefined,
  synced: undefined,
  failure: undefined,
  restores: 0,
  shared: undefined,
  damages: 0,
  lacksMark: false,
  ledger: createLedger(),
});

/** Loses what is not synced. */
export const cutPower = (disk: Disk): void => {
  if (disk.image !== disk.synced) disk.restores += 1;
  disk.image = disk.synced;
};

/** How the store may differ from the real one: a planted fault. */
export interface StoreFault {
  /** A transaction is not synced. */
  skipsSync?: boolean;
  /** The state row is not part of the transaction. */
  skipsState?: boolean;
  /** The next sequence is read from the records that are left. */
  countsAnew?: boolean;
  /** A read begins one record late. */
  readsLate?: boolean;
  /** What is deleted leaves its bytes counted. */
  keepsBytes?: boolean;
  /** A dead letter counts twice. */
  countsTwice?: boolean;
  /** The open period of accounts is not part of a transaction. */
  skipsPeriod?: boolean;
  /** What an account that gets another queue id says was acknowledged before, of one that ends with a sequence. */
  renames?: (lastSequence: number) => number;
  /** What an account says when it is written. */
  writes?: (content: AccountContent) => AccountContent;
}

/** Opens the store on a disk. */
export const openDiskStore = (
  disk: Disk,
  {
    entropy,
    now,
    fault = {},
  }: { entropy: Entropy; now(): { ageMs: number; wallMs: number }; fault?: StoreFault },
): QueueStore => {
  const empty = {
    rows: [],
    deadLetters: [],
    checkpoints: [],
    accounts: [],
    period: undefined,
    past: emptyPast,
  };
  disk.image ??= { ...empty, state: { ...newOrigin(entropy, now()), records: 0, bytes: 0 } };
  disk.synced ??= disk.image;
  // Opening moves the log into the database.
  if (!fault.skipsSync) disk.synced = disk.image;
  if (fault.countsAnew)
    disk.image = {
      ...disk.image,
      state: { ...disk.image.state, nextSequence: (disk.image.rows.at(-1)?.last ?? 0) + 1 },
    };
  const encodeBlocks = createBlockMemory();
  const image = () => disk.image as DiskImage;

  const begin = () => {
    const draft = { ...image().state, ...now() };
    let rows = [...image().rows];
    let deadLetters = [...image().deadLetters];
    const changed: Checkpoint[] = [];
    const checkpoints = [...image().checkpoints];
    const kept = { accounts: [...image().accounts], period: image().period };
    const stored: PastRecord[] = [];
    const letters: DeadLetter[] = [];
    const encoder = encodeBlocks(
      draft.nextSequence,
      ({ index, envelopes, checksum }, first, last, bytes) => {
        const block = {
          index: Uint8Array.from(index),
          envelopes: Uint8Array.from(envelopes),
          checksum,
        };
        rows.push({ first, last, bytes, ageMs: draft.ageMs, block });
        for (const { sequence, envelope } of recordsOf(block, first))
          stored.push(pastRecordOf(envelope, { sequence, wallMs: draft.wallMs }));
      },
    );
    /** Keeps the records of one row for which `keeps` is true; returns the number and bytes of the others. */
    const reduce = (row: Row, keeps: (record: BlockRecord) => boolean) => {
      const runs: BlockRecord[][] = [];
      const removed = { records: 0, bytes: 0 };
      let isOpen = false;
      for (const record of recordsOf(row.block, row.first)) {
        if (!keeps(record)) {
          removed.records += 1;
          removed.bytes += record.bytes;
          isOpen = false;
        } else if (isOpen) runs.at(-1)?.push(record);
        else {
          runs.push([record]);
          isOpen = true;
        }
      }
      const kept = runs.map((records): Row => {
        const first = records[0]?.sequence ?? 0;
        const last = records.at(-1)?.sequence ?? 0;
        const bytes = records.reduce((sum, record) => sum + record.bytes, 0);
        return { first, last, bytes, ageMs: row.ageMs, block: joinBlock(records) };
      });
      rows = rows.flatMap((other) => (other === row ? kept : [other]));
      draft.records -= removed.records;
      if (!fault.keepsBytes) draft.bytes -= removed.bytes;
      return removed.records;
    };
    const transaction: QueueTransaction = {
      state: draft,
      insert: (batch) => {
        for (let index = 0; index < batch.count; index++) encoder.add(batch, index);
        draft.nextSequence += batch.count;
        draft.records += batch.count;
        draft.bytes += batch.bytes;
      },
      deleteThrough: (sequence) => {
        let removed = 0;
        for (const row of rows.filter(({ first }) => first <= sequence))
          removed += reduce(row, (record) => record.sequence > sequence);
        return removed;
      },
      moveToDeadLetters: (sequence, code, _message, { recordsMax }) => {
        const row = rows.find(({ first, last }) => first <= sequence && sequence <= last);
        if (row === undefined) return false;
        reduce(row, (record) => record.sequence !== sequence);
        draft.deadLetters += fault.countsTwice ? 2 : 1;
        const letter = { sequence, queueId: draft.queueId.toHex(), code };
        letters.push(letter);
        deadLetters = [...deadLetters, letter].slice(-recordsMax);
        return true;
      },
      putCheckpoint: (checkpoint) => {
        const at = checkpoints.findIndex(
          ({ source, key }) => source === checkpoint.source && key === checkpoint.key,
        );
        if (at >= 0) checkpoints.splice(at, 1);
        if (checkpoint.value !== null) checkpoints.push(checkpoint);
        changed.push(checkpoint);
      },
      accounts: accountTable(kept, fault),
    };
    const end = (): readonly Checkpoint[] => {
      encoder.end();
      const past = continuePast(image().past, draft, { stored, letters, ledger: disk.ledger });
      const state = fault.skipsState ? image().state : draft;
      disk.image = { state, rows, deadLetters, checkpoints, ...kept, past };
      if (!fault.skipsSync) disk.synced = disk.image;
      return changed;
    };
    return { transaction, end };
  };

  return {
    get state() {
      return image().state;
    },
    transaction: (change) => {
      const failure = failureOf(disk, "write");
      if (failure) throw failure;
      const { transaction, end } = begin();
      change(transaction);
      return end();
    },
    read: (sequence, recordsMax, bytesMax) => {
      const failure = failureOf(disk, "read");
      if (failure) throw failure;
      const reader = createBlockReader(recordsMax, bytesMax);
      for (const { first, last, block } of image().rows) {
        if (last <= sequence) continue;
        // A reader may free what it was given.
        const copy = { ...block, envelopes: Uint8Array.from(block.envelopes) };
        if (!reader.take(copy, first, Math.max(sequence + 1 + (fault.readsLate ? 1 : 0), first)))
          break;
      }
      return reader;
    },
    oldestAgeMs: () => image().rows[0]?.ageMs ?? null,
    firstSequenceSince: (ageMs) => image().rows.find((row) => row.ageMs >= ageMs)?.first ?? null,
    checkpoints: (source) =>
      new Map(
        image().checkpoints.flatMap(({ source: of, key, value }) =>
          of === source ? [[key, String(value)]] : [],
        ),
      ),
    allCheckpoints: () => [...image().checkpoints],
    accounts: (read) =>
      read(accountTable({ accounts: [...image().accounts], period: image().period })),
    close: () => undefined,
  };
};

const accountTable = (
  kept: { accounts: AccountRow[]; period: string | undefined },
  fault: StoreFault = {},
): AccountTable => {
  const change = (id: number, fields: Partial<AccountRow>) => {
    kept.accounts = kept.accounts.map((row) => (row.id === id ? { ...row, ...fields } : row));
  };
  return {
    period: () => kept.period && JSON.parse(kept.period),
    savePeriod: (period) => {
      if (!fault.skipsPeriod) kept.period = JSON.stringify(period);
    },
    rows: () => kept.accounts,
    insert: (row) => {
      const content = fault.writes?.(row.content) ?? row.content;
      kept.accounts.push({ ...row, content, id: (kept.accounts.at(-1)?.id ?? 0) + 1 });
    },
    seal: (id, sealed) => change(id, { sealed }),
    unseal: (id, queueId, content) => {
      const ackedBeforeThrough =
        fault.renames?.(content.lastSequence) ?? content.ackedBeforeThrough;
      change(id, { queueId, content: { ...content, ackedBeforeThrough }, sealed: undefined });
    },
    acknowledge: (id, keptMax) => {
      change(id, { isAcked: true });
      const old = kept.accounts.filter(({ isAcked }) => isAcked).slice(0, -keptMax);
      kept.accounts = kept.accounts.filter((row) => !old.includes(row));
    },
  };
};

/** Returns how a disk fails at present, as SQLite reports it. */
export const failureOf = ({ failure }: Disk, act: "read" | "write"): Error | undefined => {
  if (failure === "error")
    return act === "read" ? sqliteError(266, "disk I/O error") : sqliteError(778, "disk I/O error");
  return failure === "full" && act === "write"
    ? sqliteError(13, "database or disk is full")
    : undefined;
};

const sqliteError = (errcode: number, message: string): Error =>
  Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode });
