import { sql } from "drizzle-orm";
import { exportDeadLetter } from "../../drizzle/schema/export.ts";
import type { Database, Executor } from "./database.ts";
import { findPartitionDays } from "./ingest-partitions.ts";
import type { StoredEnvelope } from "./read-envelopes.ts";

/** The right to export under a name, until another process takes it. */
export interface ExportLease {
  name: string;
  owner: string;
  epoch: number;
  /** The envelopes whose transaction id is below it are exported; of a stream, the messages through this sequence. */
  position: bigint;
  /** The stream that the position is a sequence of; null: PostgreSQL. */
  stream: string | null;
  /** The database's time, in milliseconds, after which everything that is not exported was received. */
  positionAt: number;
}

/** How long a process keeps a lease without renewing it. */
export const exportLeaseMs = 6_000;

/** The lease, or the position, is not what this process left: another one exports, or the database was restored. */
export class ExportLeaseLost extends Error {
  override readonly name = "ExportLeaseLost";
}

/** The position is above every transaction id of the server: the database was restored from a dump, into another server. */
export class ExportPositionAhead extends Error {
  override readonly name = "ExportPositionAhead";
}

/** The position of the name is one of another sink: a transaction id is no sequence of a stream. */
export class ExportPositionForeign extends Error {
  override readonly name = "ExportPositionForeign";
}

const leaseUntil = sql`clock_timestamp() + make_interval(secs => ${exportLeaseMs / 1000})`;

/**
 * Creates the position of an export unless there is one: before all stored envelopes, or behind all that were stored
 * before the oldest transaction that is still open began.
 */
export const createExportPosition = async (db: Database, name: string, start: "oldest" | "now"): Promise<void> => {
  const [first] = await findPartitionDays(db);
  const oldest = sql`least((select min(received_at) from ingest_envelope_default), ${first === undefined ? null : new Date(first).toISOString()}::timestamptz, clock_timestamp())`;
  const [position, at] =
    start === "now"
      ? [sql`pg_snapshot_xmin(pg_current_snapshot())::text::bigint`, sql`clock_timestamp()`]
      : [sql`0`, oldest];
  await db.execute(sql`
    insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, updated_at)
    values (${name}, ${position}, ${at}, clock_timestamp(), 0, 0, 0, 0, clock_timestamp()) on conflict do nothing`);
  const [row] = await db.execute<{ stream: string | null }>(
    sql`select stream from export_position where name = ${name}`,
  );
  if (row?.stream) throw new ExportPositionForeign(`it is a position in the stream ${row.stream}`);
};

/** A position in a stream. */
export interface StreamPosition {
  stream: string;
  /** Messages through it are exported. */
  position: bigint;
}

/** Creates the position of an export in a stream, unless there is one. Throws `ExportPositionForeign`. */
export const createStreamPosition = async (
  db: Database,
  name: string,
  { stream, position }: StreamPosition,
): Promise<void> => {
  await db.execute(sql`
    insert into export_position (name, position, position_at, stream, lease_until, epoch, exported, rejected_items, lost, updated_at)
    values (${name}, ${position.toString()}::bigint, clock_timestamp(), ${stream}, clock_timestamp(), 0, 0, 0, 0, clock_timestamp())
    on conflict do nothing`);
  const [row] = await db.execute<{ stream: string | null }>(
    sql`select stream from export_position where name = ${name}`,
  );
  if (row && row.stream === null) throw new ExportPositionForeign("it is a position in PostgreSQL");
};

/** Moves a lease to a position in another stream; changes `lease` accordingly. Throws `ExportLeaseLost`. */
export const moveToStream = async (
  db: Executor,
  lease: ExportLease,
  { stream, position }: StreamPosition,
): Promise<void> => {
  const rows = await db.execute(sql`
    update export_position set stream = ${stream}, position = ${position.toString()}::bigint, stream_pending = null,
      updated_at = clock_timestamp()
    where ${isHeld(lease)} returning name`);
  if (rows.length === 0) throw new ExportLeaseLost("another process exports under this name");
  Object.assign(lease, { stream, position });
};

