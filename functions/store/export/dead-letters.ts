import { and, asc, eq, getTableColumns, gt, inArray, sql } from "drizzle-orm";
import { collectorIdentity } from "../../../drizzle/schema/certificate.ts";
import { exportDeadLetter, exportHostLoss } from "../../../drizzle/schema/export.ts";
import type { Database, Executor } from "../database/database.ts";
import type { StoredEnvelope } from "../ingest/stored-envelope.ts";
import { addRejections, type RejectedEnvelope, takeRejections } from "./rejections.ts";

/** A dead letter as the table has it. */
export type StoredDeadLetter = typeof exportDeadLetter.$inferSelect;

/** An envelope that the backend rejected for good, and why. */
export interface ExportDeadLetter extends RejectedEnvelope {
  envelope: StoredEnvelope;
  reason: string;
}

/** The bounds of one insert: ten thousand letters need some twenty statements, and one of large payloads no more memory than a chunk. */
const insertRowsMax = 500;
const insertBytesMax = 4 * 1024 * 1024;

/** Stores dead letters. */
export const insertDeadLetters = async (
  tx: Executor,
  name: string,
  letters: readonly ExportDeadLetter[],
): Promise<void> => {
  let part: ExportDeadLetter[] = [];
  let bytes = 0;
  const insert = async (): Promise<void> => {
    const failedAt = sql`clock_timestamp()`;
    if (part.length > 0)
      await tx.insert(exportDeadLetter).values(
        part.map(({ envelope, reason, items = null }) => ({
          ...envelope,
          name,
          observedAt: envelope.observedAt === null ? null : dateOf(envelope.observedAt),
          receivedAt: dateOf(envelope.receivedAt),
          reason,
          failedAt,
          rejectedItems: items,
        })),
      );
    part = [];
    bytes = 0;
  };
  for (const letter of letters) {
    part.push(letter);
    bytes += letter.envelope.payload.length;
    if (part.length >= insertRowsMax || bytes >= insertBytesMax) await insert();
  }
  await insert();
};

const dateOf = (microseconds: bigint): Date => new Date(Number(microseconds / 1000n));

/** Adds envelopes that are kept nowhere to the count of their hosts. */
export const addHostLosses = async (
  tx: Executor,
  name: string,
  dropped: readonly ExportDeadLetter[],
): Promise<void> => {
  // In one order, so that exports cannot deadlock.
  const hosts = [...Map.groupBy(dropped, ({ envelope }) => envelope.hostId)].sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  for (const [hostId, letters] of hosts)
    await tx
      .insert(exportHostLoss)
      .values({
        name,
        hostId,
        envelopes: letters.length,
        reason: letters.at(-1)?.reason ?? "",
        lastAt: sql`clock_timestamp()`,
      })
      .onConflictDoUpdate({
        target: [exportHostLoss.hostId, exportHostLoss.name],
        set: {
          envelopes: sql`${exportHostLoss.envelopes} + excluded.envelopes`,
          reason: sql`excluded.reason`,
          lastAt: sql`excluded.last_at`,
        },
      });
};

/** What a host has lost in an export. */
export type HostLoss = typeof exportHostLoss.$inferSelect;

/** Finds what an enrolled host has lost, by export. */
export const findHostLosses = (db: Executor, identityId: string): Promise<HostLoss[]> =>
  db
    .select(getTableColumns(exportHostLoss))
    .from(exportHostLoss)
    .innerJoin(collectorIdentity, eq(collectorIdentity.identity, exportHostLoss.hostId))
    .where(eq(collectorIdentity.id, identityId))
    .orderBy(exportHostLoss.name);

/** Returns how many dead letters of an export each host has. */
export const countDeadLetters = async (
  db: Executor,
  name: string,
): Promise<Map<string, number>> => {
  const rows = await db
    .select({ hostId: exportDeadLetter.hostId, letters: sql<string>`count(*)` })
    .from(exportDeadLetter)
    .where(eq(exportDeadLetter.name, name))
    .groupBy(exportDeadLetter.hostId);
  return new Map(rows.map(({ hostId, letters }) => [hostId, Number(letters)]));
};

/** Returns how many hosts have sent within a day before the last one that did: no clock says who sends. */
export const countSendingHosts = async (db: Executor): Promise<number> => {
  const [row] = await db.execute<{ hosts: string }>(sql`
    select count(*) as hosts from ingest_host
    where last_envelope_at > (select max(last_envelope_at) from ingest_host) - interval '1 day'`);
  return Number(row?.hosts ?? 0);
};

/** Payloads may have megabytes. */
const pageRows = 20;

/** Yields the dead letters of an export, the oldest first, a page at a time; also while the pages before are deleted. */
export async function* readDeadLetters(
  db: Database,
  name: string,
): AsyncGenerator<StoredDeadLetter[]> {
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
    hostId,
    queueId,
    sequence,
    kind,
    source,
    attributes,
    payload,
    observedAt: letter.observedAt && microseconds(letter.observedAt),
    receivedAt: microseconds(letter.receivedAt),
  };
};

/** Deletes dead letters that a backend has accepted, but for the items in `partial`, and counts their accounts anew. */
export const deleteDeadLetters = async (
  db: Database,
  name: string,
  {
    letters,
    partial,
  }: { letters: readonly StoredDeadLetter[]; partial: readonly RejectedEnvelope[] },
): Promise<void> => {
  if (letters.length === 0) return;
  await db.transaction(async (tx) => {
    const ids = letters.map(({ id }) => id);
    await tx.delete(exportDeadLetter).where(inArray(exportDeadLetter.id, ids));
    const taken = letters.map((envelope) => ({
      envelope,
      items: envelope.rejectedItems ?? undefined,
    }));
    await takeRejections(tx, name, taken);
    await addRejections(tx, name, partial);
  });
};

/** Notes that a backend rejected a dead letter again, and why. */
export const noteRejection = async (
  db: Database,
  id: number,
  reason: string,
  failedAt: Date,
): Promise<void> => {
  await db.update(exportDeadLetter).set({ reason, failedAt }).where(eq(exportDeadLetter.id, id));
};
