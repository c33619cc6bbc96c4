import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { bytesOf, checkFormat, numberOf, queueFiles } from "./format.ts";

/** A record that core rejected, or whose checksum is wrong. */
export interface DeadLetter {
  /** Lowercase hex of the queue's id at that time. */
  queueId: string;
  sequence: number;
  /** Why it was rejected. */
  code: string;
  message: string;
  /** When it was rejected, and when its source observed it: milliseconds since the epoch. */
  rejectedAtMs: number;
  observedAtMs: number;
  kind: string;
  source: string;
  /** Their text as it is stored if it is damaged. */
  attributes: unknown;
  isDamaged: boolean;
  /** The envelope's payload; the whole envelope if it could not be decoded. */
  payload: Uint8Array;
}

/**
 * Calls `visit` with each dead letter that the queue in `dir` keeps, oldest first, also while a collector runs: does not take the queue's
 * lock and changes nothing. Throws if the queue is corrupt or of another format.
 */
export const eachDeadLetter = (dir: string, visit: (letter: DeadLetter) => void): void => {
  const path = queueFiles(dir).database;
  if (!existsSync(path)) return;
  using database = new DatabaseSync(path, { readOnly: true, timeout: 1_000 });
  checkFormat(database, dir);
  for (const row of database.prepare("SELECT * FROM dead_letter ORDER BY id").iterate())
    visit({
      queueId: bytesOf(row.queue_id).toHex(),
      sequence: numberOf(row.sequence),
      code: String(row.code),
      message: String(row.message),
      rejectedAtMs: numberOf(row.set_aside_at_ms),
      observedAtMs: numberOf(row.observed_at_ms),
      kind: String(row.kind),
      source: String(row.source),
      ...parseAttributes(String(row.attributes)),
      payload: bytesOf(row.payload),
    });
};

const parseAttributes = (text: string): Pick<DeadLetter, "attributes" | "isDamaged"> => {
  try {
    return { attributes: JSON.parse(text), isDamaged: false };
  } catch {
    return { attributes: text, isDamaged: true };
  }
};