/** Takes the lease if nobody has it. Returns null while another process has it. Throws `ExportPositionAhead`. */
export const acquireExportLease = async (db: Executor, name: string, owner: string): Promise<ExportLease | null> => {
  const [row] = await db.execute<AcquiredRow>(sql`
    update export_position set owner = ${owner}, lease_until = ${leaseUntil}, epoch = epoch + 1, updated_at = clock_timestamp()
    where name = ${name} and (owner is null or lease_until < clock_timestamp())
    returning epoch, stream, position::text as position, (extract(epoch from position_at) * 1000)::bigint::text as at,
      stream is null and position > pg_snapshot_xmax(pg_current_snapshot())::text::bigint as ahead`);
  if (row === undefined) return null;
  const { epoch, stream } = row;
  const lease = { name, owner, epoch, stream, position: BigInt(row.position), positionAt: Number(row.at) };
  if (!row.ahead) return lease;
  await releaseExportLease(db, lease);
  throw new ExportPositionAhead("the position is ahead of the server");
};

type AcquiredRow = { epoch: number; stream: string | null; position: string; at: string; ahead: boolean };

const isHeld = ({ name, owner, epoch }: ExportLease) => sql`name = ${name} and owner = ${owner} and epoch = ${epoch}`;

/** Extends a lease and stores why requests fail at present. Throws `ExportLeaseLost`. */
export const renewExportLease = async (db: Executor, lease: ExportLease, lastError: string | null): Promise<void> => {
  const rows = await db.execute(sql`
    update export_position set lease_until = ${leaseUntil}, last_error = ${lastError}, updated_at = clock_timestamp()
    where ${isHeld(lease)} returning name`);
  if (rows.length === 0) throw new ExportLeaseLost("another process exports under this name");
};

/** Gives a lease up, so that another process need not wait for its end. */
export const releaseExportLease = async (db: Executor, lease: ExportLease): Promise<void> => {
  await db.execute(sql`update export_position set owner = null where ${isHeld(lease)}`);
};

/** An envelope that the backend rejected for good, and why. */
export interface DeadLetter {
  envelope: StoredEnvelope;
  reason: string;
}

/** The new position of an export, and its counts since the one before. */
export interface ExportProgress {
  position: bigint;
  positionAt: number;
  exported: number;
  rejectedItems: number;
  deadLetters: readonly DeadLetter[];
  /** Envelopes that retention deleted before they were read. */
  lost?: number;
}

/**
 * Moves the position of a lease and stores the dead letters, in one transaction; changes `lease` accordingly. Throws `ExportLeaseLost` when
 * another process took the lease, or the database is not where this process left it, as after a failover.
 */
export const moveExportPosition = async (db: Database, lease: ExportLease, progress: ExportProgress): Promise<void> => {
  const { position, positionAt, exported, rejectedItems, deadLetters, lost = 0 } = progress;
  await db.transaction(async (tx) => {
    const rows = await tx.execute(sql`
      update export_position set position = ${position.toString()}::bigint,
        position_at = greatest(position_at, ${new Date(positionAt).toISOString()}::timestamptz),
        exported = exported + ${exported}::bigint, rejected_items = rejected_items + ${rejectedItems}::bigint,
        lost = lost + ${lost}::bigint, updated_at = clock_timestamp()
      where ${isHeld(lease)} and position = ${lease.position.toString()}::bigint returning name`);
    if (rows.length === 0) throw new ExportLeaseLost("the position is not where this process left it");
    const failedAt = new Date();
    for (const { envelope, reason } of deadLetters)
      await tx.insert(exportDeadLetter).values({
        ...envelope,
        name: lease.name,
        observedAt: envelope.observedAt === null ? null : dateOf(envelope.observedAt),
        receivedAt: dateOf(envelope.receivedAt),
        reason,
        failedAt,
      });
  });
  Object.assign(lease, { position, positionAt });
};

const dateOf = (microseconds: bigint): Date => new Date(Number(microseconds / 1000n));

/** Returns the oldest transaction id in use, and the database's time in milliseconds: every transaction below it has ended. */
export const readHorizon = async (db: Executor): Promise<{ horizon: bigint; at: number }> => {
  const [row] = await db.execute<{ horizon: string; at: string }>(sql`
    select pg_snapshot_xmin(pg_current_snapshot())::text as horizon, (extract(epoch from clock_timestamp()) * 1000)::bigint::text as at`);
  if (row === undefined) throw new Error("the server returned no row");
  return { horizon: BigInt(row.horizon), at: Number(row.at) };
};

/** Returns how many dead letters an export has. */
export const countDeadLetters = (db: Database, name: string): Promise<number> =>
  db.$count(exportDeadLetter, sql`${exportDeadLetter.name} = ${name}`);
