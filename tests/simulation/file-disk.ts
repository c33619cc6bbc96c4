/**
 * The disk of a host whose queue is the product's own, on SQLite's files: for what a model of them cannot have, damage. A process that is
 * killed leaves its files as they are at that moment; those that it had open are a copy from then on.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { queueFiles } from "#collector/queue/format.ts";
import type { RecordBatch } from "#collector/queue/record.ts";
import { openRecoveringStore } from "#collector/queue/recovering-store.ts";
import type { QueueStore } from "#collector/queue/store.ts";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { type DeadLetter, type Disk, failureOf, type QueueFolder } from "./disk.ts";
import { continuePast, emptyPast, type PastRecord, pastRecordOf } from "./queue-past.ts";
import type { Chance } from "./world.ts";

/** Memory, where the machine offers it: the queue syncs each transaction. */
const root = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
const createDir = (): string => mkdtempSync(join(root, "simulated-queue-"));

/** Creates an empty folder. */
export const createQueueFolder = (): QueueFolder => ({ dir: createDir(), close: () => undefined });

/** Removes the files. */
export const removeFolder = (folder: QueueFolder): void => {
  folder.close();
  rmSync(folder.dir, { recursive: true });
};

/** Ends the process that has the files open. */
export const crashFolder = (folder: QueueFolder): void => {
  const dir = createDir();
  cpSync(folder.dir, dir, { recursive: true });
  removeFolder(folder);
  Object.assign(folder, { dir, close: () => undefined });
};

/** Removes the files of a queue whose process does not run. */
export const emptyFolder = ({ dir }: QueueFolder): void => {
  rmSync(dir, { recursive: true });
  mkdirSync(dir);
};

/** Reports whether something says what the files of a queue had. */
export const hasMark = ({ dir }: QueueFolder): boolean => existsSync(queueFiles(dir).watermark);

/** What can happen to the files of a queue whose process does not run. */
const damages: Readonly<Record<string, (dir: string, chance: Chance) => void>> = {
  "a bit of the database flips": (dir, chance) => flipBit(queueFiles(dir).database, chance),
  "a bit of the WAL flips": (dir, chance) => flipBit(walOf(dir), chance),
  "a page of the database is torn": (dir, chance) => tearPage(queueFiles(dir).database, chance),
  "a page of the WAL is torn": (dir, chance) => tearPage(walOf(dir), chance),
  "the WAL ends early": (dir, chance) => {
    const bytes = sizeOf(walOf(dir));
    if (bytes > 0) truncateSync(walOf(dir), chance.integer(0, bytes));
  },
  "the WAL is gone": (dir) => rmSync(walOf(dir), { force: true }),
  "the mark is gone": (dir) => rmSync(queueFiles(dir).watermark, { force: true }),
};

/** Damages the files in one way; returns which. */
export const damageFolder = ({ dir }: QueueFolder, chance: Chance): string => {
  const name = chance.pick(Object.keys(damages));
  damages[name]?.(dir, chance);
  return name;
};

const pageBytes = 4096;
const walOf = (dir: string): string => `${queueFiles(dir).database}-wal`;
const sizeOf = (path: string): number => (existsSync(path) ? readFileSync(path).length : 0);

const change = (path: string, act: (bytes: Buffer) => void): void => {
  if (sizeOf(path) === 0) return;
  const bytes = readFileSync(path);
  act(bytes);
  writeFileSync(path, bytes);
};
const flipBit = (path: string, chance: Chance): void =>
  change(path, (bytes) => {
    const at = chance.integer(0, bytes.length - 1);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << chance.integer(0, 7));
  });
/** The second half of a page is not written. */
const tearPage = (path: string, chance: Chance): void =>
  change(path, (bytes) => {
    const page = chance.integer(0, Math.floor((bytes.length - 1) / pageBytes)) * pageBytes;
    bytes.fill(
      0,
      Math.min(bytes.length, page + pageBytes / 2),
      Math.min(bytes.length, page + pageBytes),
    );
  });

/** Opens the queue's own store on the files of a disk. */
export const openFolderStore = (
  disk: Disk & { folder: QueueFolder },
  needs: {
    entropy: Entropy;
    clock: Clock;
    now(): { ageMs: number; wallMs: number };
    onReplaced(): void;
  },
): QueueStore => {
  const { folder } = disk;
  let past = disk.image?.past ?? emptyPast;
  let deadLetters: readonly DeadLetter[] = disk.image?.deadLetters ?? [];
  const store = openRecoveringStore({ ...needs, dir: folder.dir }, needs.now, needs.onReplaced);
  let isOpen = true;
  folder.close = () => {
    if (isOpen) store.close();
    isOpen = false;
  };
  const note = (): void => {
    const empty = { rows: [], checkpoints: [], accounts: [], period: undefined };
    disk.image = disk.synced = { ...empty, state: { ...store.state }, deadLetters, past };
  };
  note();
  return {
    ...store,
    close: folder.close,
    get state() {
      return store.state;
    },
    transaction: (change) => {
      const failure = failureOf(disk, "write");
      if (failure) throw failure;
      // Again from the start if the database is replaced meanwhile.
      let stored: PastRecord[] = [];
      let letters: DeadLetter[] = [];
      const changed = store.transaction((transaction) => {
        stored = [];
        letters = [];
        const { state, insert, moveToDeadLetters } = transaction;
        change({
          ...transaction,
          insert: (batch) => {
            const first = state.nextSequence;
            insert(batch);
            for (let index = 0; index < batch.count; index++)
              stored.push(
                recordOf(batch, index, { sequence: first + index, wallMs: state.wallMs }),
              );
          },
          moveToDeadLetters: (sequence, code, ...rest) => {
            const isMoved = moveToDeadLetters(sequence, code, ...rest);
            if (isMoved) letters.push({ sequence, code, queueId: state.queueId.toHex() });
            return isMoved;
          },
        });
      });
      past = continuePast(past, store.state, { stored, letters, ledger: disk.ledger });
      deadLetters = [...deadLetters, ...letters];
      note();
      return changed;
    },
    read: (...bounds) => {
      const failure = failureOf(disk, "read");
      if (failure) throw failure;
      return store.read(...bounds);
    },
  };
};

const recordOf = (
  batch: RecordBatch,
  index: number,
  at: { sequence: number; wallMs: number },
): PastRecord => {
  const writer = { buffer: Buffer.alloc(batch.sizeOf(index)), at: 0 };
  batch.write(writer, index, at.sequence);
  return pastRecordOf(writer.buffer.subarray(0, writer.at), at);
};
