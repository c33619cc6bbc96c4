/*
 * Brings the records of a quarantined database back. Invariants:
 * - It only reads the quarantined database.
 * - How far it came is stored with the records, in one transaction: a second import, also after a kill, stores nothing twice.
 * - Once all is imported, the quarantined queue is one that this one has left: core ends it.
 */
import { existsSync, realpathSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { recordsOf } from "./block.ts";
import { type BlockRow, rowOf } from "./block-table.ts";
import { decodeEnvelope } from "./envelope.ts";
import { checkFormat, isCorruption, queueFiles, readState } from "./format.ts";
import { leaveQueue, leftQueueSource } from "./left-queues.ts";
import type { Queue } from "./queue.ts";
import type { NewRecord } from "./record.ts";

/** The result of an import. */
export interface Imported {
  /** Records that this import stored. */
  records: number;
  /** Records that an earlier import had stored, up to the one that it came to. */
  before: number;
  /** Records that the database says it has; null if that cannot be read. */
  expected: number | null;
}

/** `dir` holds no queue, or one of which nothing can be read. */
export class NoQueueError extends Error {
  override readonly name = "NoQueueError";
}

/**
 * Appends every readable record of the quarantined queue in `dir` to `queue`. Rejects with `QueueFullError` when the next ones do not fit,
 * with `NoQueueError`, or with `QueueVersionError`; what was stored until then stays.
 */
export const importQueue = async (
  dir: string,
  queue: Pick<Queue, "append" | "checkpoints" | "queueId">,
): Promise<Imported> => {
  const path = queueFiles(dir).database;
  if (!existsSync(path))
    throw new NoQueueError(
      "there is no queue.db in this directory; name a quarantine-<n> directory",
    );
  using database = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
  const state = attempt(() => {
    checkFormat(database, dir);
    return readState(database);
  });
  const key = `import:${state?.queueId.toHex() ?? ""}:${realpathSync(dir)}`;
  const through = Number(queue.checkpoints("queue").get(key) ?? "0");
  const imported: Imported = { records: 0, before: 0, expected: state?.records ?? null };
  let blocks = 0;
  for (const { sequence, last, block } of readableRows(database)) {
    blocks += 1;
    const intact = recordsOf(block, sequence).filter(({ isIntact }) => isIntact);
    const records = intact
      .filter((record) => record.sequence > through)
      .flatMap(({ envelope }) => decoded(envelope));
    imported.before += intact.length - records.length;
    if (records.length === 0) continue;
    const checkpoints = [{ source: "queue", key, value: `${last}` }];
    // A queue that is full rejects an aborted call at once, instead of waiting for a forwarder that does not run.
    await queue.append(records, { checkpoints, signal: AbortSignal.abort() });
    imported.records += records.length;
  }
  if (blocks === 0 && imported.expected !== 0)
    throw new NoQueueError("no record of this queue can be read: its file is too damaged");
  // The next session names it to core as a left queue, since it sends nothing more.
  if (state !== undefined && state.queueId.toHex() !== queue.queueId.toHex())
    await queue.append([], { checkpoints: leaveQueue(queue.checkpoints(leftQueueSource), state) });
  return imported;
};

const decoded = (envelope: Uint8Array): NewRecord[] => {
  try {
    return [decodeEnvelope(envelope)];
  } catch {
    return [];
  }
};

/** Returns undefined where the database is corrupt. */
const attempt = <Found>(read: () => Found): Found | undefined => {
  try {
    return read();
  } catch (error) {
    if (isCorruption(error)) return undefined;
    throw error;
  }
};

/** Reads the rows in order; goes around those that cannot be read, in ever longer steps and then back. */
const readableRows = function* (database: DatabaseSync): Generator<BlockRow> {
  const prepared = attempt(() => ({
    next: database.prepare("SELECT * FROM block WHERE sequence > ? ORDER BY sequence LIMIT 1"),
    previous: database.prepare(
      "SELECT * FROM block WHERE sequence > ? AND sequence < ? ORDER BY sequence DESC LIMIT 1",
    ),
  }));
  if (prepared === undefined) return;
  const { next, previous } = prepared;
  /** Returns null at the end, and undefined where the database is corrupt. */
  const rowAfter = (sequence: number) =>
    attempt(() => {
      const row = next.get(sequence);
      return row === undefined ? null : rowOf(row);
    });
  const rowsBetween = (from: number, to: number): BlockRow[] => {
    const rows: BlockRow[] = [];
    for (let before = to; ; ) {
      const row = attempt(() => previous.get(from, before));
      const found = row && attempt(() => rowOf(row));
      if (!found) return rows.reverse();
      rows.push(found);
      before = found.sequence;
    }
  };
  for (let at = 0; ; ) {
    let row = rowAfter(at);
    for (let step = 1; row === undefined && at + step < Number.MAX_SAFE_INTEGER; step *= 2)
      row = rowAfter(at + step);
    yield* rowsBetween(at, row?.sequence ?? Number.MAX_SAFE_INTEGER);
    if (!row) return;
    yield row;
    at = row.sequence;
  }
};
