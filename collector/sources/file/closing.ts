/* Closes followed files: those that are read to their end, idle ones for others that wait, and deleted ones for their space. */
import type { Checkpoint } from "#collector/queue/record.ts";
import type { PositionedSourceDependencies } from "../source.ts";
import type { Discovery, FileSourceConfig } from "./discovery.ts";
import { generationAt, type Ledgers } from "./ledger.ts";
import { fileCheckpoints, fileKey } from "./position.ts";
import type { Followed } from "./readers.ts";
import type { FileStat } from "./source-files.ts";
import type { Tail, TailReader } from "./tail.ts";

interface Dependencies extends Pick<PositionedSourceDependencies, "append" | "log"> {
  readonly tails: Map<string, Tail>;
  readonly ledgers: Ledgers;
  readonly discovery: Pick<Discovery, "isFound" | "store" | "expectUnfinished">;
  readonly reader: Pick<TailReader, "refreshSize" | "checkpoint">;
  readonly signal: AbortSignal;
}

/** Creates what closes the files of `followed`. */
export const createClosing = (
  { name: source = "file", maxHeldMb = 1_024 }: FileSourceConfig,
  followed: Map<string, Followed>,
  { tails, ledgers, discovery, reader, append, log, signal }: Dependencies,
) => {
  const { isFound } = discovery;
  const parked = new Map<string, Pick<FileStat, "size" | "mtimeMs">>();
  let givenUp = 0;

  const unfollow = async (tail: Tail) => {
    followed.delete(tail.key);
    tails.delete(tail.key);
    await tail.file.close();
  };

  const end = async (tail: Tail) => {
    const { position, path, key, file } = tail;
    const checkpoints: Checkpoint[] = [{ source: fileCheckpoints, key, value: null }];
    if (position.offset > 0) {
      const ledger = ledgers.of(path);
      ledger.add(generationAt(key, position));
      checkpoints.push(ledger.checkpoint());
    }
    await discovery.store(file.isCut ? [{ path, bytes: 0 }] : [], checkpoints);
    await unfollow(tail);
  };

  const closeDeleted = async ({ tail }: Followed) => {
    await reader.refreshSize(tail);
    const bytes = tail.size - tail.position.offset;
    if (bytes === 0) return await end(tail);
    // The next pass follows what continues it, or counts a gap.
    await append([], { checkpoints: [reader.checkpoint(tail)], signal });
    await unfollow(tail);
    discovery.expectUnfinished();
    givenUp += 1;
    log.warn(
      { source, path: tail.path, bytes },
      "closed a deleted file that is not read: too many",
    );
  };

  /** Returns the deleted files, the oldest first, with their sizes. */
  const findDeleted = async () => {
    const deleted: { file: Followed; size: number }[] = [];
    for (const file of followed.values()) {
      if (isFound(file.tail)) continue;
      const stat = await file.tail.file.restat().catch(() => undefined);
      if (stat?.links === 0) deleted.push({ file, size: stat.size });
    }
    return deleted;
  };

  return {
    counters: () => ({ given_up: givenUp }),
    isParked: (stat: FileStat): boolean => {
      const at = parked.get(fileKey(stat));
      return at?.size === stat.size && at.mtimeMs === stat.mtimeMs;
    },
    /** Puts a file that is read to its end into the ledger of its name, and closes it. */
    end,
    unpark: (key: string) => parked.delete(key),
    /** Closes files of which all is stored that was seen. They are opened again when they have changed. */
    park: async (count: number) => {
      // Checked again at its turn: while one is closed, another may be read.
      const isIdle = ({ tail, isInUse }: Followed) =>
        !isInUse && tail.isExhausted && tail.seen?.size === tail.position.offset && isFound(tail);
      const idle = [...followed.values()].filter(isIdle);
      idle.sort((a, b) => a.tail.changedAt - b.tail.changedAt);
      for (const file of idle.slice(0, count)) {
        const { tail } = file;
        if (!isIdle(file) || tail.seen === undefined) continue;
        parked.set(tail.key, tail.seen);
        await unfollow(tail);
      }
    },
    /** Closes deleted files, the oldest first, as long as they hold more bytes than they may: their space is free only once nobody has them open. */
    freeSpace: async () => {
      const deleted = await findDeleted();
      let bytes = deleted.reduce((sum, { size }) => sum + size, 0);
      for (const { file, size } of deleted) {
        if (bytes <= maxHeldMb * 1024 * 1024) return;
        if (file.isInUse) continue;
        bytes -= size;
        file.isInUse = true;
        await closeDeleted(file).finally(() => {
          file.isInUse = false;
        });
      }
    },
  };
};
