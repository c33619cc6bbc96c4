import { dirname } from "node:path";
import type { Step } from "./recording.ts";

/**
 * A model of a disk. Invariants, the least that POSIX guarantees:
 * - After a power cut a file has its content of the last sync. Any part of later writes may be there too, in any order.
 * - The creation or removal of a name is durable only after a sync of its directory.
 * - A failed sync loses its writes, and the next successful one does not restore them, because the kernel has marked the pages clean
 *   (the "fsyncgate" of 2018).
 * - After a kill of the program everything that it wrote is there.
 */
export interface Disk {
  apply(step: Step): void;
  /** Returns the files as after a kill of the program now. */
  afterKill(): Map<string, Buffer>;
  /** Returns the files as after a power cut now; `keeps` decides for each change that is not synced. */
  afterPowerCut(keeps: () => boolean): Map<string, Buffer>;
}

interface Inode {
  /** All changes: what a reader sees until a power cut. */
  all: Change[];
  /** As of the last sync. */
  synced: Buffer;
  pending: Change[];
}

type Change = { offset: number; bytes: Buffer } | { length: number };

/** A disk writes this many bytes as a whole or not at all. */
const blockBytes = 4096;

/** Creates an empty disk. */
export const createDisk = (): Disk => {
  const names = new Map<string, Inode>();
  const syncedNames = new Map<string, Inode>();

  const change = (path: string, done: Change) => {
    const inode = names.get(path);
    if (inode === undefined) throw new Error("the recording changes a file that it never created");
    inode.all.push(done);
    inode.pending.push(done);
  };

  const syncDirectory = (path: string) => {
    for (const name of syncedNames.keys())
      if (dirname(name) === path && !names.has(name)) syncedNames.delete(name);
    for (const [name, inode] of names) if (dirname(name) === path) syncedNames.set(name, inode);
  };

  return {
    apply: (step) => {
      switch (step.does) {
        case "create":
          if (!names.has(step.path))
            names.set(step.path, { all: [], synced: Buffer.alloc(0), pending: [] });
          return;
        case "write":
          change(step.path, { offset: step.offset, bytes: step.bytes });
          return;
        case "append":
          change(step.path, {
            offset: changed(Buffer.alloc(0), names.get(step.path)?.all ?? []).length,
            bytes: step.bytes,
          });
          return;
        case "rename": {
          const inode = names.get(step.path);
          if (inode === undefined)
            throw new Error("the recording renames a file that it never created");
          names.set(step.to, inode);
          names.delete(step.path);
          return;
        }
        case "truncate":
          change(step.path, { length: step.length });
          return;
        case "sync": {
          const inode = names.get(step.path);
          if (inode === undefined) return syncDirectory(step.path);
          inode.synced = changed(inode.synced, inode.pending);
          inode.pending = [];
          return;
        }
        case "failed-sync": {
          const inode = names.get(step.path);
          if (inode !== undefined) inode.pending = [];
          return;
        }
        case "unlink":
          names.delete(step.path);
          return;
        case "report":
          return;
      }
    },
    afterKill: () =>
      new Map(Array.from(names, ([name, { all }]) => [name, changed(Buffer.alloc(0), all)])),
    afterPowerCut: (keeps) => {
      const files = new Map<string, Buffer>();
      for (const name of new Set([...names.keys(), ...syncedNames.keys()])) {
        const now = names.get(name);
        const before = syncedNames.get(name);
        const inode = now === before || keeps() ? now : before;
        if (inode === undefined) continue;
        files.set(name, changed(inode.synced, inode.pending.flatMap(blocksOf).filter(keeps)));
      }
      return files;
    },
  };
};

const blocksOf = (change: Change): Change[] => {
  if ("length" in change) return [change];
  const { offset, bytes } = change;
  const blocks: Change[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + blockBytes - ((offset + at) % blockBytes));
    blocks.push({ offset: offset + at, bytes: bytes.subarray(at, end) });
    at = end;
  }
  return blocks;
};

const changed = (before: Buffer, changes: readonly Change[]) => {
  let content = before;
  let own = false;
  for (const change of changes) {
    const end =
      "length" in change
        ? change.length
        : Math.max(content.length, change.offset + change.bytes.length);
    if (!own || end !== content.length) {
      const next = Buffer.alloc(end);
      content.copy(next);
      content = next;
      own = true;
    }
    if ("bytes" in change) change.bytes.copy(content, change.offset);
  }
  return content;
};
