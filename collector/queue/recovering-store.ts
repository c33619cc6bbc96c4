/*
 * A store that survives the corruption of its file. Invariants:
 * - A corrupt database is moved, whole, into `quarantine-<n>` beside it, before a new one is created. Nothing overwrites it.
 * - The new database continues the totals and the checkpoints of the old one. If the corruption was found while the store was open,
 *   it continues the queue id and the sequences too, so no sequence is used twice; otherwise it has a new queue id.
 * - The operation that found the corruption is retried once, on the new database.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { fsyncDirectorySync } from "../files/private-files.ts";
import type { AgeReading } from "./age.ts";
import { QueueCorruptError } from "./errors.ts";
import { queueFiles } from "./files.ts";
import { isCorruption, type QueueOrigin, readRemains, unsent } from "./format.ts";
import { openStore, type QueueStore } from "./store.ts";

/** The dependencies of a queue's store. */
export interface RecoveringStoreOptions {
  dir: string;
  clock: Clock;
  entropy: Entropy;
  /** Called after a corrupt database was moved into `folder` and replaced. */
  onQuarantined?(folder: string, cause: unknown): void;
}

/**
 * Opens the store of a queue. Whenever its database turns out to be corrupt, at the start or later, quarantines it, creates a new
 * one and retries the operation. Throws what `openStore` throws, and the file system's error while the file cannot be moved: the
 * next operation tries again.
 */
export const openRecoveringStore = (
  options: RecoveringStoreOptions,
  now: () => AgeReading,
  onReplaced: () => void,
): QueueStore => {
  const { dir, clock, entropy } = options;
  /** Set while the database is corrupt and not yet replaced. */
  let corrupt: { cause: unknown; origin: QueueOrigin } | undefined;

  const origin = (): QueueOrigin => ({
    queueId: entropy.bytes(16),
    nextSequence: 1,
    droppedRecords: 0,
    deadLetters: 0,
    ageMs: 0,
    wallMs: clock.now(),
    quarantined: lastQuarantined(dir),
    quarantinedRecords: 0,
    hostId: "",
    ...unsent,
    forks: 0,
    checkpoints: [],
  });

  const openOrReplace = (): QueueStore => {
    try {
      return openStore(dir, origin, now);
    } catch (error) {
      if (!(error instanceof QueueCorruptError)) throw error;
      const { state, checkpoints } = readRemains(dir);
      const { droppedRecords = 0, deadLetters = 0, forks = 0, records = 0, quarantinedRecords = 0 } = state ?? {};
      const totals = { droppedRecords, deadLetters, forks, quarantinedRecords: quarantinedRecords + records };
      return replace({ ...origin(), ...totals, checkpoints: checkpoints ?? [] }, error.cause);
    }
  };

  /** Replaces the database once: if the new one is corrupt at once too, the file is not the cause. */
  const replace = (from: QueueOrigin, cause: unknown): QueueStore => {
    const folder = quarantine(dir);
    const replaced = openStore(dir, () => ({ ...from, quarantined: lastQuarantined(dir) }), now);
    options.onQuarantined?.(folder, cause);
    return replaced;
  };

  let store = openOrReplace();

  const use = <Result>(act: (store: QueueStore) => Result): Result => {
    try {
      if (corrupt === undefined) return act(store);
    } catch (cause) {
      if (!isCorruption(cause)) throw cause;
      const { records, quarantinedRecords, ...state } = store.state;
      const totals = { ...state, quarantinedRecords: quarantinedRecords + records };
      corrupt = { cause, origin: { ...totals, ...now(), checkpoints: store.allCheckpoints() } };
      store.close();
    }
    store = replace(corrupt.origin, corrupt.cause);
    corrupt = undefined;
    onReplaced();
    return act(store);
  };

  return {
    get state() {
      return store.state;
    },
    transaction: (change) => use(({ transaction }) => transaction(change)),
    read: (...bounds) => use(({ read }) => read(...bounds)),
    oldestAgeMs: () => use(({ oldestAgeMs }) => oldestAgeMs()),
    firstSequenceSince: (ageMs) => use(({ firstSequenceSince }) => firstSequenceSince(ageMs)),
    checkpoints: (source) => store.checkpoints(source),
    allCheckpoints: () => store.allCheckpoints(),
    close: () => {
      if (corrupt === undefined) store.close();
    },
  };
};

/** Older quarantines are removed, so that a disk that keeps flipping bits is not filled by them. */
const quarantinesMax = 2;

/** Returns the numbers of the quarantines in `dir`, newest first. */
const quarantines = (dir: string): number[] =>
  readdirSync(dir)
    .flatMap((name) => {
      const number = /^quarantine-(\d+)$/.exec(name)?.[1];
      return number === undefined ? [] : [Number(number)];
    })
    .toSorted((a, b) => b - a);

/** Returns how many databases of this directory were quarantined, ever: the number of the newest. */
const lastQuarantined = (dir: string): number => quarantines(dir)[0] ?? 0;

/** Moves the database and SQLite's files beside it into `quarantine-<n>`; returns that folder. Keeps the newest two. */
const quarantine = (dir: string): string => {
  const before = quarantines(dir);
  const folder = join(dir, `quarantine-${(before[0] ?? 0) + 1}`);
  mkdirSync(folder, { mode: 0o700 });
  const { database } = queueFiles(dir);
  for (const suffix of ["-shm", "-wal", ""])
    if (existsSync(database + suffix)) renameSync(database + suffix, join(folder, `queue.db${suffix}`));
  for (const old of before.slice(quarantinesMax - 1)) rmSync(join(dir, `quarantine-${old}`), { recursive: true });
  fsyncDirectorySync(dir);
  return folder;
};
