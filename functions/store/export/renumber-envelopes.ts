/**
 * Moves the positions of exports to this database after a restore from a dump. The rows of the dump have transaction ids of their former
 * server, which have another meaning here. This moves rows and positions below zero by the same number: they keep their order, come before
 * all that is stored here, and an export continues where it was. Accounts of hosts move with them, because an export has delivered an
 * account's range if its position is beyond it.
 */
import { sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";
import { readDatabaseIdentity } from "../database/identity.ts";
import { nextXid, readOne, readRows } from "../database/statements.ts";

/** The result of `adoptExports`. */
interface AdoptedExports {
  /** Envelopes from a dump whose blocks were renumbered. */
  renumbered: number;
  /** The exports whose positions referred to another database. */
  adopted: string[];
}

/** Another transaction wrote a row that was copied here than the row names. Freezing the row does not change that. */
const isCopied = sql.raw("xmin::text::bigint <> (xid & 4294967295)");

/** Renumbers the rows of a dump and adopts the positions of other databases, in one transaction. Idempotent. */
export const adoptExports = async (db: Database): Promise<AdoptedExports> => {
  const { systemIdentifier, databaseOid, timeline } = await readDatabaseIdentity(db);
  return db.transaction(async (tx) => {
    // Keeps exporting processes from moving their positions meanwhile.
    await tx.execute(sql`lock table export_position in share row exclusive mode`);
    const { highest, copied } = await readOne(
      tx,
      { highest: BigInt, copied: Number },
      sql`
      select coalesce(max(xid), -1) as highest, count(*) filter (where xid >= 0) as copied
      from (select xid from ingest_block where ${isCopied} union all select xid from ingest_envelope where ${isCopied}
        union all select xid from ingest_account where ${isCopied}) as stored`,
    );
    const isElsewhere = sql`stream is null and (
      position > ${nextXid} or system_identifier <> ${systemIdentifier} or database_oid <> ${databaseOid}
      or (database_oid is null and ${copied} > 0))`;
    const { shift } = await readOne(
      tx,
      { shift: BigInt },
      sql`select greatest(coalesce(max(position), 0), ${highest}::bigint) + 1 as shift from export_position where ${isElsewhere}`,
    );
    const moved = await readRows(
      tx,
      { name: String },
      sql`
      update export_position set position = position - ${shift}::bigint, owner = null, stored_before = null,
        system_identifier = ${systemIdentifier}, database_oid = ${databaseOid}, timeline = ${timeline}
      where ${isElsewhere} returning name`,
    );
    const adopted = moved.map(({ name }) => name);
    // Positions below zero are of an earlier run, unless they are from this dump, whose rows are then still to renumber.
    if (copied === 0 && adopted.length === 0) return { renumbered: 0, adopted };
    const { envelopes } = await readOne(
      tx,
      { envelopes: Number },
      sql`
      with moved as (update ingest_block set xid = xid - ${shift}::bigint where ${isCopied} returning envelopes)
      select coalesce(sum(envelopes), 0) as envelopes from moved`,
    );
    const { count } = await tx.execute(
      sql`update ingest_envelope set xid = xid - ${shift}::bigint where ${isCopied}`,
    );
    await tx.execute(
      sql`update ingest_object set xid = xid - ${shift}::bigint where state = 1 and ${isCopied}`,
    );
    await renumberAccounts(tx, shift, { withStatement: adopted.length > 0 });
    return { renumbered: envelopes + count, adopted };
  });
};

/**
 * Moves the accounts of a dump, the hours whose delivery waits for one of them, and the position up to which statements cover deliveries.
 */
const renumberAccounts = async (
  tx: Executor,
  shift: bigint,
  { withStatement }: { withStatement: boolean },
) => {
  const by = sql`${shift}::bigint`;
  await tx.execute(sql`update ingest_account set xid = xid - ${by} where ${isCopied}`);
  await tx.execute(sql`
    update completeness_day d set xid = d.xid - ${by}
    where exists (select from ingest_account a where a.host_id = d.host_id and a.xid = d.xid - ${by})`);
  if (withStatement)
    await tx.execute(sql`
      update completeness_statement set delivered_below = delivered_below - ${by}
      where hour = (select max(hour) from completeness_statement)`);
};
