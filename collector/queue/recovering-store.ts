/*
 * A store that survives the corruption of its file. Invariants:
 * - A corrupt database is moved, whole, into `quarantine-<n>` beside it, before a new one is created. Nothing overwrites it.
 * - The new database continues the totals and the checkpoints of the old one. If the corruption was found while the store was open,
 *   it continues the queue id and the sequences too, so no sequence is used twice; otherwise it has a new queue id.
 * - The operation that found the corruption is retried once, on the new database.
 * - A database that its disk cannot read is never taken for a corrupt one: it is kept as it is.
 * - A database whose time is ahead of the watermark's, as a flipped bit sets it, has that of the watermark: nothing expires by the wrong one.
 * - A database that lacks commits (watermark.ts) continues behind them: what it lacks is counted, and no sequence is used twice.
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import type { Clock } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";
import { sqliteCodeOf } from "../files/lock.ts";
import { fsyncDirectorySync } from "../files/private-files.ts";
import { type AccountTable, copyAccounts, readRemainingAccounts } from "./account-table.ts";
import { type AgeReading, leastReading } from "./age.ts";
import { QueueCorruptError, QueueUnreadableError } from "./errors.ts";
import {
  isCorruption,
  newOrigin,
  type QueueOrigin,
  queueFiles,
  readCheckpoints,
  readDamaged,
  readState,
} from "./format.ts";
import { leaveQueue, leftQueueSource } from "./left-queues.ts";
import { addLosses } from "./losses.ts";
import type { Checkpoint } from "./record.ts";
import { openStore, type QueueStore } from "./store.ts";
import {
  missingRecords,
  readWatermark,
  type Watermark,
  type WatermarkWriter,
  writeWatermark,
} from "./watermark.ts";

/** The dependencies of a queue's store. */
export interface RecoveringStoreOptions {
  dir: string;
  clock: Clock;
  entropy: Entropy;
  /** Called after a corrupt database was moved into `folder` and replaced. */
  onQuarantined?(folder: string, cause: unknown): void;
  /** Called at the opening of a queue that lacks records which it had stored, with the most that it can be. */
  onLost?(records: number): void;
  /** Called at the opening of a queue whose own time is wrong: the records are kept. */
  onWrongAge?(): void;
}

/**
 * Opens the store of a queue. Whenever its database turns out to be corrupt, at the start or later, quarantines it, creates a new
 * one and retries the operation. Throws what `openStore` throws, `QueueUnreadableError`, and the file system's error while the file
 * cannot be moved: the next operation tries again.
 */
