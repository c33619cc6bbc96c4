import { dirname } from "node:path";
import type { Step } from "./recording.ts";

/**
 * A disk that keeps less than it was given. Invariants, the least that POSIX promises:
 * - What a file held at its last sync is there after a power cut. Of what was written to it since, any part may be, in any order.
 * - A name is there, or gone, for certain only after a sync of its directory.
 * - A sync that failed loses what it was to keep, and the next one that succeeds does not bring it back: the kernel has marked the
 *   pages clean (the "fsyncgate" of 2018).
 * - When only the program is killed, everything that it did is there.
 */
export interface Disk {
  apply(step: Step): void;
  /** The files after a kill of the program at this moment. */
  afterKill(): Map<string, Buffer>;
  /** The files after a power cut at this moment; `keeps` decides the fate of each thing that is not synced. */
  afterPowerCut(keeps: () => boolean): Map<string, Buffer>;
}

interface Inode {
  /** Everything that was ever done to it: what a reader sees as long as the machine is up. */
  all: Change[];
  /** As of the last sync. */
  synced: Buffer;
  pending: Change[];
}

type Change = { offset: number; bytes: Buffer } | { length: number };

/** What a disk writes whole or not at all. */
const blockBytes = 4096;

/** An empty disk. */
export const createDisk = (): Disk => {
  const names = new Map<string, Inode>();
  const syncedNames = new Map<string, Inode>();

  const change = (path: string, done: Change) => {
    const inode = names.get(path);
    if (inode === undefined) throw new Error("the recording changes a file that it never made");
    inode.all.push(done);
    inode.pending.push(done);
  };

  const syncDirectory = (path: string) => {
    for (const name of syncedNames.keys()) if (dirname(name) === path && !names.has(name)) syncedNames.delete(name);
    for (const [name, inode] of names) if (dirname(name) === path) syncedNames.set(name, inode);
  };

  return {
    apply: (step) => {
      switch (step.does) {
        case "create":
          if (!names.has(step.path)) names.set(step.path, { all: [], synced: Buffer.alloc(0), pending: [] });
          return;
        case "write":
          change(step.path, { offset: step.offset, bytes: step.bytes });
          return;
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
        case "say":
          return;
      }
    },
    afterKill: () => new Map(Array.from(names, ([name, { all }]) => [name, changed(Buffer.alloc(0), all)])),
    afterPowerCut: (keeps) => {
      const files = new Map<string, Buffer>();
      for (const name of new Set([...names.keys(), ...syncedNames.keys()])) {
        const [now, before] = [names.get(name), syncedNames.get(name)];
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

const changed = (before: Buffer, changes: readonly Change[]): Buffer => {
  let content = before;
  let own = false;
  for (const change of changes) {
    const end = "length" in change ? change.length : Math.max(content.length, change.offset + change.bytes.length);
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
