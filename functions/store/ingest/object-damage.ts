/** Objects that lack something of what core had stored in them (`ingest_object_damage`). */
import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";
import {
  asIs,
  orNull,
  readOne,
  readRows,
  readScalars,
  texts,
  timestamptz,
} from "../database/statements.ts";
import { decodeReference, isInObject } from "./object-reference.ts";
import {
  type DrawnObject,
  idsOf,
  type NamedObject,
  namedColumns,
  namedObject,
  namedSelection,
} from "./objects.ts";
import type { DamagedBlock } from "./stored-envelope.ts";

/** Notes that objects lack something. */
export const noteDamage = async (
  db: Pick<Executor, "execute">,
  objects: readonly DrawnObject[],
): Promise<void> => {
  if (objects.length === 0) return;
  await db.execute(sql`
    insert into ingest_object_damage (object_id, nonce, noticed_at)
    select id, decode(nonce, 'hex'), clock_timestamp() from ${listOf(objects)} on conflict do nothing`);
};

const listOf = (objects: readonly DrawnObject[]) =>
  sql`unnest(${idsOf(objects)}, ${texts(objects.map(({ nonce }) => nonce))}) as listed (id, nonce)`;

/** A stored object that lacks something, with the `xid` of its blocks; null if it has none. */
export interface DamagedObject extends NamedObject {
  xid: bigint | null;
}

/** Finds objects whose losses are not recorded yet, except of stores that are unavailable. */
export const findNotedDamage = async (
  db: Executor,
  { unavailable, limit }: { unavailable: readonly number[]; limit: number },
): Promise<DamagedObject[]> => {
  const rows = await readRows(
    db,
    { ...namedColumns, xid: orNull(BigInt) },
    sql`
    select ${namedSelection}, xid from ingest_object join (
      select object_id, d.nonce as damaged from ingest_object_damage d join ingest_object o on o.id = object_id and o.nonce = d.nonce
      where recorded_at is null and store_id <> all (${`{${unavailable.join()}}`}::int[]) order by object_id limit ${limit}) noted
      on id = object_id and nonce = damaged order by id`,
  );
  return rows.map(namedObject);
};

/** A block that is in an object. */
export interface BlockInObject extends DamagedBlock {
  encoding: number;
  data: Uint8Array;
  digest: Uint8Array;
}

/** Finds blocks of an object that was stored by a transaction, in the order of hosts and queues. */
export const findObjectBlocks = async (
  db: Executor,
  { id, xid }: Pick<DamagedObject, "id" | "xid">,
  { after, limit }: { after: BlockInObject | undefined; limit: number },
): Promise<{ blocks: BlockInObject[]; last: BlockInObject | undefined }> => {
  const beyond = after
    ? sql`and (host_id, queue_id, first_sequence) > (${after.hostId}, decode(${after.queueId.toHex()}, 'hex'), ${after.firstSequence}::bigint)`
    : sql``;
  const rows = await readRows(
    db,
    {
      hostId: String,
      queueId: asIs<Uint8Array>,
      firstSequence: BigInt,
      lastSequence: BigInt,
      envelopes: Number,
      receivedAt: BigInt,
      encoding: Number,
      data: asIs<Uint8Array>,
      digest: asIs<Uint8Array>,
    },
    sql`
    select host_id, queue_id, first_sequence, last_sequence, envelopes, (extract(epoch from received_at) * 1e6)::bigint as received_at,
      encoding, data, digest
    from ingest_block where xid = ${xid}::bigint ${beyond} order by host_id, queue_id, first_sequence limit ${limit}`,
  );
  const isOfObject = (row: BlockInObject) =>
    isInObject(row) && decodeReference(row.data).objectId === id;
  return {
    blocks: rows.filter(isOfObject),
    last: rows.length < limit ? undefined : rows.at(-1),
  };
};

/** Locks noted damage until the transaction ends; returns how many of these objects no other core records. */
export const lockNotedDamage = async (
  tx: Executor,
  objects: readonly DrawnObject[],
): Promise<number> => {
  const locked = await readScalars(
    tx,
    Number,
    sql`
    select object_id from ingest_object_damage d
    where recorded_at is null and (object_id, d.nonce) in (select id, decode(listed.nonce, 'hex') from ${listOf(objects)})
    order by object_id for update skip locked`,
  );
  return locked.length;
};

