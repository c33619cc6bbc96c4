import { and, asc, desc, eq, gte, isNull, lt, sql } from "drizzle-orm";
import {
  completenessChunk,
  completenessHead,
  completenessLog,
  completenessStatement,
} from "#drizzle/schema/completeness.ts";
import type { Executor } from "../database/database.ts";
import { firstRow, hasRows, inserterOf } from "../database/statements.ts";

/** A statement of an hour. */
export type StatementRow = typeof completenessStatement.$inferSelect;

/** Lines of a statement. */
type ChunkRow = typeof completenessChunk.$inferSelect;

/** A head of the log. */
type HeadRow = typeof completenessHead.$inferSelect;

/** Finds the newest statement. */
export const findLastStatement = (db: Executor): Promise<StatementRow | undefined> =>
  firstRow(
    db.select().from(completenessStatement).orderBy(desc(completenessStatement.hour)).limit(1),
  );

/** Finds the first hour that has a statement. */
export const findFirstHour = async (db: Executor): Promise<Date | undefined> => {
  const { hour } = completenessStatement;
  const [row] = await db.select({ hour }).from(completenessStatement).orderBy(asc(hour)).limit(1);
  return row?.hour;
};

/** Finds the statement of an hour. */
export const findStatement = (db: Executor, hour: Date): Promise<StatementRow | undefined> =>
  firstRow(db.select().from(completenessStatement).where(eq(completenessStatement.hour, hour)));

/**
 * Takes the right to write for a minute, or extends it, so that one core at a time writes. A core that was paused may continue without it:
 * the transaction of its statement then fails (`lockWriter`).
 */
export const claimWriter = (db: Executor, owner: string): Promise<boolean> =>
  hasRows(
    db.execute(sql`
    insert into completeness_writer (singleton, owner, until) values (true, ${owner}::uuid, clock_timestamp() + interval '1 minute')
    on conflict (singleton) do update set owner = excluded.owner, until = excluded.until
      where completeness_writer.owner = excluded.owner or completeness_writer.until < clock_timestamp()
    returning owner`),
  );

/** Locks the right to write until the transaction ends; returns whether `owner` still has it. */
export const lockWriter = (tx: Executor, owner: string): Promise<boolean> =>
  hasRows(
    tx.execute(
      sql`select owner from completeness_writer where owner = ${owner}::uuid and until > clock_timestamp() for update`,
    ),
  );

/** Releases the right to write. */
export const releaseWriter = async (db: Executor, owner: string) => {
  await db.execute(
    sql`update completeness_writer set until = '-infinity' where owner = ${owner}::uuid`,
  );
};

/** Inserts lines of a statement. */
export const insertChunk = inserterOf(completenessChunk);

/** Deletes the lines of attempts that became no statement. Only the core that writes may call it. */
export const deleteUnfinishedChunks = async (db: Executor) => {
  await db.execute(sql`
    delete from completeness_chunk c where not exists (select from completeness_statement s where s.id = c.statement_id)`);
};

/** Deletes the lines of the oldest statement whose hour is before `before`; the log keeps its entry. Returns its hour. */
export const deleteOldLines = async (db: Executor, before: Date): Promise<Date | undefined> => {
  const [row] = await db
    .select({ id: completenessStatement.id, hour: completenessStatement.hour })
    .from(completenessStatement)
    .where(
      and(
        lt(completenessStatement.hour, before),
        sql`exists (select from completeness_chunk c where c.statement_id = ${completenessStatement.id})`,
      ),
    )
    .orderBy(asc(completenessStatement.hour))
    .limit(1);
  if (row) await db.delete(completenessChunk).where(eq(completenessChunk.statementId, row.id));
  return row?.hour;
};

/** Appends a statement and its entry to the log. */
export const insertStatement = async (
  tx: Executor,
  row: typeof completenessStatement.$inferInsert,
  entry: { text: string; hash: Uint8Array },
) => {
  await tx.insert(completenessStatement).values(row);
  await tx
    .insert(completenessLog)
    .values({ index: row.entryIndex, entry: entry.text, hash: entry.hash });
};

/** Returns the hashes of the first `size` entries of the log, or of all. */
export const listLogHashes = async (db: Executor, size?: number): Promise<Uint8Array[]> => {
  const rows = await db
    .select({ hash: completenessLog.hash })
    .from(completenessLog)
    .where(size === undefined ? undefined : lt(completenessLog.index, size))
    .orderBy(asc(completenessLog.index));
  return rows.map(({ hash }) => hash);
};

/** Returns entries of the log from `from` on. */
export const listLogEntries = async (
  db: Executor,
  from: number,
  limit: number,
): Promise<string[]> => {
  const rows = await db
    .select({ entry: completenessLog.entry })
    .from(completenessLog)
    .where(gte(completenessLog.index, from))
    .orderBy(asc(completenessLog.index))
    .limit(limit);
  return rows.map(({ entry }) => entry);
};

/** Finds the newest head of the log. */
export const findLogHead = (db: Executor): Promise<HeadRow | undefined> =>
  firstRow(db.select().from(completenessHead).orderBy(desc(completenessHead.size)).limit(1));

/** Inserts a head. */
export const insertLogHead = inserterOf(completenessHead);

/** Stores the signature of a head that has none; returns whether it had none. */
export const signLogHead = (tx: Executor, size: number, note: string): Promise<boolean> =>
  hasRows(
    tx
      .update(completenessHead)
      .set({ note })
      .where(and(eq(completenessHead.size, size), isNull(completenessHead.note)))
      .returning({ size: completenessHead.size }),
  );

/** Lists the chunks of a statement from the line `fromLine` on. */
export const listChunks = (
  db: Executor,
  { id, fromLine, limit }: { id: string; fromLine: number; limit: number },
): Promise<ChunkRow[]> =>
  db
    .select()
    .from(completenessChunk)
    .where(and(eq(completenessChunk.statementId, id), gte(completenessChunk.firstLine, fromLine)))
    .orderBy(asc(completenessChunk.firstLine))
    .limit(limit);
