import { eq, sql } from "drizzle-orm";
import { databaseLineage } from "#drizzle/schema/deployment.ts";
import { directorySync } from "#drizzle/schema/operator.ts";
import type { Executor } from "./database.ts";
import { asDate, readRow } from "./statements.ts";

/** The lineage that a database stores. */
type LineageRow = Omit<typeof databaseLineage.$inferSelect, "singleton" | "writtenXid">;

/** The lineage of a database as found. */
export interface FoundLineage extends LineageRow {
  /** Whether this row was written here, not copied by a dump, a COPY or logical replication. */
  isOriginal: boolean;
}

/** What a core remembers of a database: both numbers only grow. */
export interface LineageState {
  epoch: number;
  /** Number of directory syncs and pushes. */
  syncs: number;
}

/** Finds the lineage, undefined in a database that no core with lineages has used, and the number of directory syncs and pushes. */
export const findLineage = async (
  db: Executor,
): Promise<{ lineage: FoundLineage | undefined; syncs: number }> => {
  const [row] = await db.select({ syncs: directorySync.syncs }).from(directorySync);
  const [found] = await db
    .select({
      lineage: databaseLineage,
      // A frozen row keeps its xmin.
      isOriginal: sql<boolean>`${sql.raw("database_lineage.xmin")}::text::bigint = (${databaseLineage.writtenXid} & 4294967295)`,
    })
    .from(databaseLineage);
  if (found === undefined) return { lineage: undefined, syncs: row?.syncs ?? 0 };
  const { singleton: _, writtenXid: __, ...lineage } = found.lineage;
  return { lineage: { ...lineage, isOriginal: found.isOriginal }, syncs: row?.syncs ?? 0 };
};

/** Replaces the lineage. Not in a savepoint, which would have a transaction id of its own. */
export const saveLineage = async (tx: Executor, row: LineageRow) => {
  const written = { ...row, writtenXid: sql`pg_current_xact_id()::text::bigint` };
  const target = databaseLineage.singleton;
  await tx.insert(databaseLineage).values(written).onConflictDoUpdate({ target, set: written });
};

/** Returns the name of this database in an object store: that of each database that is restored from it too. */
export const readLineageName = async (db: Pick<Executor, "execute">): Promise<string> => {
  const row = await readRow(
    db,
    { tenantId: String, createdAt: asDate },
    sql`select tenant_id, created_at from deployment`,
  );
  if (row === undefined) throw new Error("the database belongs to no deployment");
  return `${row.tenantId}/${row.createdAt.toISOString()}`;
};

/** Returns when core last detected a restore; null if never. */
export const findRestoredAt = async (db: Executor): Promise<Date | null> => {
  const [row] = await db
    .select({ restoredAt: databaseLineage.restoredAt })
    .from(databaseLineage)
    .where(eq(databaseLineage.singleton, true));
  return row?.restoredAt ?? null;
};
