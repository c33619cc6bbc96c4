import { type SQL, sql } from "drizzle-orm";
import type { Database, Executor } from "../database/database.ts";
import {
  currentTimeline,
  readDatabaseIdentity,
  type ServerIdentity,
  serverStart,
} from "../database/identity.ts";
import { nextXid, oldestXid, orNull, type RowOf, readRow } from "../database/statements.ts";
import type { DamagedBlock } from "../ingest/stored-envelope.ts";
import {
  addHostLosses,
  addRejections,
  type ExportDeadLetter,
  insertDeadLetters,
  type RejectedEnvelope,
} from "./dead-letters.ts";

/** The right to export under a name, until another process takes it. */
export interface ExportLease {
  name: string;
  owner: string;
  epoch: number;
  /** Envelopes with a lower transaction id are exported. */
  position: bigint;
  /** The database to which the position refers; null: not compared. */
  identity: ServerIdentity | null;
}

/** How long a process keeps a lease without renewing it. */
export const exportLeaseMs = 6_000;

/** The lease or the position was changed by another process or by a restore of the database. */
export class ExportLeaseLost extends Error {
  override readonly name = "ExportLeaseLost";
}

/** The position refers to another server or database, as after a restore from a dump: transaction ids have another meaning here. */
export class PositionOfOtherDatabase extends Error {
  override readonly name = "PositionOfOtherDatabase";
}

/** The position refers to a stream, from which an earlier version exported: a transaction id is no sequence of it. */
export class PositionInStream extends Error {
  override readonly name = "PositionInStream";
}

/**
 * Prefix of owners that read blocks. Others do not, and the database lets them move no position in PostgreSQL
 * (drizzle/sql/export-position.sql).
 */
const blockReader = "blocks ";

const leaseUntil = sql`clock_timestamp() + make_interval(secs => ${exportLeaseMs / 1000})`;

/**
 * Creates the position of an export unless it exists: before all stored envelopes, or after all that were stored before the oldest open
 * transaction began. Throws `PositionInStream`.
 */
export const createExportPosition = async (
  db: Database,
  name: string,
  start: "oldest" | "now",
): Promise<void> => {
  // Rows from a dump are below all ids (renumber-envelopes.ts).
  const position =
    start === "now"
      ? oldestXid
      : sql`least(0, (select min(xid) from ingest_block where xid < 0), (select min(xid) from ingest_envelope where xid < 0))`;
  await db.execute(sql`
    insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, updated_at)
    values (${name}, ${position}, clock_timestamp(), clock_timestamp(), 0, 0, 0, 0, clock_timestamp()) on conflict do nothing`);
  const row = await readRow(
    db,
    { stream: orNull(String) },
    sql`select stream from export_position where name = ${name}`,
  );
  if (row?.stream) throw new PositionInStream();
};

/** The result of an attempt to take a lease. */
type AcquiredLease =
  /** `leftTimeline`: the timeline of the stored position, if the server is on another one now. */
  | { lease: ExportLease; leftTimeline: number | null }
  /** Another process has it until then, as the database formats it. */
  | { lease: null; heldUntil: string | undefined };

const acquiredLease = {
  epoch: Number,
  position: BigInt,
  systemIdentifier: orNull(String),
  databaseOid: orNull(String),
  timeline: orNull(Number),
  isAhead: Boolean,
};

/**
 * Takes the lease if nobody has it: if it was released, has expired by the database's clock, or still ends at `seenUntil`, which the caller
 * has observed for `exportLeaseMs` by its own clock. Returns null and the end of the lease while another process has it. Throws
 * `PositionOfOtherDatabase`.
 */
export const acquireExportLease = async (
  db: Database,
  name: string,
  { owner: process, seenUntil }: { owner: string; seenUntil?: string | undefined },
): Promise<AcquiredLease> => {
  const owner = blockReader + process;
  const identity = await readDatabaseIdentity(db);
  const acquired = await readRow(
    db,
    acquiredLease,
    sql`
    update export_position set owner = ${owner}, lease_until = ${leaseUntil}, epoch = epoch + 1, updated_at = clock_timestamp()
    where name = ${name} and ${isOn(identity)}
      and (owner is null or lease_until < clock_timestamp() or lease_until::text = ${seenUntil ?? ""})
    returning epoch, position, system_identifier, database_oid, timeline, position > ${nextXid} as is_ahead`,
  );
  if (acquired === undefined) {
    const held = await readRow(
      db,
      { until: String },
      sql`select lease_until::text as until from export_position where name = ${name}`,
    );
    return { lease: null, heldUntil: held?.until };
  }
  const { epoch, position, timeline } = acquired;
  const lease: ExportLease = { name, owner, epoch, position, identity };
  const otherDatabase = otherDatabaseOf(acquired, identity);
  if (otherDatabase) {
    await releaseExportLease(db, lease);
    throw new PositionOfOtherDatabase(otherDatabase);
  }
  await db.execute(sql`
    update export_position set system_identifier = ${identity.systemIdentifier}, database_oid = ${identity.databaseOid},
      timeline = ${identity.timeline} where ${ownsLease(lease)}`);
  const hasMoved =
    timeline !== null && identity.timeline !== null && timeline !== identity.timeline;
  return { lease, leftTimeline: hasMoved ? timeline : null };
};

/**
 * Returns where a position is from if not from this database. Its timeline may differ, because a copy has the position of its rows.
 */