export const openRecoveringStore = (
  options: RecoveringStoreOptions,
  now: () => AgeReading,
  onReplaced: () => void,
): QueueStore => {
  const { dir, clock, entropy } = options;
  const found = readWatermark(dir);
  /** Set while the database is corrupt and not yet replaced. */
  let corrupt: { cause: unknown; origin: QueueOrigin } | undefined;

  /** The origin of a database with a new queue id. Above the watermark, so that a kill before the next watermark counts nothing twice. */
  const origin = (checkpoints: readonly Checkpoint[], lost: number): QueueOrigin => ({
    ...newOrigin(entropy, { ageMs: 0, wallMs: clock.now() }),
    nextSequence: (found?.lastSequence ?? 0) + 1,
    droppedRecords: lost,
    quarantined: lastQuarantined(dir),
    checkpoints: lost === 0 ? checkpoints : withLosses(checkpoints, lost, 0),
  });

  const openOrReplace = (): QueueStore => {
    const lost = missingRecords(found, { nextSequence: 1 });
    let created = false;
    const open = () =>
      openReadable(
        dir,
        () => {
          created = true;
          const kept = found?.sentCheckpoints?.filter(({ value }) => value !== null);
          return origin(kept ?? found?.checkpoints ?? [], lost);
        },
        now,
      );
    try {
      const opened = retryIfCorrupt(open);
      try {
        if (!created) {
          correctAge(found, opened, options);
          continueBehind(found, opened, options);
        } else if (lost > 0) options.onLost?.(lost);
      } catch (error) {
        opened.close();
        throw error;
      }
      return opened;
    } catch (error) {
      if (!(error instanceof QueueCorruptError)) throw error;
      return replace(originOfRemains(), error.cause);
    }
  };

  /** The origin of the database that replaces a corrupt one: what it says of itself, or the watermark if that knows of more. */
  const originOfRemains = (): QueueOrigin => {
    const state = readDamaged(dir, readState);
    const checkpoints = readDamaged(dir, readCheckpoints);
    const {
      droppedRecords = 0,
      deadLetters = 0,
      forks = 0,
      records = 0,
      quarantinedRecords = 0,
    } = state ?? {};
    const isBehind = found !== undefined && found.lastSequence >= (state?.nextSequence ?? 0);
    const lost = isBehind ? found.records : records;
    const kept = isBehind ? found.checkpoints : (checkpoints ?? found?.checkpoints ?? []);
    const totals = {
      droppedRecords,
      deadLetters,
      forks,
      quarantinedRecords: quarantinedRecords + lost,
    };
    const left = new Map(
      kept.flatMap(({ source, key, value }) =>
        source === leftQueueSource ? [[key, `${value}`]] : [],
      ),
    );
    const remembered = changed(kept, state === undefined ? [] : leaveQueue(left, state));
    return { ...origin([], 0), ...totals, checkpoints: withLosses(remembered, 0, 0) };
  };

  /** Replaces the database once: if the new one is corrupt at once too, the file is not the cause. */
  const replace = (from: QueueOrigin, cause: unknown): QueueStore => {
    const accounts = readRemainingAccounts(dir);
    const folder = quarantine(dir);
    const replaced = openStore(dir, () => ({ ...from, quarantined: lastQuarantined(dir) }), now);
    replaced.transaction(({ accounts: table }) => {
      copyAccounts(accounts, table);
      if (found) savePeriodBefore(found, table);
    });
    options.onQuarantined?.(folder, cause);
    return replaced;
  };

  let store = openOrReplace();
  const startWatermark = (): WatermarkWriter =>
    writeWatermark(dir, store.state, () => store.allCheckpoints());
  let watermark = startWatermark();

  const use = <Result>(act: (store: QueueStore) => Result): Result => {
    try {
      if (corrupt === undefined) return act(store);
    } catch (cause) {
      if (!isCorruption(cause)) throw cause;
      const { records, quarantinedRecords, ...state } = store.state;
      const totals = { ...state, quarantinedRecords: quarantinedRecords + records };
      const reading = now();
      const checkpoints = withLosses(store.allCheckpoints(), 0, reading.ageMs);
      corrupt = { cause, origin: { ...totals, ...reading, checkpoints } };
      store.close();
    }
    assertReadable(dir);
    store = replace(corrupt.origin, corrupt.cause);
    corrupt = undefined;
    watermark.close();
    watermark = startWatermark();
    onReplaced();
    return act(store);
  };

  return {
    get state() {
      return store.state;
    },
    transaction: (change) => {
      const changed = use(({ transaction }) => transaction(change));
      watermark.committed(store.state, changed);
      return changed;
    },
    read: (...bounds) => use(({ read }) => read(...bounds)),
    oldestAgeMs: () => use(({ oldestAgeMs }) => oldestAgeMs()),
    firstSequenceSince: (ageMs) => use(({ firstSequenceSince }) => firstSequenceSince(ageMs)),
    checkpoints: (source) => store.checkpoints(source),
    allCheckpoints: () => store.allCheckpoints(),
    accounts: (read) => use(({ accounts }) => accounts(read)),
    close: () => {
      watermark.close();
      if (corrupt === undefined) store.close();
    },
  };
};

/** Returns checkpoints with the losses in them, at the queue's time `ageMs`. */
const withLosses = (
  checkpoints: readonly Checkpoint[],
  records: number,
  ageMs: number,
): Checkpoint[] => changed(checkpoints, [addLosses(checkpoints, records, ageMs)]);

/** Returns checkpoints after changes. */
const changed = (
  checkpoints: readonly Checkpoint[],
  changes: readonly Checkpoint[],
): Checkpoint[] => {
  const isSame = (one: Checkpoint) => (other: Checkpoint) =>
    one.source === other.source && one.key === other.key;
  return [
    ...checkpoints.filter((one) => !changes.some(isSame(one))),
    ...changes.filter(({ value }) => value !== null),
  ];
};

