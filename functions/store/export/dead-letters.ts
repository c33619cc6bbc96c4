import { and, asc, count, eq, getTableColumns, gt, inArray, type SQL, sql } from "drizzle-orm";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { exportDeadLetter, exportHostLoss } from "#drizzle/schema/export.ts";
import type { Database, Executor } from "../database/database.ts";
import { arrayLiteral, readOne } from "../database/statements.ts";
import type { StoredEnvelope } from "../ingest/stored-envelope.ts";

/** A dead letter's row. */
export type StoredDeadLetter = typeof exportDeadLetter.$inferSelect;

/** What a backend rejected permanently of an envelope, or of the envelopes up to it. */
export interface RejectedEnvelope {
  envelope: Pick<StoredEnvelope, "hostId" | "queueId" | "sequence">;
  /** The number of rejected spans, log records or data points; undefined: all of the envelope. */
  items?: number | undefined;
}

/** An envelope that the backend rejected permanently, and why. */
export interface ExportDeadLetter extends RejectedEnvelope {
  envelope: StoredEnvelope;
  reason: string;
}

/** Limits of one insert: ten thousand letters need some twenty statements, and one of large payloads no more memory than a chunk. */
const insertRowsMax = 500;
const insertBytesMax = 4 * 1024 * 1024;

/** Stores dead letters. */
export const insertDeadLetters = async (
  tx: Executor,
  name: string,
  letters: readonly ExportDeadLetter[],
): Promise<void> => {
  const failedAt = sql`clock_timestamp()`;
  for (const batch of batchesOf(letters))
    await tx.insert(exportDeadLetter).values(
      batch.map(({ envelope, reason, items = null }) => ({
        ...envelope,
        name,
        observedAt: envelope.observedAt === null ? null : dateOf(envelope.observedAt),
        receivedAt: dateOf(envelope.receivedAt),
        reason,
        failedAt,
        rejectedItems: items,
      })),
    );
};

function* batchesOf(letters: readonly ExportDeadLetter[]): Generator<ExportDeadLetter[]> {
  let batch: ExportDeadLetter[] = [];
  let bytes = 0;
  for (const letter of letters) {
    batch.push(letter);
    bytes += letter.envelope.payload.length;
    if (batch.length < insertRowsMax && bytes < insertBytesMax) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

const dateOf = (microseconds: bigint): Date => new Date(Number(microseconds / 1000n));

/** Counts envelopes that are not stored as dead letters as losses of their hosts. */
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
    .select({ hostId: exportDeadLetter.hostId, letters: count() })
    .from(exportDeadLetter)
    .where(eq(exportDeadLetter.name, name))
    .groupBy(exportDeadLetter.hostId);
  return new Map(rows.map(({ hostId, letters }) => [hostId, letters]));
};

/** Counts the hosts that have sent in the day before the newest envelope, so that no clock is needed. */
export const countSendingHosts = async (db: Executor): Promise<number> => {
  const { hosts } = await readOne(
    db,
    { hosts: Number },
    sql`
    select count(*) as hosts from ingest_host
    where last_envelope_at > (select max(last_envelope_at) from ingest_host) - interval '1 day'`,
  );
  return hosts;
};

/** Small pages, because payloads may have megabytes. */
const pageRows = 20;

/** Yields the dead letters of an export, oldest first, in pages. Earlier pages may be deleted meanwhile. */
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

/** Deletes dead letters that a backend has accepted, except the items in `partial`, and corrects the counts of their accounts. */
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

/**
 * Sums rejections by the range of sequences of an account. The collector sends an account before the envelopes of the next, so the range is
 * known even before the envelope's own account arrives.
 */
const rangesOf = (rejected: readonly RejectedEnvelope[]): SQL => {
  const arrayOf = (read: (rejection: RejectedEnvelope) => string | Uint8Array) =>
    arrayLiteral(rejected.map(read));
  return sql`
    select r.host, r.queue, coalesce(before.last_sequence, 0) as after_sequence, sum(r.envelopes) as envelopes, sum(r.items) as items
    from unnest(${arrayOf(({ envelope }) => envelope.hostId)}::text[], ${arrayOf(({ envelope }) => envelope.queueId)}::bytea[],
      ${arrayOf(({ envelope }) => String(envelope.sequence))}::bigint[], ${arrayOf(({ items }) => (items === undefined ? "1" : "0"))}::bigint[],
      ${arrayOf(({ items = 0 }) => String(items))}::bigint[]) as r (host, queue, sequence, envelopes, items)
    left join lateral (
      select last_sequence from ingest_account a
      where a.host_id = r.host and a.queue_id = r.queue and a.refused is null and a.last_sequence < r.sequence
      order by a.number desc limit 1) before on true
    group by 1, 2, 3`;
};

/** Adds rejections of an export to the counts of their accounts. */
export const addRejections = async (
  tx: Executor,
  name: string,
  rejected: readonly RejectedEnvelope[],
): Promise<void> => {
  if (rejected.length === 0) return;
  // In one order, so that exports cannot deadlock.
  await tx.execute(sql`
    insert into export_rejection (host_id, queue_id, after_sequence, name, envelopes, items, last_at)
    select host, queue, after_sequence, ${name}, envelopes, items, clock_timestamp() from (${rangesOf(rejected)}) as r order by 1, 2, 3
    on conflict (host_id, queue_id, after_sequence, name) do update set last_at = excluded.last_at,
      envelopes = export_rejection.envelopes + excluded.envelopes, items = export_rejection.items + excluded.items`);
};

/** Subtracts rejections again, because the backend has now accepted the envelopes. */
const takeRejections = async (
  tx: Executor,
  name: string,
  accepted: readonly RejectedEnvelope[],
) => {
  if (accepted.length === 0) return;
  await tx.execute(sql`
    update export_rejection e set last_at = clock_timestamp(),
      envelopes = greatest(0, e.envelopes - r.envelopes), items = greatest(0, e.items - r.items)
    from (${rangesOf(accepted)}) as r
    where e.host_id = r.host and e.queue_id = r.queue and e.after_sequence = r.after_sequence and e.name = ${name}`);
};