const otherDatabaseOf = (
  { systemIdentifier, databaseOid, isAhead }: RowOf<typeof acquiredLease>,
  identity: ServerIdentity,
): string | undefined => {
  const isOtherServer =
    systemIdentifier !== null &&
    identity.systemIdentifier !== null &&
    systemIdentifier !== identity.systemIdentifier;
  if (isOtherServer) return "is one of another server";
  if (databaseOid !== null && databaseOid !== identity.databaseOid)
    return "is one of another database";
  return isAhead ? "is ahead of this server" : undefined;
};

/**
 * Reports whether the server is on the timeline of `identity` and was not started since. Otherwise, after a failover or on restored files, it may
 * assign the same ids again. Every start counts, because a restore to the same timeline leaves no other trace.
 */
const isOn = (identity: ServerIdentity | null) => {
  if (identity === null) return sql`true`;
  const isStarted = sql`${serverStart} = ${identity.startedAt}`;
  return identity.timeline === null
    ? isStarted
    : sql`${isStarted} and ${currentTimeline} = ${identity.timeline}`;
};

const ownsLease = ({ name, owner, epoch, identity }: ExportLease) =>
  sql`name = ${name} and owner = ${owner} and epoch = ${epoch} and ${isOn(identity)}`;

/** Extends a lease and stores why requests currently fail. Throws `ExportLeaseLost`. */
export const renewExportLease = async (
  db: Executor,
  lease: ExportLease,
  lastError: string | null,
): Promise<void> => {
  await updateOwned(db, lease, sql`lease_until = ${leaseUntil}, last_error = ${lastError}`);
};

/** Changes the position of a lease. Throws `ExportLeaseLost`. */
const updateOwned = async (db: Executor, lease: ExportLease, change: SQL) => {
  const rows = await db.execute(sql`
    update export_position set ${change}, updated_at = clock_timestamp() where ${ownsLease(lease)} returning name`);
  if (rows.length === 0) throw new ExportLeaseLost("another process exports under this name");
};

/** Releases a lease, so that another process need not wait for its end. */
export const releaseExportLease = async (db: Executor, lease: ExportLease): Promise<void> => {
  await db.execute(
    sql`update export_position set owner = null where ${ownsLease({ ...lease, identity: null })}`,
  );
};

/** The outcome of envelopes that were read together. */
export interface ChunkOutcome {
  exported: number;
  rejectedItems: number;
  /** Blocks whose envelopes are lost. */
  damaged: readonly DamagedBlock[];
  deadLetters: readonly ExportDeadLetter[];
  /** Envelopes that the backend rejected and that are not kept, because their hosts have reached their limit of dead letters. */
  dropped: readonly ExportDeadLetter[];
  /** Items that the backend rejected of otherwise accepted envelopes: of one host, up to the named envelope. */
  partial: readonly RejectedEnvelope[];
}

/** The outcome of nothing. */
export const noOutcome: ChunkOutcome = {
  exported: 0,
  rejectedItems: 0,
  damaged: [],
  deadLetters: [],
  dropped: [],
  partial: [],
};

/** The new position of an export, and its counts since the previous one. */
interface ExportProgress extends ChunkOutcome {
  position: bigint;
  /** Envelopes that the position moves past. */
  passed: number;
}

/**
 * Moves the position of a lease and stores the dead letters in one transaction; changes `lease` accordingly. Throws `ExportLeaseLost` when
 * another process took the lease, or the database is not where this process left it, as after a failover. Moves the position last: its row
 * is then locked only briefly, however many letters there are, and the lease can be renewed meanwhile.
 */
export const moveExportPosition = async (
  db: Database,
  lease: ExportLease,
  progress: ExportProgress,
): Promise<void> => {
  const { position, passed, exported, rejectedItems, deadLetters, dropped, partial, damaged } =
    progress;
  const lost = damaged.reduce((sum, { envelopes }) => sum + envelopes, 0);
  await db.transaction(async (tx) => {
    await insertDeadLetters(tx, lease.name, deadLetters);
    await addHostLosses(tx, lease.name, dropped);
    await addRejections(tx, lease.name, [...deadLetters, ...dropped, ...partial]);
    const rows = await tx.execute(sql`
      update export_position set position = ${position}::bigint,
        passed = passed + ${passed - lost}::bigint, exported = exported + ${exported}::bigint,
        rejected_items = rejected_items + ${rejectedItems}::bigint, lost = lost + ${lost}::bigint, updated_at = clock_timestamp()
      where ${ownsLease(lease)} and position = ${lease.position}::bigint and ${position}::bigint <= ${nextXid} returning name`);
    if (rows.length === 0)
      throw new ExportLeaseLost("the position is not where this process left it");
  });
  Object.assign(lease, { position });
};

/**
 * Returns the oldest transaction id in use: every transaction below it has ended. Throws `ExportLeaseLost` on another timeline, and after
 * the server was started again.
 */
export const readHorizon = async (
  db: Executor,
  { identity }: Pick<ExportLease, "identity">,
): Promise<bigint> => {
  const row = await readRow(
    db,
    { horizon: BigInt },
    sql`select ${oldestXid} as horizon where ${isOn(identity)}`,
  );
  if (row === undefined)
    throw new ExportLeaseLost("the server is on another timeline, or was started anew");
  return row.horizon;
};
