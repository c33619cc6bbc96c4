/**
 * The objects that blocks are in (`ingest_object`). A row begins as a drawn name (0), becomes stored with the blocks that name it (1,
 * `consume_ingest_object`), and is deleted some time after it was marked for that (2). An object of another database is left alone (3).
 */
import { type SQL, sql } from "drizzle-orm";
import { objectIdOf, objectNameOf } from "#functions/objects/object-store.ts";
import type { Executor } from "../database/database.ts";
import {
  asIs,
  firstRow,
  hasRows,
  orNull,
  readRows,
  readScalar,
  readScalars,
  texts,
  timestamptz,
} from "../database/statements.ts";

/** A name that core has drawn for an object. */
export interface DrawnObject {
  id: number;
  /** In hex. */
  nonce: string;
}

/** Returns the drawn name in the name of an object; none for an object that is no telemetry. */
export const drawnOf = (name: string): DrawnObject[] => {
  const id = objectIdOf(name);
  return id === null ? [] : [{ id, nonce: name.slice(name.lastIndexOf("-") + 1) }];
};

/** Returns the id of an object store, by its location. One that the database does not know may have objects of a later state of it. */
export const noteStore = (db: Executor, location: string): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`
    insert into ingest_store (location, unlisted_above) values (${location}, 0) on conflict (location) do update
    set location = excluded.location returning id`,
  );

/** Reports whether blocks are in objects of a store. */
export const hasStoredObjects = (db: Executor, storeId: number): Promise<boolean> =>
  readScalar(
    db,
    Boolean,
    sql`select exists (select from ingest_object where state = 1 and store_id = ${storeId})`,
  );

/** An object store that this database has used. */
export interface KnownStore {
  id: number;
  /** As `SVC_INGEST_STORE` named it. */
  location: string;
  /** It may have objects above this id that the database does not know; null: those above the last drawn one. */
  unlistedAbove: number | null;
}

/** Lists the object stores that this database has used. */
export const listStores = (db: Executor): Promise<KnownStore[]> =>
  readRows(
    db,
    { id: Number, location: String, unlistedAbove: orNull(Number) },
    sql`select id, location, unlisted_above from ingest_store order by id`,
  );

/** Notes that a store has no object above an id that the database does not know. */
export const noteListed = async (
  db: Executor,
  { id, unlistedAbove }: Pick<KnownStore, "id" | "unlistedAbove">,
): Promise<void> => {
  await db.execute(
    sql`update ingest_store set unlisted_above = null where id = ${id} and unlisted_above = ${unlistedAbove}`,
  );
};

/** Finds the location of an object store by its id. */
export const findStoreLocation = async (db: Pick<Executor, "execute">, id: number) => {
  const row = await firstRow(
    db.execute<{ location: string }>(sql`select location from ingest_store where id = ${id}`),
  );
  return row?.location;
};

/** Draws names for `count` objects. Draws commit one after the other, in the order of their ids. */
export const drawObjects = async (
  db: Executor,
  { storeId, nonce, count }: { storeId: number; nonce: string; count: number },
): Promise<DrawnObject[]> => {
  const ids = await readScalars(
    db,
    Number,
    sql`
    with locked as materialized (select pg_advisory_xact_lock(hashtext('draw objects')))
    insert into ingest_object (nonce, store_id, state, changed_at)
    select decode(${nonce}, 'hex'), ${storeId}, 0, clock_timestamp() from locked, generate_series(1, ${count})
    returning id`,
  );
  return ids.sort((a, b) => a - b).map((id) => ({ id, nonce }));
};

/** An object, by its name in its store. */
export interface NamedObject extends DrawnObject {
  storeId: number;
  name: string;
}

/** The columns of a named object. */
export const namedColumns = { id: Number, nonce: asIs<string>, storeId: Number };
export const namedSelection = sql`id, encode(nonce, 'hex') as nonce, store_id`;
/** Names an object. */
export const namedObject = <Row extends DrawnObject>(row: Row) => ({
  ...row,
  name: objectNameOf(row.id, row.nonce),
});

