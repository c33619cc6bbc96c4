/**
 * Commits frames. Invariants, which one transaction for each batch keeps:
 * - It skips envelopes at or below the cursor and stores the rest. The cursor's new value commits with them and with
 *   `ingest_host.last_envelope_at`, to the second: a frame sent twice is stored once, a frame acknowledged is stored.
 * - Frames are decided, cut and compressed for the cursors that the caller expects, or that were read before. The transaction then sends
 *   them by COPY, locks the cursor rows in sorted order, so that batches never deadlock, and commits only if the cursors are there. So no
 *   work is done under a lock.
 * - A frame whose `previousSequence` is above the cursor stores nothing, and fails alone. So does one of a session that is not the queue's:
 *   of two forks of a queue, only the one that opened it last can move the cursor.
 * - The rows of a queue have transaction ids (`xid`) that rise with their sequence: a transaction that wrote before the one that last moved
 *   the cursor is rolled back.
 * - `synchronous_commit` is on for the transaction, whatever the role's or the server's default.
 * - With an object store, the data of the blocks are durable in an object before the transaction begins. The transaction consumes the name
 *   of the object that core has drawn, and commits nothing if that is no longer valid: no row names an object that is being deleted. An object
 *   of a batch that is rejected is garbage: what it has of a queue must never be taken for what the queue has.
 */

import { sql } from "drizzle-orm";
import type { Client } from "pg";
import { ObjectExists } from "#functions/objects/object-store.ts";
import { errorCode } from "#kit/describe-error.ts";
import { setForSession } from "../database/connection-settings.ts";
import type { Executor } from "../database/database.ts";
import { literal, numberArray, textArray, timestampLiteral } from "../database/sql-literals.ts";
import { type BlockToStore, type EncodedBlock, encodeBlockRow } from "./block-rows.ts";
import { lastResult, openCopyClient, runCopyTransaction } from "./copy-transaction.ts";
import {
  type BatchQueue,
  decideBatch,
  type FrameOutcome,
  type FrameToCommit,
  isOfSession,
  queueKey,
  queueKeyOfHex,
  queuesIn,
} from "./decide-batch.ts";
import { prepareHourCount } from "./hours.ts";
import type { ObjectBatch } from "./object-footer.ts";
import { cursorsOfHostMax } from "./queues.ts";
import { type BlockCodec, encodeRun, joinDigest, readRun } from "./stored-envelope.ts";

/**
 * Prepares `count_stored`, which counts stored envelopes in the transaction that stores them, apart from the rows: a measure to check an
 * export's reader by. Each server backend has a row of its own, so no transaction waits for another.
 */
const prepareStoredCount = `
  prepare count_stored (bigint) as
    insert into ingest_stored (backend, envelopes) values (pg_backend_pid(), $1)
    on conflict (backend) do update set envelopes = ingest_stored.envelopes + excluded.envelopes`;

/** Returns the statement that counts the envelopes of blocks; none without a block. */
const storedCount = (blocks: readonly BlockToStore[]): string[] => {
  const count = blocks.reduce((sum, { run }) => sum + run.count, 0);
  return count === 0 ? [] : [`execute count_stored(${count})`];
};

/** Adds the counts of backends that have ended to row 0. */
export const foldStoredCounts = async (db: Executor): Promise<void> => {
  await db.execute(sql`
    with ended as (
      delete from ingest_stored where backend <> 0 and backend not in (select pid from pg_stat_activity where pid is not null)
      returning envelopes)
    insert into ingest_stored (backend, envelopes) select 0, sum(envelopes) from ended having count(*) > 0
    on conflict (backend) do update set envelopes = ingest_stored.envelopes + excluded.envelopes`);
};

/**
 * The longest time for a batch. With the time to reconnect and resend, all queues continue within ten seconds after the process that serves
 * a batch was stopped.
 */
export const commitDeadlineMs = 6_000;