/** Notes what was recorded as lost with objects; forgets those of which nothing is. */
export const setDamageRecorded = async (
  tx: Executor,
  objects: readonly (DrawnObject & { envelopes: number })[],
): Promise<void> => {
  const counted = `{${objects.map(({ envelopes }) => envelopes).join()}}`;
  await tx.execute(sql`
    with counted as (
      select id, decode(nonce, 'hex') as nonce, lost
      from unnest(${idsOf(objects)}, ${texts(objects.map(({ nonce }) => nonce))}, ${counted}::bigint[]) as counted (id, nonce, lost)),
    whole as (delete from ingest_object_damage d using counted c where d.object_id = c.id and d.nonce = c.nonce and lost = 0)
    update ingest_object_damage d set recorded_at = clock_timestamp(), envelopes = lost
    from counted c where d.object_id = c.id and d.nonce = c.nonce and lost > 0`);
};

/** Deletes the damage of objects that retention has deleted. */
export const deleteOldDamage = async (db: Executor): Promise<void> => {
  await db.execute(sql`
    delete from ingest_object_damage d
    where not exists (select from ingest_object o where o.id = d.object_id and o.nonce = d.nonce)`);
};

/** Counts the objects whose losses were recorded after `since`, and the envelopes that were lost with them. */
export const summarizeDamage = (
  db: Executor,
  since: Date,
): Promise<{ objects: number; envelopes: number }> =>
  readOne(
    db,
    { objects: Number, envelopes: Number },
    sql`
    select count(*) as objects, coalesce(sum(envelopes), 0) as envelopes from ingest_object_damage
    where recorded_at > ${timestamptz(since)}`,
  );

/** The ages of the objects that are looked at each minute, in minutes: a store that was set back lacks one of them. */
const sampledMinutes = Array.from({ length: 11 }, (_, power) => 2 ** power);

/** Finds, for each of some ages, the newest object that is so old and not known to be damaged. */
export const findSampledObjects = async (db: Executor, storeId: number): Promise<NamedObject[]> => {
  const rows = await readRows(
    db,
    namedColumns,
    sql`
    select distinct ${namedSelection} from unnest(${`{${sampledMinutes.join()}}`}::int[]) as age cross join lateral (
      select id, nonce, store_id from ingest_object o
      where state = 1 and store_id = ${storeId} and received_at < clock_timestamp() - make_interval(mins => age)
        and not exists (select from ingest_object_damage d where d.object_id = o.id and d.nonce = o.nonce)
      order by received_at desc limit 1) newest`,
  );
  return rows.map(namedObject);
};

/** A core that began a part of a comparison has ended after so long. */
const turnSeconds = 600;

/**
 * Begins a part of the comparison of a store's objects with their rows, unless another core does it, or it ended within a day and the store
 * was not set back. Returns the id below which it goes on, null for all; undefined if it is not to begin.
 */
export const beginCheck = async (
  db: Executor,
  { storeId, isSetBack }: { storeId: number; isSetBack: boolean },
): Promise<number | null | undefined> => {
  const now = sql`clock_timestamp()`;
  const within = (seconds: number) =>
    sql`between ${now} - make_interval(secs => ${seconds}::int) and ${now}`;
  const [begun] = await readScalars(
    db,
    orNull(Number),
    sql`
    update ingest_store set checking_at = ${now}, checked_from = case when ${isSetBack} then null else checked_from end
    where id = ${storeId} and (checking_at is null or checking_at not ${within(turnSeconds)})
      and (${isSetBack} or checked_from is not null or checked_at is null or checked_at not ${within(86_400)})
    returning checked_from`,
  );
  return begun;
};

/** Ends a part of the comparison that has failed: any core may begin it again. */
export const releaseCheck = async (db: Executor, storeId: number): Promise<void> => {
  await db.execute(sql`update ingest_store set checking_at = null where id = ${storeId}`);
};

/** Ends a part of the comparison; it goes on below an id, or has ended. */
export const endCheck = async (
  db: Executor,
  { storeId, from }: { storeId: number; from: number | null },
): Promise<void> => {
  await db.execute(sql`
    update ingest_store set checking_at = null, checked_from = ${from}::bigint,
      checked_at = case when ${from}::bigint is null then clock_timestamp() else checked_at end
    where id = ${storeId}`);
};
