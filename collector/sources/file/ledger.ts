import { basename, dirname } from "node:path";
import * as v from "valibot";
import type { Checkpoint } from "#collector/queue/record.ts";
import { WholeNumber } from "#proto/values.ts";
import {
  fileCheckpoints,
  fileKey,
  hasPrint,
  headOf,
  markAt,
  type Position,
  Print,
  printBytesMax,
} from "./position.ts";
import { possibleBases } from "./rotated-names.ts";
import type { LogFile } from "./source-files.ts";

const Entry = v.object({
  /** The size of the content that was read. */
  size: WholeNumber(),
  head: Print,
  /** Absent if only its beginning was looked at. */
  mark: v.optional(Print),
  /** Its device and inode. */
  key: v.string(),
});
const Saved = v.fallback(v.pipe(v.string(), v.parseJson(), v.array(Entry)), []);

/** A generation of a file that is read to its end, or that is older than the collector's interest in it. */
export type ReadGeneration = Readonly<v.InferOutput<typeof Entry>>;

/** The most generations of a name: of daily files, those of two years. */
const entriesMax = 800;

/**
 * The ledger of a name: its generations that are not read again, under whatever name, device or compression they lie beside it. A generation is
 * known by its content, since rotation, copies and restores change everything else.
 */
export type Ledger = ReturnType<typeof openLedger>;

/** The ledgers of a source. Those who add to one share it, so that what one stores has what the other has added. */
export type Ledgers = ReturnType<typeof createLedgers>;

/** Creates the ledgers among the checkpoints. */
export const createLedgers = (checkpoints: () => ReadonlyMap<string, string>) => {
  const opened = new Map<string, Ledger>();
  const changed = new Set<Ledger>();
  const open = (path: string): Ledger => {
    const ledger = openLedger(path, checkpoints(), () => changed.add(ledger));
    opened.set(path, ledger);
    return ledger;
  };
  return {
    of: (path: string) => opened.get(path) ?? open(path),
    /** Stores, by `store`, the ledgers that were added to since the last time that it succeeded. */
    storeChanges: async (store: (checkpoints: readonly Checkpoint[]) => Promise<void>) => {
      const taken = [...changed];
      await store(taken.map((ledger) => ledger.checkpoint()));
      for (const ledger of taken) changed.delete(ledger);
    },
    forget: (path: string) => opened.delete(path),
  };
};

/** Returns the key of the checkpoint of a ledger. */
export const ledgerKey = (path: string): string => `read:${path}`;

/** Returns the path whose ledger a checkpoint is; undefined for another one. */
const ledgerPathOf = (key: string): string | undefined =>
  key.startsWith("read:") ? key.slice("read:".length) : undefined;

const openLedger = (
  path: string,
  checkpoints: ReadonlyMap<string, string>,
  onChange: () => void,
) => {
  const saved = checkpoints.get(ledgerKey(path));
  let entries: ReadGeneration[] = v.parse(Saved, saved);
  return {
    /** Whether the name was followed before. */
    get isKnown() {
      return saved !== undefined || entries.length > 0;
    },
    /** Returns from where a file is to be read: at its end, or behind what was read before more was written; undefined if it is none of these. */
    find: async (file: LogFile) => {
      const { size } = file.stat;
      const start = await file.read(Buffer.allocUnsafe(printBytesMax), 0);
      for (const entry of entries.toReversed()) {
        // Another file may begin like one that had nothing else.
        const isIt = size === entry.size || (size > entry.size && entry.key === fileKey(file.stat));
        if (!isIt || !hasPrint(start.subarray(0, entry.head.bytes), entry.head)) continue;
        if (await hasMark(file, entry)) return entry;
      }
      return undefined;
    },
    /** Reports whether the content of a compressed file is one of these, by its outline. */
    hasPacked: ({ size, start }: { size: number; start: Buffer }, key: string) =>
      entries.some(
        (entry) =>
          // One that was looked at while it was being written has another size now.
          (entry.size % 2 ** 32 === size || (entry.mark === undefined && entry.key === key)) &&
          hasPrint(start.subarray(0, entry.head.bytes), entry.head),
      ),
    add: (entry: ReadGeneration) => {
      entries = [...entries, entry].slice(-entriesMax);
      onChange();
    },
    /** Returns the checkpoint of all its generations, also those that are not stored yet. */
    checkpoint: (): Checkpoint => ({
      source: fileCheckpoints,
      key: ledgerKey(path),
      value: JSON.stringify(entries),
    }),
  };
};

const hasMark = async (file: LogFile, { size, mark }: ReadGeneration): Promise<boolean> =>
  mark === undefined || (await markAt(file, size)).sha256 === mark.sha256;

/** Returns the entry of a file that is read up to `size`. */
export const readGeneration = async (file: LogFile, size: number): Promise<ReadGeneration> => ({
  size,
  head: await headOf(file, size),
  mark: await markAt(file, size),
  key: fileKey(file.stat),
});

/** Returns the entry of a file that is read up to a position. */
export const generationAt = (
  key: string,
  { offset, head, mark = head }: Position,
): ReadGeneration => ({ size: offset, head, mark, key });

/**
 * Returns the paths of ledgers of names that are gone, together with everything that rotation made of them. `namesIn` returns undefined for a
 * directory that cannot be listed.
 */
export const findUnusedLedgers = async (
  checkpoints: ReadonlyMap<string, string>,
  isInUse: (path: string) => boolean,
  namesIn: (directory: string) => Promise<readonly string[] | undefined>,
): Promise<string[]> => {
  const ended: string[] = [];
  for (const key of checkpoints.keys()) {
    const path = ledgerPathOf(key);
    if (path === undefined || isInUse(path)) continue;
    const base = basename(path);
    const names = await namesIn(dirname(path));
    const isLeft = names?.some((name) => name === base || possibleBases(name).includes(base));
    if (isLeft === false) ended.push(path);
  }
  return ended;
};