/**
 * Planned once for each connection: for small batches, planning would cost more than running them. The server ends a wait for a lock before
 * the deadline, and a transaction without a client soon after it, except a COPY that waits for rows (jobs/end-abandoned-copies.ts).
 */
const statements = `
  ${setForSession(commitDeadlineMs)}; set lock_timeout = ${commitDeadlineMs - 1_000};
  set statement_timeout = ${commitDeadlineMs + 1_000};
  prepare find_queues (text[], text[]) as
    select host_id, encode(queue_id, 'hex') as queue, cursor, coalesce(encode(session_id, 'hex'), '') as session
    from unnest($1, $2) as wanted (host, queue)
    join ingest_cursor on host_id = wanted.host and queue_id = decode(wanted.queue, 'hex');
  prepare expect_cursors (text[], text[], bigint[], text[]) as select expect_ingest_cursors($1, $2, $3, $4);
  prepare insert_queues (text[], text[], timestamptz) as
    insert into ingest_cursor (host_id, queue_id, cursor, counted_through, updated_at)
    select host, decode(queue, 'hex'), 0, 0, $3 from unnest($1, $2) as wanted (host, queue)
    order by host collate "C", decode(queue, 'hex') on conflict (host_id, queue_id) do nothing;
  prepare move_cursors (text[], text[], bigint[], timestamptz, bigint[], bigint[], bigint[], text[]) as
    update ingest_cursor set cursor = moved.cursor, updated_at = $4,
      counted_through = case when counted_through = ingest_cursor.cursor then moved.cursor else counted_through end,
      range_stored = range_stored + stored, range_rejected = range_rejected + rejected, range_discarded = range_discarded + discarded,
      range_digest = case length(digests) when 0 then range_digest
        when 64 then sha256(coalesce(range_digest, ''::bytea) || decode(digests, 'hex'))
        when 66 then sha256(coalesce(range_digest, ''::bytea) || decode(digests, 'hex'))
        else continue_digest(range_digest, string_to_array(digests, ' ')) end
    from unnest($1, $2, $3, $5, $6, $7, $8) as moved (host, queue, cursor, stored, rejected, discarded, digests)
    where host_id = moved.host and queue_id = decode(moved.queue, 'hex');
  prepare touch_hosts (text[], timestamptz) as
    insert into ingest_host (host_id, last_envelope_at) select host, $2 from unnest($1) as host order by host
    on conflict (host_id) do update
    set last_envelope_at = greatest(ingest_host.last_envelope_at, excluded.last_envelope_at);
  prepare consume_object (bigint, text, bigint, timestamptz) as select consume_ingest_object($1, decode($2, 'hex'), $3, $4);
  ${prepareHourCount}; ${prepareStoredCount};
  prepare trim_queues (text, int) as
    delete from ingest_cursor where (host_id, queue_id) in (
      select host_id, queue_id from ingest_cursor where host_id = $1
      order by updated_at desc, queue_id offset $2 for update skip locked)`;

/** Opens a connection for `commitBatch`. Rejects within 5 s when the server does not answer. */
export const openCommitClient = (url: string): Promise<Client> => openCopyClient(url, statements);

/** What committing needs of its runtime. */
export interface CommitNeeds {
  codec: BlockCodec;
  /** Reports whether digests are of data as stored, which costs less but must be readable by every core that serves. Absent: they are. */
  hasStoredDigests?: (() => boolean) | undefined;
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Stores the data of blocks; absent: their rows have them. */
  objects?: ObjectWriter | undefined;
  /** Returns the hosts that a connection has touched within the second of `at`; absent: none is known. */
  touchedBy?: ((client: Client, at: number) => Set<string>) | undefined;
  /** Aborts when the batch is late. */
  signal?: AbortSignal | undefined;
}

/**
 * Remembers which hosts a connection has touched within a second. Nothing reads `last_envelope_at` more finely, and its triggers cost
 * PostgreSQL more than ten rows.
 */