/**
 * Finds objects of a store that were marked for deletion at least `seconds` ago, the first ones first; not the last name that was drawn: objects
 * above it prove a restore.
 */
export const findMarkedObjects = async (
  db: Executor,
  { storeId, seconds, limit }: { storeId: number; seconds: number; limit: number },
): Promise<NamedObject[]> => {
  const rows = await readRows(
    db,
    namedColumns,
    sql`
    select ${namedSelection} from ingest_object
    where state = 2 and changed_at < clock_timestamp() - make_interval(secs => ${seconds}::int) and store_id = ${storeId}
      and id < (select max(id) from ingest_object)
    order by changed_at limit ${limit}`,
  );
  return rows.map(namedObject);
};

/** A name that has no blocks yet. Its object may be written. */
export interface UnsettledObject extends NamedObject {
  /** It was drawn after core last noticed a restore: the sessions of queues are not older than it. */
  isRecent: boolean;
  /** No core uses the name any more: it was drawn before that restore, or long ago. */
  isEnded: boolean;
  /** The database has known it for a day: hosts had the time to claim what it has of them. */
  isLong: boolean;
}

/** Core uses a name for half as long at most (object-writer.ts). */
const drawnSeconds = 3_600;
const isRecent = sql`changed_at > coalesce((select restored_at from database_lineage), 'epoch')`;
/** A clock that was ahead drew names in the future. */
const isInUse = sql`changed_at between clock_timestamp() - make_interval(secs => ${drawnSeconds}::int) and clock_timestamp()`;

/** Finds names that have no blocks, after a name, in the order of names. */
export const findUnsettledObjects = async (
  db: Executor,
  { after, limit }: { after: DrawnObject; limit: number },
): Promise<UnsettledObject[]> => {
  const rows = await readRows(
    db,
    { ...namedColumns, isRecent: Boolean, isEnded: Boolean, isLong: Boolean },
    sql`
    select ${namedSelection}, ${isRecent} as is_recent, not (${isRecent} and ${isInUse}) as is_ended,
      coalesce(received_at, changed_at) < clock_timestamp() - interval '1 day' as is_long from ingest_object
    where state = 0 and (id, nonce) > (${after.id}::bigint, decode(${after.nonce}, 'hex')) order by id, nonce limit ${limit}`,
  );
  return rows.map(namedObject);
};

/** Reports whether there are names that have no blocks and that no core uses any more. */
export const hasEndedObjects = (db: Executor): Promise<boolean> =>
  readScalar(
    db,
    Boolean,
    sql`select exists (select from ingest_object where state = 0 and not (${isRecent} and ${isInUse}))`,
  );

/** A stored object, as its row describes it. */
export interface StoredObjectRow extends NamedObject {
  /** It has at least so many. */
  bytes: number;
}

/** Finds the objects of a store below an id, the highest first. */
export const findStoredObjects = async (
  db: Executor,
  { storeId, below, limit }: { storeId: number; below: number | null; limit: number },
): Promise<StoredObjectRow[]> => {
  const rows = await readRows(
    db,
    { ...namedColumns, bytes: Number },
    sql`
    select ${namedSelection}, coalesce(bytes, 0) as bytes from ingest_object
    where state = 1 and store_id = ${storeId} and id < coalesce(${below}::bigint, 9223372036854775807) order by id desc limit ${limit}`,
  );
  return rows.map(namedObject);
};

/** Returns the id of the last name that this database has drawn; 0 if none. PostgreSQL may restore the sequence ahead of it. */
export const findLastDrawnId = (db: Executor): Promise<number> =>
  readScalar(db, Number, sql`select coalesce(max(id), 0) from ingest_object`);

/** Returns the id of the last object that is stored; 0 if none. */
export const findLastStoredId = (db: Executor): Promise<number> =>
  readScalar(db, Number, sql`select coalesce(max(id), 0) from ingest_object where state = 1`);

/**
 * Adds the objects that this database does not know as drawn names; returns how many there were. Those above `newerAbove` were written by a later
 * state of this database: the ids of further names are moved behind them, and they and what was drawn before are not recent, since their sessions
 * may be newer than those of the queues. Other stores may then have further ones above `above`. Adds none if the last stored object is below `above`:
 * the database has gone back, and lacks further ones.
 */
