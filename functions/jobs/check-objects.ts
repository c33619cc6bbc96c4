import { requireClaim } from "#functions/objects/claim-store.ts";
import {
  ObjectMissing,
  type ObjectStore,
  ObjectStoreUnavailable,
  objectIdOf,
  telemetryPrefix,
} from "#functions/objects/object-store.ts";
import { minuteMs } from "#kit/clock.ts";
import type { LostRange } from "#proto/completeness/lost-ranges.ts";
import type { Core } from "../core.ts";
import { type AuditEntry, recordAudits } from "../domain/audit/audit-log.ts";
import { findIdentityByName } from "../store/certificate/identities.ts";
import type { Executor } from "../store/database/database.ts";
import { readLineageName } from "../store/database/lineage.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";
import { addGap, addLostRanges } from "../store/ingest/gaps.ts";
import {
  type BlockInObject,
  beginCheck,
  type DamagedObject,
  deleteOldDamage,
  endCheck,
  findNotedDamage,
  findObjectBlocks,
  findSampledObjects,
  lockNotedDamage,
  noteDamage,
  releaseCheck,
  setDamageRecorded,
} from "../store/ingest/object-damage.ts";
import {
  type DrawnObject,
  drawnOf,
  findStoredObjects,
  type KnownStore,
  listStores,
  type NamedObject,
  registerObjects,
  type StoredObjectRow,
} from "../store/ingest/objects.ts";
import type { QueueName } from "../store/ingest/queues.ts";
import { BlockCorrupt } from "../store/ingest/stored-envelope.ts";

/** How often some objects are looked at, and losses recorded. */
export const objectCheckMs = minuteMs;
const objectsOfPage = 1_000;
const pagesOfTurn = 100;
const blocksOfPage = 1_000;
/** Losses of further objects are recorded a minute later. */
const recordedMax = 10_000;
const linesMax = 1_000;

interface CheckCore extends Pick<Core, "db" | "clock" | "entropy" | "log" | "objects"> {
  observe: { gap(sequences: bigint): void; objects(outcome: "lost", objects: number): void };
}
type CheckedStore = Pick<ObjectStore, "list" | "read">;

/** Counts of what damaged objects had. */
interface Recorded {
  objects: number;
  hosts: number;
  envelopes: number;
}

/** Why stores are unavailable, by their locations. */
export type StoreFaults = Map<string, string>;

/** Returns the faults of stores as sentences. */
export const describeFaults = (faults: StoreFaults): string[] =>
  Array.from(faults, ([location, why]) => `The store ${location} is unavailable: ${why}.`);

/**
 * Compares the stores with what the database has in them: some objects of each age at once, and all of them once a day, or when one of these is
 * missing. Records what is lost with damaged objects, also with those that readers have noticed: by host and range, in the audit log and for
 * completeness. Returns undefined when nothing is. Notes in `faults` which stores are unavailable, does the same for the others, and then rejects.
 */
export const checkObjects = async (
  core: CheckCore,
  faults: StoreFaults = new Map(),
): Promise<Recorded | undefined> => {
  const unavailable = new Map<number, Error>();
  for (const store of await listStores(core.db))
    try {
      await checkStore(core, store);
      faults.delete(store.location);
    } catch (cause) {
      if (!(cause instanceof ObjectStoreUnavailable)) throw cause;
      faults.set(store.location, cause.message);
      const message = `the store ${store.location} is unavailable: ${cause.message}`;
      unavailable.set(store.id, new ObjectStoreUnavailable(message, { cause }));
    }
  const recorded = await recordDamage(core, [...unavailable.keys()]);
  for (const failure of unavailable.values()) throw failure;
  return recorded;
};