/** Sets the queue's time to the watermark's if its own is ahead of it, and the queue at risk. */
const correctAge = (
  watermark: Watermark | undefined,
  store: QueueStore,
  options: RecoveringStoreOptions,
): void => {
  const reading = leastReading(store.state, watermark?.reading, options.clock.now());
  if (reading === store.state) return;
  store.transaction(({ state, putCheckpoint }) => {
    Object.assign(state, reading);
    putCheckpoint(addLosses(store.allCheckpoints(), 0, reading.ageMs));
  });
  options.onWrongAge?.();
};

/**
 * Counts what a sound database lacks of what the watermark says, and moves its sequences behind that. Takes the positions up to which core has
 * everything, if they are ahead of the database's: the lines of lost records are then read again, and no others.
 */
const continueBehind = (
  watermark: Watermark | undefined,
  store: QueueStore,
  options: RecoveringStoreOptions,
): void => {
  if (watermark === undefined || watermark.lastSequence < store.state.nextSequence) return;
  const lost = missingRecords(watermark, store.state);
  const { ageMs, wallMs, nextSequence } = store.state;
  const sent = (watermark.sentThrough >= nextSequence - 1 && watermark.sentCheckpoints) || [];
  store.transaction(({ state, putCheckpoint, accounts }) => {
    savePeriodBefore(watermark, accounts);
    // The queue's clock does not run yet.
    Object.assign(state, { ageMs, wallMs, nextSequence: watermark.lastSequence + 1 });
    state.sentThrough = Math.max(state.sentThrough, watermark.lastSequence);
    state.droppedRecords += lost;
    for (const checkpoint of sent) putCheckpoint(checkpoint);
    if (lost > 0) putCheckpoint(addLosses([...sent, ...store.allCheckpoints()], lost, ageMs));
  });
  if (lost > 0) options.onLost?.(lost);
};

/** Notes in the saved period when the last of what the database lacks was stored. */
const savePeriodBefore = ({ reading }: Watermark, accounts: AccountTable): void => {
  const period = accounts.period();
  if (period && reading) accounts.savePeriod({ ...period, lostMs: reading.wallMs });
};

const openReadable = (...[dir, origin, now]: Parameters<typeof openStore>): QueueStore => {
  try {
    return openStore(dir, origin, now);
  } catch (error) {
    if (isReadError(error)) throw new QueueUnreadableError(dir, { cause: error });
    if (error instanceof QueueCorruptError) assertReadable(dir);
    throw error;
  }
};

/** SQLite reports some read errors as corruption: a second opening, after all files were read, finds an intact database. */
const retryIfCorrupt = (open: () => QueueStore): QueueStore => {
  try {
    return open();
  } catch (error) {
    if (error instanceof QueueCorruptError) return open();
    throw error;
  }
};

/** SQLITE_IOERR, or the file system's own EIO. */
const isReadError = (error: unknown): boolean =>
  sqliteCodeOf(error) === 10 || errorCode(error) === "EIO";

const sqliteSuffixes = ["-shm", "-wal", ""];

/** Reads every byte of the database, which is closed. Throws `QueueUnreadableError` if the disk cannot. */
const assertReadable = (dir: string): void => {
  const buffer = Buffer.allocUnsafe(1024 * 1024);
  for (const suffix of sqliteSuffixes) {
    const path = queueFiles(dir).database + suffix;
    if (!existsSync(path)) continue;
    try {
      const file = openSync(path, "r");
      try {
        while (readSync(file, buffer) > 0);
      } finally {
        closeSync(file);
      }
    } catch (cause) {
      throw new QueueUnreadableError(dir, { cause });
    }
  }
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
  for (const suffix of sqliteSuffixes)
    if (existsSync(database + suffix))
      renameSync(database + suffix, join(folder, `queue.db${suffix}`));
  for (const old of before.slice(quarantinesMax - 1))
    rmSync(join(dir, `quarantine-${old}`), { recursive: true });
  fsyncDirectorySync(dir);
  return folder;
};
