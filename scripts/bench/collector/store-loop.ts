import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** The floor: payloads a second that node:sqlite alone stores durably and deletes again, `perTransaction` at a time. */
export const measureStoreLoop = async (options: {
  payloads: readonly Uint8Array[];
  perTransaction: number;
  seconds: number;
}): Promise<number> => {
  const { payloads, perTransaction, seconds } = options;
  const dir = await mkdtemp(join(tmpdir(), "bench-store-"));
  const database = new DatabaseSync(join(dir, "floor.db"));
  try {
    database.exec("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    database.exec("CREATE TABLE record (sequence INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT");
    const insert = database.prepare("INSERT INTO record VALUES (?, ?)");
    const remove = database.prepare("DELETE FROM record WHERE sequence <= ?");
    let stored = 0;
    const startedAt = performance.now();
    while (performance.now() - startedAt < seconds * 1000) {
      database.exec("BEGIN IMMEDIATE");
      for (let index = 0; index < perTransaction; index++)
        insert.run(++stored, payloads[stored % payloads.length] ?? new Uint8Array());
      remove.run(stored - 8 * perTransaction);
      database.exec("COMMIT");
    }
    return (stored / (performance.now() - startedAt)) * 1000;
  } finally {
    database.close();
    await rm(dir, { recursive: true });
  }
};