const checkStore = async (core: CheckCore, { id: storeId, location }: KnownStore) => {
  const { db, objects } = core;
  const store = await objects.storeOf(storeId);
  // A store that is not there at all has lost nothing.
  await requireClaim(store, await readLineageName(db));
  const isSetBack = await lacksAny(store, await findSampledObjects(db, storeId));
  const from = await beginCheck(db, { storeId, isSetBack });
  if (from === undefined) return;
  if (isSetBack)
    core.log.error(
      { store: location },
      "an object store lacks objects that core had stored; core compares all of it",
    );
  try {
    await compareFrom(core, { store, storeId, from });
  } catch (cause) {
    await releaseCheck(db, storeId);
    throw cause;
  }
};

const compareFrom = async (
  { db }: CheckCore,
  { store, storeId, ...begun }: { store: CheckedStore; storeId: number; from: number | null },
): Promise<void> => {
  let { from } = begun;
  for (let page = 0; page < pagesOfTurn; page++) {
    const rows = await findStoredObjects(db, { storeId, below: from, limit: objectsOfPage });
    const { absent, others } = await compare(store, rows.toReversed());
    if (absent.length > 0) await requireClaim(store, await readLineageName(db));
    await noteDamage(db, absent);
    // Those that the database does not know were written after their names had become invalid.
    if (others.length > 0) await registerObjects(db, others, { storeId });
    from = rows.length < objectsOfPage ? null : (rows.at(-1)?.id ?? null);
    if (from === null) break;
  }
  await endCheck(db, { storeId, from });
  if (from === null) await deleteOldDamage(db);
};

const lacksAny = async (store: CheckedStore, objects: readonly NamedObject[]) => {
  const missing = await Promise.all(objects.map(({ name }) => isMissing(store, name)));
  return missing.includes(true);
};

/** Compares objects, in the order of their names, with a listing. Some stores list late, so that it asks for each that is not listed. */
const compare = async (
  store: CheckedStore,
  rows: readonly StoredObjectRow[],
): Promise<{ absent: StoredObjectRow[]; others: DrawnObject[] }> => {
  const first = rows[0]?.name ?? "";
  const last = rows.at(-1)?.name ?? "";
  const listed = new Map<string, number>();
  // Before the first name, which the listing then includes.
  for (let after = first.slice(0, -1); after < last; ) {
    const page = await store.list({ prefix: telemetryPrefix, after, limit: objectsOfPage });
    for (const { name, bytes } of page) if (name <= last) listed.set(name, bytes);
    after = page.at(-1)?.name ?? last;
  }
  const absent: StoredObjectRow[] = [];
  for (const row of rows) {
    const bytes = listed.get(row.name);
    listed.delete(row.name);
    if (bytes === undefined ? await isMissing(store, row.name) : bytes < row.bytes)
      absent.push(row);
  }
  const isTelemetry = (name: string) => objectIdOf(name) !== null;
  return { absent, others: [...listed.keys()].filter(isTelemetry).flatMap(drawnOf) };
};

const isMissing = (store: CheckedStore, name: string): Promise<boolean> =>
  store.read(name, { last: 1 }).then(
    () => false,
    (cause: unknown) => {
      if (cause instanceof ObjectMissing) return true;
      throw cause;
    },
  );

/** What is lost of a queue, in ranges that follow each other. */
interface QueueLoss extends QueueName {
  ranges: LostRange[];
  envelopes: number;
}

/** Records what is lost with the objects that are noted as damaged and not in these stores, unless another core does. */
const recordDamage = async (
  core: CheckCore,
  unavailable: readonly number[],
): Promise<Recorded | undefined> => {
  const noted = await findNotedDamage(core.db, { unavailable, limit: recordedMax });
  if (noted.length === 0) return undefined;
  const losses = new Map<string, QueueLoss>();
  const counted: (DrawnObject & { envelopes: number })[] = [];
  for (const object of noted)
    counted.push({ ...object, envelopes: await addLosses(core, object, losses) });
  const isRecorded = await core.db.transaction(async (tx) => {
    if ((await lockNotedDamage(tx, noted)) < noted.length) return false;
    await recordLosses(core, tx, [...losses.values()]);
    await setDamageRecorded(tx, counted);
    return true;
  });
  return isRecorded && losses.size > 0 ? report(core, counted, [...losses.values()]) : undefined;
};

