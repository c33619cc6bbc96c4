/**
 * Makes the positions of exports those of this database, after a restore from a dump. The rows of the dump have the transaction ids of the server
 * that it was taken from, which mean something else here. They move below zero, by one number, with the positions: so they keep their
 * order, stay in front of all that is stored here, and an export goes on where it was. Accounts of hosts move with them: an export has delivered
 * the range of one that its position has passed.
 */
import { sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";
import { readDatabaseIdentity } from "../database/identity.ts";
import { nextXid } from "../database/statements.ts";

/** What `adoptExports` has done. */
interface AdoptedExports {
  /** Envelopes that came with a dump, and whose blocks are numbered anew. */
  renumbered: number;
  /** The exports whose positions were of another database. */
  adopted: string[];
}

/** A row that was copied here has been written by another transaction than the one that it names. Its frozen form keeps that. */
const isCopied = sql.raw("xmin::text::bigint <> (xid & 4294967295)");

/** Numbers the rows of a dump anew and adopts the positions of other databases, in one transaction; again, it does nothing. */
export const adoptExports = async (db: Database): Promise<AdoptedExports> => {
  const { systemIdentifier, databaseOid, timeline } = await readDatabaseIdentity(db);
  return db.transaction(async (tx) => {
    // No process that exports moves its position meanwhile.
    await tx.execute(sql`lock table export_position in share row exclusive mode`);
    const [found] = await tx.execute<{ highest: string; copied: string }>(sql`
      select coalesce(max(xid), -1)::text as highest, count(*) filter (where xid >= 0)::text as copied
      from (select xid from ingest_block where ${isCopied} union all select xid from ingest_envelope where ${isCopied}
        union all select xid from ingest_account where ${isCopied}) as stored`);
    const copied = Number(found?.copied ?? 0);
    const isElsewhere = sql`stream is null and (
      position > ${nextXid} or system_identifier <> ${systemIdentifier} or database_oid <> ${databaseOid}
      or (database_oid is null and ${copied} > 0))`;
    const [top] = await tx.execute<{ highest: string }>(sql`
      select coalesce(max(position), 0)::text as highest from export_position where ${isElsewhere}`);
    const shift =
      [BigInt(found?.highest ?? -1), BigInt(top?.highest ?? 0)].reduce((a, b) => (a > b ? a : b)) +
      1n;
    const moved = await tx.execute<{ name: string }>(sql`
      update export_position set position = position - ${String(shift)}::bigint, owner = null, stored_before = null,
        system_identifier = ${systemIdentifier}, database_oid = ${databaseOid}, timeline = ${timeline}
      where ${isElsewhere} returning name`);
    const adopted = moved.map(({ name }) => name);
    // Those below zero are of an earlier run, unless they came with this dump: then its positions did, too.
    if (copied === 0 && adopted.length === 0) return { renumbered: 0, adopted };
    const [blocks] = await tx.execute<{ envelopes: string }>(sql`
      with moved as (update ingest_block set xid = xid - ${String(shift)}::bigint where ${isCopied} returning envelopes)
      select coalesce(sum(envelopes), 0)::text as envelopes from moved`);
    const { count } = await tx.execute(
      sql`update ingest_envelope set xid = xid - ${String(shift)}::bigint where ${isCopied}`,
    );
    await renumberAccounts(tx, shift, { withStatement: adopted.length > 0 });
    return { renumbered: Number(blocks?.envelopes ?? 0) + count, adopted };
  });
};

/** Moves the accounts of a dump, the hours whose delivery waits for one of them, and up to where statements state what is delivered. */
const renumberAccounts = async (
  tx: Executor,
  shift: bigint,
  { withStatement }: { withStatement: boolean },
) => {
  const by = sql`${String(shift)}::bigint`;
  await tx.execute(sql`update ingest_account set xid = xid - ${by} where ${isCopied}`);
  await tx.execute(sql`
    update completeness_day d set xid = d.xid - ${by}
    where exists (select from ingest_account a where a.host_id = d.host_id and a.xid = d.xid - ${by})`);
  if (withStatement)
    await tx.execute(sql`
      update completeness_statement set delivered_below = delivered_below - ${by}
      where hour = (select max(hour) from completeness_statement)`);
};