export const createTouchedHosts = (): NonNullable<CommitNeeds["touchedBy"]> => {
  const byClient = new WeakMap<Client, { second: number; hosts: Set<string> }>();
  return (client, at) => {
    const second = Math.floor(at / 1000);
    const known = byClient.get(client);
    if (known?.second === second) return known.hosts;
    const hosts = new Set<string>();
    byClient.set(client, { second, hosts });
    return hosts;
  };
};

/** Stores the blocks of a batch as one object. */
export interface ObjectWriter {
  /** Resolves once the object is durable. */
  write(batch: ObjectBatch, signal?: AbortSignal): Promise<WrittenObject>;
  /** Gives up the names that were drawn in advance: the database does not know them. */
  discardNames(): void;
  /** Gives up an object whose transaction the database has rolled back: no row will name it. */
  discard(object: WrittenObject): void;
}

/** A durable object, and its blocks as rows that name it. */
export interface WrittenObject {
  id: number;
  /** In hex. */
  nonce: string;
  bytes: number;
  blocks: readonly EncodedBlock[];
}

/**
 * Commits frames in their order, in one transaction on an idle client of `openCommitClient`. Resolves after the commit with an outcome for
 * each. Reads the cursors first, and again when another core has moved one. Rejects, with nothing committed, when the database fails: it
 * rolls back if the connection is still open.
 */
export const commitBatch = async (
  client: Client,
  frames: readonly FrameToCommit[],
  needs: CommitNeeds,
): Promise<FrameOutcome[]> => {
  for (;;) {
    const queues = await findQueues(client, frames, needs.now());
    const outcomes = await commitAt(client, frames, { ...needs, queues, turn: undefined });
    if (outcomes) return outcomes;
  }
};

/**
 * Commits frames on the assumption that each queue's cursor is as in `expected` and of the frames' session. Copies the blocks immediately,
 * and awaits `turn` before it locks the cursors, so that two batches of one queue copy in parallel and commit in order. Returns undefined,
 * with nothing committed, when a cursor is elsewhere or of another session.
 */
export const commitBatchAhead = async (
  client: Client,
  frames: readonly FrameToCommit[],
  {
    expected,
    turn,
    ...needs
  }: CommitNeeds & { expected: ReadonlyMap<string, bigint>; turn: Promise<unknown> | undefined },
): Promise<FrameOutcome[] | undefined> => {
  const queues = queuesIn(frames, expected);
  const isOneSession = (frame: FrameToCommit) => isOfSession(frame, queues.get(queueKey(frame)));
  return frames.every(isOneSession)
    ? commitAt(client, frames, { ...needs, queues, turn })
    : undefined;
};

/** Commits frames if the queues are as expected; returns undefined, with nothing committed, when one is not. */
const commitAt = async (
  client: Client,
  frames: readonly FrameToCommit[],
  needs: CommitNeeds & {
    queues: ReadonlyMap<string, BatchQueue>;
    turn: Promise<unknown> | undefined;
  },
): Promise<FrameOutcome[] | undefined> => {
  const batch = encodeBatch(frames, needs);
  for (let attempts = 1; ; attempts++) {
    let object: WrittenObject | undefined;
    try {
      object = batch.isMoving ? await writeObject(batch, needs) : undefined;
      await commitEncoded(client, { ...batch, object }, needs);
      return batch.outcomes;
    } catch (cause) {
      // Without a connection there is nothing to roll back, and the original error is the more useful one.
      await client.query("rollback").catch(() => undefined);
      const code = errorCode(cause);
      if (code === unexpectedCursor) {
        if (object) needs.objects?.discard(object);
        return undefined;
      }
      if (code === invalidName) needs.objects?.discardNames();
      const needsName = code === invalidName || cause instanceof ObjectExists;
      if (!needsName || attempts === objectsMax) throw cause;
    }
  }
};

type EncodedBatch = ReturnType<typeof encodeBatch>;