/** Adds what is lost with an object; returns how many envelopes that are. */
const addLosses = async (
  { db, objects }: CheckCore,
  object: DamagedObject,
  losses: Map<string, QueueLoss>,
): Promise<number> => {
  if (object.xid === null) return 0;
  let envelopes = 0;
  let after: BlockInObject | undefined;
  do {
    const { blocks, last } = await findObjectBlocks(db, object, { after, limit: blocksOfPage });
    for (const [index, read] of (await objects.withData(blocks)).entries()) {
      const block = blocks[index];
      if (block === undefined || !(read instanceof BlockCorrupt)) continue;
      addLoss(losses, block);
      envelopes += block.envelopes;
    }
    after = last;
  } while (after);
  return envelopes;
};

const addLoss = (losses: Map<string, QueueLoss>, block: BlockInObject) => {
  const { hostId, queueId, firstSequence, lastSequence, envelopes } = block;
  const key = queueKey(block);
  const loss = losses.get(key) ?? { hostId, queueId, ranges: [], envelopes: 0 };
  losses.set(key, loss);
  loss.envelopes += envelopes;
  const before = loss.ranges.at(-1);
  if (before && before.through + 1n === firstSequence) before.through = lastSequence;
  else loss.ranges.push({ from: firstSequence, through: lastSequence });
};

const recordLosses = async (core: CheckCore, tx: Executor, losses: readonly QueueLoss[]) => {
  const now = new Date(core.clock.now());
  const ranges = losses.flatMap(({ ranges, ...queue }) =>
    ranges.map((range) => ({ ...queue, ...range })),
  );
  await addLostRanges(tx, ranges, now);
  const entries: AuditEntry[] = [];
  for (const loss of losses) {
    await addGap(tx, loss.hostId, sequencesIn(loss), now);
    entries.push(await entryOf(tx, loss));
  }
  await recordAudits(tx, core, entries);
};

const sequencesIn = ({ ranges }: QueueLoss): bigint =>
  ranges.reduce((sum, { from, through }) => sum + through - from + 1n, 0n);

const entryOf = async (tx: Executor, loss: QueueLoss): Promise<AuditEntry> => {
  const identity = await findIdentityByName(tx, loss.hostId);
  const id = identity?.id ?? loss.hostId;
  return {
    actor: { type: "collector", id, display: loss.hostId },
    action: "ingest.lost",
    target: { type: identity ? "collector_identity" : "host", id },
    outcome: "failure",
    reason: "objects that core had stored are missing, or have other bytes",
    reasonCode: "object_lost",
    details: describeLoss(loss),
  };
};

const describeLoss = ({ hostId, queueId, ranges, envelopes }: QueueLoss) => ({
  host_id: hostId,
  queue_id: queueId.toHex(),
  from: String(ranges[0]?.from),
  through: String(ranges.at(-1)?.through),
  ranges: ranges.length,
  envelopes,
});

/** Logs and counts what was recorded. */
const report = (
  { log, observe }: CheckCore,
  counted: readonly { envelopes: number }[],
  losses: readonly QueueLoss[],
): Recorded => {
  for (const loss of losses) observe.gap(sequencesIn(loss));
  const recorded = {
    objects: counted.filter(({ envelopes }) => envelopes > 0).length,
    hosts: new Set(losses.map(({ hostId }) => hostId)).size,
    envelopes: losses.reduce((sum, { envelopes }) => sum + envelopes, 0),
  };
  observe.objects("lost", recorded.objects);
  log.error(recorded, "the object store has lost objects of telemetry");
  for (const loss of losses.slice(0, linesMax))
    log.error(describeLoss(loss), "the object store has lost telemetry of a queue");
  return recorded;
};
