import { and, desc, eq, sql } from "drizzle-orm";
import { ingestAccount } from "../../../drizzle/schema/account.ts";
import { certificate, collectorIdentity } from "../../../drizzle/schema/certificate.ts";
import { ingestCursor } from "../../../drizzle/schema/ingest.ts";
import type { Executor } from "../database/database.ts";
import type { QueueName } from "./cursors.ts";

/** A row of `ingest_account`, as it is inserted. */
export type AccountInsert = Omit<typeof ingestAccount.$inferInsert, "xid">;

/** What core has of a queue whose account arrives. */
export interface AccountState {
  /** The account that the next one follows. */
  last: { number: bigint; sha256: Uint8Array; lastSequence: bigint } | undefined;
  /** What is counted since then; undefined for a queue that core does not know. */
  range:
    | {
        cursor: bigint;
        stored: bigint;
        rejected: bigint;
        discarded: bigint;
        lost: bigint;
        digest: Uint8Array | null;
        countedThrough: bigint | null;
      }
    | undefined;
}

const isQueue = ({ hostId, queueId }: QueueName) =>
  and(eq(ingestCursor.hostId, hostId), eq(ingestCursor.queueId, queueId));

/** Locks a queue until the transaction ends; returns what is counted of it and its last account. */
export const lockForAccount = async (tx: Executor, queue: QueueName): Promise<AccountState> => {
  const [row] = await tx.select().from(ingestCursor).where(isQueue(queue)).for("no key update");
  const [last] = await tx
    .select({
      number: ingestAccount.number,
      sha256: ingestAccount.sha256,
      lastSequence: ingestAccount.lastSequence,
    })
    .from(ingestAccount)
    .where(
      and(
        eq(ingestAccount.hostId, queue.hostId),
        eq(ingestAccount.queueId, queue.queueId),
        eq(ingestAccount.isLinked, true),
      ),
    )
    .orderBy(desc(ingestAccount.number))
    .limit(1);
  const range = row && {
    cursor: row.cursor,
    stored: row.rangeStored,
    rejected: row.rangeRejected,
    discarded: row.rangeDiscarded,
    lost: row.rangeLost,
    digest: row.rangeDigest,
    countedThrough: row.countedThrough,
  };
  return { last, range };
};

/** Whether core has this account. */
export const hasAccount = async (
  tx: Executor,
  { hostId, queueId, number, sha256 }: Pick<AccountInsert, "hostId" | "queueId" | "number" | "sha256">,
): Promise<boolean> => {
  const rows = await tx
    .select({ number: ingestAccount.number })
    .from(ingestAccount)
    .where(
      and(
        eq(ingestAccount.hostId, hostId),
        eq(ingestAccount.queueId, queueId),
        eq(ingestAccount.number, number),
        eq(ingestAccount.sha256, sha256),
      ),
    );
  return rows.length > 0;
};

/** Inserts an account. */
export const insertAccount = async (tx: Executor, row: AccountInsert): Promise<void> => {
  await tx.insert(ingestAccount).values({ ...row, xid: sql`pg_current_xact_id()::text::bigint` });
};

/** Begins to count a locked queue anew. */
export const beginRange = async (tx: Executor, queue: QueueName): Promise<void> => {
  await tx
    .update(ingestCursor)
    .set({
      ...{ rangeStored: 0n, rangeRejected: 0n, rangeDiscarded: 0n, rangeLost: 0n, rangeDigest: null },
      countedThrough: sql`${ingestCursor.cursor}`,
    })
    .where(isQueue(queue));
};

/** A certificate that core has issued to a host. */
export interface HostCertificate {
  certificatePem: string;
  revokedAt: Date | null;
}

/** Finds a certificate of a host by its fingerprint. */
export const findHostCertificate = async (
  db: Executor,
  identity: string,
  fingerprintSha256: Uint8Array,
): Promise<HostCertificate | undefined> => {
  const [row] = await db
    .select({ certificatePem: certificate.certificatePem, revokedAt: certificate.revokedAt })
    .from(certificate)
    .innerJoin(collectorIdentity, eq(collectorIdentity.id, certificate.identityId))
    .where(and(eq(certificate.fingerprintSha256, fingerprintSha256), eq(collectorIdentity.identity, identity)));
  return row;
};
