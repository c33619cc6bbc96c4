import { and, desc, eq, isNotNull, type SQLWrapper, sql } from "drizzle-orm";
import { ingestAccount } from "#drizzle/schema/account.ts";
import { certificate, collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { ingestCursor } from "#drizzle/schema/ingest.ts";
import type { Executor } from "../database/database.ts";
import {
  arrayLiteral,
  firstRow,
  hasRows,
  readOne,
  readRows,
  texts,
  timestamptz,
} from "../database/statements.ts";
import { isQueue, type QueueName } from "./queues.ts";

/** A row of `ingest_account`, as it is inserted. */
export type AccountInsert = Omit<typeof ingestAccount.$inferInsert, "xid">;

/** What core knows of a queue when an account of it arrives: the last one, and the counts since, undefined for an unknown queue. */
export type AccountState = Awaited<ReturnType<typeof readForAccount>>;

/** The account that the next account of a queue follows. */
export type LastAccount = NonNullable<Awaited<ReturnType<typeof findLastAccount>>>;

const rangeColumns = {
  cursor: ingestCursor.cursor,
  /** The session that opened it last. */
  sessionId: ingestCursor.sessionId,
  stored: ingestCursor.rangeStored,
  rejected: ingestCursor.rangeRejected,
  discarded: ingestCursor.rangeDiscarded,
  lost: ingestCursor.rangeLost,
  digest: ingestCursor.rangeDigest,
  /** The cursor up to which it is counted; null if it is not counted. */
  countedThrough: ingestCursor.countedThrough,
};

const ofQueue = ({ hostId, queueId }: QueueName) =>
  and(eq(ingestAccount.hostId, hostId), eq(ingestAccount.queueId, queueId));

/** Returns the counts of a queue and its last account. Locks the queue until the transaction ends, unless `isLocking` is false. */
export const readForAccount = async (
  tx: Executor,
  queue: QueueName,
  { isLocking } = { isLocking: true },
) => {
  const select = tx.select(rangeColumns).from(ingestCursor).where(isQueue(queue));
  const [range] = await (isLocking ? select.for("no key update") : select);
  return { range, last: await findLastAccount(tx, queue) };
};

/** Finds the account that the next one of a queue follows. */
const findLastAccount = (tx: Executor, queue: QueueName) =>
  firstRow(
    tx
      .select({
        number: ingestAccount.number,
        sha256: ingestAccount.sha256,
        lastSequence: ingestAccount.lastSequence,
      })
      .from(ingestAccount)
      .where(and(ofQueue(queue), eq(ingestAccount.isLinked, true)))
      .orderBy(desc(ingestAccount.number))
      .limit(1),
  );

/** Reports whether core has this account; without a number, any account of the queue. */
export const hasAccount = (
  tx: Executor,
  {
    number,
    sha256,
    ...queue
  }: Pick<AccountInsert, "hostId" | "queueId" | "sha256"> & { number?: bigint },
): Promise<boolean> =>
  hasRows(
    tx
      .select({ number: ingestAccount.number })
      .from(ingestAccount)
      .where(
        and(
          ofQueue(queue),
          number === undefined ? undefined : eq(ingestAccount.number, number),
          eq(ingestAccount.sha256, sha256),
        ),
      ),
  );

/** Reports whether core has refused an account of a queue, as when two copies of it have sent under one id. */
export const hasRefusedAccount = (tx: Executor, queue: QueueName): Promise<boolean> =>
  hasRows(
    tx
      .select({ number: ingestAccount.number })
      .from(ingestAccount)
      .where(and(ofQueue(queue), isNotNull(ingestAccount.refused)))
      .limit(1),
  );

/** Returns how many sequences accounts of a host's queues have as lost that have the time and the range of `account`. */
export const sumLostOfTime = async (
  tx: Executor,
  {
    hostId,
    fromMs,
    toMs,
    lastSequence,
    accepted,
  }: Pick<AccountInsert, "hostId" | "lastSequence" | "accepted"> & { fromMs: number; toMs: number },
  queueIds: readonly Uint8Array[],
): Promise<bigint> => {
  const { lost } = await readOne(
    tx,
    { lost: BigInt },
    sql`
    select coalesce(sum(lost), 0) as lost from ingest_account
    where host_id = ${hostId} and queue_id = any(${arrayLiteral(queueIds)}::bytea[]) and from_at = ${timestamptz(fromMs)}
      and to_at = ${timestamptz(toMs)} and last_sequence = ${lastSequence}::bigint and accepted = ${accepted}::bigint`,
  );
  return lost;
};

/** Inserts an account. */
export const insertAccount = async (tx: Executor, row: AccountInsert): Promise<void> => {
  await tx.insert(ingestAccount).values({ ...row, xid: sql`pg_current_xact_id()::text::bigint` });
};

/** Subtracts an account's counts from those of its locked queue. Counting continues from its cursor, unless `isCounted` is false. */
export const takeFromRange = async (
  tx: Executor,
  queue: QueueName,
  counts: Pick<NonNullable<AccountState["range"]>, "stored" | "rejected" | "discarded" | "lost">,
  isCounted: boolean,
): Promise<void> => {
  const less = (column: SQLWrapper, count: bigint) => sql`${column} - ${count}::bigint`;
  await tx
    .update(ingestCursor)
    .set({
      rangeStored: less(ingestCursor.rangeStored, counts.stored),
      rangeRejected: less(ingestCursor.rangeRejected, counts.rejected),
      rangeDiscarded: less(ingestCursor.rangeDiscarded, counts.discarded),
      rangeLost: less(ingestCursor.rangeLost, counts.lost),
      rangeDigest: null,
      countedThrough: isCounted ? sql`${ingestCursor.cursor}` : null,
    })
    .where(isQueue(queue));
};

/** Finds the ranges of a host's queues that restored databases are known to have lost. */
export const findLostRanges = async (
  tx: Executor,
  hostId: string,
  queueIds: readonly Uint8Array[],
): Promise<{ from: bigint; through: bigint }[]> =>
  readRows(
    tx,
    { from: BigInt, through: BigInt },
    sql`
    select details->>'from' as from, details->>'through' as through from audit_event
    where action = 'ingest.gap' and actor_display = ${hostId}
      and details->>'queue_id' = any(${texts(queueIds.map((id) => id.toHex()))})`,
  );

/** Counts the stored envelopes of a range. Accounts end where blocks end. */
export const countStoredWithin = async (
  tx: Executor,
  { hostId, queueId }: QueueName,
  { firstSequence, lastSequence }: { firstSequence: bigint; lastSequence: bigint },
): Promise<bigint> => {
  const { stored } = await readOne(
    tx,
    { stored: BigInt },
    sql`
    select coalesce(sum(envelopes), 0) as stored from ingest_block
    where host_id = ${hostId} and queue_id = ${queueId} and first_sequence >= ${firstSequence}::bigint
      and last_sequence <= ${lastSequence}::bigint`,
  );
  return stored;
};

/** Finds a certificate that core has issued to a host by its fingerprint. */
export const findHostCertificate = (
  db: Executor,
  identity: string,
  fingerprintSha256: Uint8Array,
): Promise<{ certificatePem: string; revokedAt: Date | null } | undefined> =>
  firstRow(
    db
      .select({ certificatePem: certificate.certificatePem, revokedAt: certificate.revokedAt })
      .from(certificate)
      .innerJoin(collectorIdentity, eq(collectorIdentity.id, certificate.identityId))
      .where(
        and(
          eq(certificate.fingerprintSha256, fingerprintSha256),
          eq(collectorIdentity.identity, identity),
        ),
      ),
  );
