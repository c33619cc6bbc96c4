import { and, asc, eq, gt, inArray } from "drizzle-orm";
import { exportDeadLetter } from "../../drizzle/schema/export.ts";
import type { Database } from "./database.ts";
import type { StoredEnvelope } from "./read-envelopes.ts";

/** A dead letter as the table has it. */
export type StoredDeadLetter = typeof exportDeadLetter.$inferSelect;

/** Payloads may have megabytes. */
const pageRows = 20;

/** Yields the dead letters of an export, the oldest first, a page at a time; also while the pages before are deleted. */
export async function* readDeadLetters(db: Database, name: string): AsyncGenerator<StoredDeadLetter[]> {
  for (let after = 0; ; ) {
    const page = await db
      .select()
      .from(exportDeadLetter)
      .where(and(eq(exportDeadLetter.name, name), gt(exportDeadLetter.id, after)))
      .orderBy(asc(exportDeadLetter.id))
      .limit(pageRows);
    if (page.length > 0) yield page;
    if (page.length < pageRows) return;
    after = page.at(-1)?.id ?? after;
  }
}

/** Returns the envelope of a dead letter, with times in whole milliseconds. */
export const envelopeOf = (letter: StoredDeadLetter): StoredEnvelope => {
  const { hostId, queueId, sequence, kind, source, attributes, payload } = letter;
  const microseconds = (date: Date) => BigInt(date.getTime()) * 1000n;
  return {
    ...{ hostId, queueId, sequence, kind, source, attributes, payload },
    observedAt: letter.observedAt && microseconds(letter.observedAt),
    receivedAt: microseconds(letter.receivedAt),
  };
};

/** Deletes dead letters that a backend has accepted. */
export const deleteDeadLetters = async (db: Database, ids: readonly number[]): Promise<void> => {
  if (ids.length > 0) await db.delete(exportDeadLetter).where(inArray(exportDeadLetter.id, [...ids]));
};

/** Notes that a backend rejected a dead letter again, and why. */
export const noteRejection = async (db: Database, id: number, reason: string, failedAt: Date): Promise<void> => {
  await db.update(exportDeadLetter).set({ reason, failedAt }).where(eq(exportDeadLetter.id, id));
};