/** Decides what frames store, and encodes it. */
const encodeBatch = (
  frames: readonly FrameToCommit[],
  {
    queues,
    codec,
    hasStoredDigests,
    now,
    objects,
  }: CommitNeeds & { queues: ReadonlyMap<string, BatchQueue> },
) => {
  const {
    outcomes,
    blocks: planned,
    hours,
  } = decideBatch(frames, queues, { codec, isInObject: objects !== undefined });
  // Only cores that read digests of stored data read objects.
  const isStored = objects !== undefined || (hasStoredDigests?.() ?? true);
  const blocks = planned.map((block): EncodedBlock => {
    const { placed } = block.run;
    if (placed)
      return { ...block, encoding: "object", data: [placed.reference], digest: placed.digest };
    const encoded = encodeRun(block.run, codec);
    const sha256 = isStored
      ? codec.digest(...encoded.data)
      : readRun(block.run, codec, (bytes) => codec.digest(bytes));
    return { ...block, ...encoded, digest: joinDigest({ sha256, isStored }) };
  });
  const queueList = [...queues.values()];
  const isMoving = queueList.some(({ cursor, initial }) => cursor > initial);
  return { outcomes, blocks, hours, queueList, isMoving, at: now() };
};

/** Writes the object of a batch, unless its blocks are in the rows. */
const writeObject = async (
  { blocks, queueList, at }: EncodedBatch,
  { objects, turn, signal }: CommitNeeds & { turn: Promise<unknown> | undefined },
): Promise<WrittenObject | undefined> =>
  objects?.write(
    { queues: queueList.filter(hasMoved), blocks, isSettled: turn === undefined, now: at },
    signal,
  );

const commitEncoded = async (
  client: Client,
  { blocks, hours, queueList, at, object }: EncodedBatch & { object: WrittenObject | undefined },
  { turn, touchedBy }: Pick<CommitNeeds, "touchedBy"> & { turn: Promise<unknown> | undefined },
): Promise<void> => {
  // Rows that name an object are few bytes: in their turn they wait for nothing, and their transaction is not older than the one before.
  if (object || blocks.length === 0) await turn;
  const cursors = numberArray(queueList.map(({ initial }) => initial));
  const sessions = textArray(queueList.map(({ session }) => session));
  const touched = touchedBy?.(client, at) ?? new Set();
  const touching = movedHosts(queueList).difference(touched);
  await runCopyTransaction(client, {
    before: [beginFor(queueList.length)],
    rows: (object?.blocks ?? blocks).map(encodeBlockRow),
    turn,
    after: [
      `execute expect_cursors(${hostsOf(queueList)}, ${queuesOf(queueList)}, ${cursors}, ${sessions})`,
      ...consumptionOf(object, at),
      ...movesOf(queueList.filter(hasMoved), { blocks, at, touching }),
      ...hours.statements(at),
      ...storedCount(blocks),
      "commit",
    ],
  });
  for (const host of touching) touched.add(host);
};

/** Returns the statement that consumes the name of an object; none without an object. */
const consumptionOf = (object: WrittenObject | undefined, now: number): string[] => {
  if (object === undefined) return [];
  const { id, nonce, bytes, blocks } = object;
  const received = blocks.reduce((last, { receivedAt }) => Math.max(last, receivedAt), 0) || now;
  return [`execute consume_object(${id}, '${nonce}', ${bytes}, ${timestampLiteral(received)})`];
};

/** A batch of several queues waits only briefly for their locks: it can be split. */
const beginFor = (queues: number) =>
  `begin; set local synchronous_commit = on${queues > 1 ? "; set local lock_timeout = '1s'" : ""}`;

/** The SQLSTATE that `expect_ingest_cursors` raises (drizzle/sql/ingest-expect-cursors.sql). */
const unexpectedCursor = "IC001";