export const registerObjects = (
  db: Executor,
  objects: readonly DrawnObject[],
  {
    storeId,
    newerAbove = Number.MAX_SAFE_INTEGER,
    above = 0,
  }: { storeId: number; newerAbove?: number; above?: number },
): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`
    with listed as (
      select id, decode(nonce, 'hex') as nonce from unnest(${idsOf(objects)}, ${texts(objects.map(({ nonce }) => nonce))}) as listed (id, nonce)
      where coalesce((select max(id) from ingest_object where state = 1), 0) >= ${above}::bigint),
    moved as (
      select setval('ingest_object_id_seq', greatest(last_value, (select max(id) from listed))) from ingest_object_id_seq
      where exists (select from listed where id > ${newerAbove}::bigint)),
    added as (
      insert into ingest_object (id, nonce, store_id, state, changed_at, received_at) overriding system value
      select id, nonce, ${storeId}::int, 0, case when id > ${newerAbove}::bigint then 'epoch' else clock_timestamp() end, clock_timestamp() from listed
      on conflict do nothing returning id),
    newer as (select from added where id > ${newerAbove}::bigint),
    aged as (
      update ingest_object set changed_at = 'epoch', received_at = clock_timestamp()
      where state = 0 and changed_at <> 'epoch' and exists (select from newer) returning id),
    others as (
      update ingest_store set unlisted_above = least(unlisted_above, ${above}::bigint)
      where id <> ${storeId}::int and exists (select from newer))
    select (select count(*) from added) + 0 * (select count(*) from moved) + 0 * (select count(*) from aged)`,
  );

/** Keeps an object of which no row names a part, until retention. */
export const keepObject = async (
  db: Executor,
  { id, nonce }: DrawnObject,
  storedAtMs: number,
): Promise<void> => {
  await db.execute(sql`
    update ingest_object set state = 1, changed_at = clock_timestamp(), received_at = ${timestamptz(storedAtMs)}, bytes = 0
    where id = ${id} and nonce = decode(${nonce}, 'hex') and state = 0`);
};

/** Leaves an object alone for good: it is of another database. */
export const ignoreObject = async (db: Executor, { id, nonce }: DrawnObject): Promise<void> => {
  await db.execute(
    sql`update ingest_object set state = 3 where id = ${id} and nonce = decode(${nonce}, 'hex') and state = 0`,
  );
};

/** Marks a drawn name for deletion: no batch can use it from then on. Returns whether it was drawn and not used. */
export const markDrawnObject = (db: Executor, object: DrawnObject): Promise<boolean> =>
  hasRows(
    db.execute(sql`
    update ingest_object set state = 2, changed_at = clock_timestamp()
    where state = 0 and nonce = decode(${object.nonce}, 'hex') and id = any(${idsOf([object])}) returning id`),
  );

/** Deletes the rows of objects that were deleted. */
export const deleteObjectRows = async (db: Executor, objects: readonly DrawnObject[]) => {
  for (const isOne of namings(objects))
    await db.execute(sql`delete from ingest_object where state = 2 and ${isOne}`);
};

/** Deletes the rows of marked objects in stores that were forgotten. */
export const deleteForgottenRows = async (db: Executor): Promise<void> => {
  await db.execute(
    sql`delete from ingest_object where state = 2 and store_id not in (select id from ingest_store)`,
  );
};

/** Returns conditions that hold for objects, one for those of each draw. */
const namings = (objects: readonly DrawnObject[]): SQL[] =>
  [...Map.groupBy(objects, ({ nonce }) => nonce)].map(
    ([nonce, some]) => sql`nonce = decode(${nonce}, 'hex') and id = any(${idsOf(some)})`,
  );

/** Returns the ids of objects as an array of PostgreSQL. */
export const idsOf = (objects: readonly DrawnObject[]): SQL =>
  sql`${`{${objects.map(({ id }) => id).join()}}`}::bigint[]`;