/** The SQLSTATE that `consume_ingest_object` raises (drizzle/sql/ingest-consume-object.sql). */
export const invalidName = "IC002";
/** A batch is written so many times: a name becomes invalid while core is frozen, or has a part of an object that core could not finish. */
const objectsMax = 3;

const hasMoved = (queue: BatchQueue) => queue.cursor > queue.initial || queue.isNew;

const hostsOf = (queues: readonly BatchQueue[]) => textArray(queues.map(({ hostId }) => hostId));
const queuesOf = (queues: readonly BatchQueue[]) =>
  textArray(queues.map(({ queueHex }) => queueHex));

/** Reads the queues of a batch, and inserts the new ones. */
const findQueues = async (
  client: Client,
  frames: readonly FrameToCommit[],
  now: number,
): Promise<Map<string, BatchQueue>> => {
  const queues = queuesIn(frames);
  const queueList = [...queues.values()];
  for (const queue of queueList) queue.session = "";
  const rows = await lastResult(
    client,
    `execute find_queues(${hostsOf(queueList)}, ${queuesOf(queueList)})`,
  );
  setCursors(queues, rows);
  const missing = queueList.filter(({ isNew }) => isNew);
  if (missing.length > 0)
    await client.query(
      `execute insert_queues(${hostsOf(missing)}, ${queuesOf(missing)}, ${timestampLiteral(now)})`,
    );
  return queues;
};

const setCursors = (queues: Map<string, BatchQueue>, rows: readonly Record<string, string>[]) => {
  for (const { host_id = "", queue = "", cursor, session = "" } of rows) {
    const state = queues.get(queueKeyOfHex(host_id, queue));
    if (state === undefined || cursor === undefined) continue;
    state.cursor = state.initial = BigInt(cursor);
    state.session = session;
    state.isNew = false;
  }
};

const movedHosts = (queues: readonly BatchQueue[]): Set<string> =>
  new Set(queues.filter((queue) => queue.cursor > queue.initial).map(({ hostId }) => hostId));

/** Returns the digests of each queue's blocks in order, in hex and separated by spaces. */
const digestsOf = (blocks: readonly EncodedBlock[]): Map<string, string> => {
  const digests = new Map<string, string>();
  for (const block of blocks) {
    const key = queueKey(block);
    const before = digests.get(key);
    const digest = block.digest.toHex();
    digests.set(key, before === undefined ? digest : `${before} ${digest}`);
  }
  return digests;
};

/** Returns the statements that store the cursors and the hosts' `last_envelope_at`. */
const movesOf = (
  moved: readonly BatchQueue[],
  {
    blocks,
    at: now,
    touching,
  }: { blocks: readonly EncodedBlock[]; at: number; touching: ReadonlySet<string> },
): string[] => {
  const steps: string[] = [];
  if (moved.length > 0) {
    const cursors = numberArray(moved.map(({ cursor }) => cursor));
    const [stored, rejected, discarded] = (["stored", "rejected", "discarded"] as const).map(
      (name) => numberArray(moved.map(({ counts }) => counts[name])),
    );
    const digests = digestsOf(blocks);
    const added = textArray(
      moved.map(({ hostId, queueHex }) => digests.get(queueKeyOfHex(hostId, queueHex)) ?? ""),
    );
    const counted = `${stored}, ${rejected}, ${discarded}, ${added}`;
    steps.push(
      `execute move_cursors(${hostsOf(moved)}, ${queuesOf(moved)}, ${cursors}, ${timestampLiteral(now)}, ${counted})`,
    );
  }
  if (touching.size > 0)
    steps.push(`execute touch_hosts(${textArray([...touching])}, ${timestampLiteral(now)})`);
  // Skips a cursor that another batch has locked: it is in use, so not old, and waiting for it could deadlock.
  for (const host of new Set(moved.filter(({ isNew }) => isNew).map(({ hostId }) => hostId)))
    steps.push(`execute trim_queues(${literal(host)}, ${cursorsOfHostMax})`);
  return steps;
};
