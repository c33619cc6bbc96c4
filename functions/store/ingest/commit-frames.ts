/**
 * Invariants of ingest, which one transaction for each batch keeps:
 * - The cursor rows of the batch's (host, queue) pairs are locked in sorted order, so batches never deadlock: before the COPY, or, by
 *   `commitFramesAhead`, after it, when the cursors must still be at their expected values.
 * - Envelopes at or below the cursor are skipped, the rest is stored, and the cursor's new value commits with them and with
 *   `ingest_host.last_envelope_at`: a frame sent twice is stored once, a frame acknowledged is stored.
 * - A frame whose `previousSequence` is above the cursor stores nothing, and fails alone. So does one of a session that is not the
 *   queue's, under the same lock: of two copies of a queue, only the one that opened it last can move the cursor.
 * - The rows of a queue have transaction ids (`xid`) that rise with their sequence: a transaction that wrote before the one that moved the
 *   cursor last is rolled back.
 * - `synchronous_commit` is on for the transaction, whatever the role's or the server's default.
 */
import type { Client } from "pg";
import { errorCode } from "../../../kit/describe-error.ts";
import { literal, numberArray, textArray, timestampLiteral } from "../database/sql-literals.ts";
import { lastResult, openCopyClient, runCopyTransaction } from "./copy-transaction.ts";
import { cursorsOfHostMax } from "./cursors.ts";
import { type CopyRows, type EncodedRows, rowsAbove } from "./envelope-rows.ts";
import { HourCounts, prepareHourCount } from "./hours.ts";
import { prepareStoredCount, storedCount } from "./stored.ts";

/** One frame, checked: its rows rise in sequence, above `previousSequence` and up to `lastSequence`. */
export interface FrameToCommit {
  hostId: string;
  queueId: Uint8Array;
  /** The session that opened the queue; absent for a client that names none, whose frames are not fenced. */
  sessionId?: Uint8Array | undefined;
  /** The rows of this host and queue. */
  rows: EncodedRows;
  previousSequence: bigint;
  /** The last sequence that the frame consumes, stored or not. Equal to `previousSequence` for an empty frame. */
  lastSequence: bigint;
}

/** The outcome of a frame: `cursor` is its queue's after the commit, `before` its queue's just before this frame. */
export interface CommittedFrame {
  outcome: "committed" | "sequence_gap" | "queue_forked";
  before: bigint;
  cursor: bigint;
  storedRows: number;
  /** The bytes of the stored payloads. */
  storedBytes: number;
}

interface QueueState {
  hostId: string;
  queueHex: string;
  cursor: bigint;
  initial: bigint;
  /** In hex; empty while no session has opened the queue. */
  session: string;
  isNew: boolean;
}

/** Returns a unique key of a queue: host ids hold no NUL. */
export const queueKey = (hostId: string, queueId: Uint8Array): string => `${hostId}\0${queueId.toHex()}`;

/**
 * How long a batch may take. With the time to reconnect and resend, all queues go on within ten seconds after the process that serves a
 * batch was stopped.
 */
export const commitDeadlineMs = 6_000;

/**
 * Planned once for each connection: for small batches, planning would cost more than running them. The server ends a wait for a lock
 * before the deadline, and what has no client any more soon after it, but a COPY that waits for rows (jobs/end-abandoned-copies.ts).
 */
const statements = `
  set standard_conforming_strings = on; set lock_timeout = ${commitDeadlineMs - 1_000};
  set statement_timeout = ${commitDeadlineMs + 1_000}; set idle_in_transaction_session_timeout = '10s';
  prepare lock_queues (text[], text[]) as
    select host_id, encode(queue_id, 'hex') as queue, cursor, coalesce(encode(session_id, 'hex'), '') as session,
      case when age(ingest_cursor.xmin) < 0 then refuse_overtaken_cursor() end as overtaken
    from unnest($1, $2) as wanted (host, queue)
    join ingest_cursor on host_id = wanted.host and queue_id = decode(wanted.queue, 'hex')
    order by host_id collate "C", queue_id for update of ingest_cursor;
  prepare expect_cursors (text[], text[], bigint[], text[]) as select expect_ingest_cursors($1, $2, $3, $4);
  prepare insert_queues (text[], text[], timestamptz) as
    insert into ingest_cursor (host_id, queue_id, cursor, updated_at)
    select host, decode(queue, 'hex'), 0, $3 from unnest($1, $2) as wanted (host, queue)
    order by host collate "C", decode(queue, 'hex')
    on conflict (host_id, queue_id) do update
    set updated_at = case when age(ingest_cursor.xmin) < 0 then refuse_overtaken_cursor() else ingest_cursor.updated_at end
    returning host_id, encode(queue_id, 'hex') as queue, cursor, coalesce(encode(session_id, 'hex'), '') as session;
  prepare move_cursors (text[], text[], bigint[], timestamptz) as
    update ingest_cursor set cursor = moved.cursor, updated_at = $4
    from unnest($1, $2, $3) as moved (host, queue, cursor)
    where host_id = moved.host and queue_id = decode(moved.queue, 'hex');
  prepare touch_hosts (text[], timestamptz) as
    insert into ingest_host (host_id, last_envelope_at) select host, $2 from unnest($1) as host order by host
    on conflict (host_id) do update
    set last_envelope_at = greatest(ingest_host.last_envelope_at, excluded.last_envelope_at);
  ${prepareHourCount}; ${prepareStoredCount};
  prepare trim_queues (text, int) as
    delete from ingest_cursor where (host_id, queue_id) in (
      select host_id, queue_id from ingest_cursor where host_id = $1
      order by updated_at desc, queue_id offset $2 for update skip locked)`;

/** Opens a connection for `commitFrames`. Rejects within 5 s when the server does not answer. */
export const openCommitClient = (url: string): Promise<Client> => openCopyClient(url, statements);

/**
 * Commits frames in their order, in one transaction on an idle client of `openCommitClient`; resolves after the commit with an outcome
 * for each. Rejects, with nothing committed, when the database fails: it rolls back if the connection is still open.
 */
export const commitFrames = async (
  client: Client,
  frames: readonly FrameToCommit[],
  now: () => number,
): Promise<CommittedFrame[]> => {
  try {
    const queues = await lockQueues(client, frames, now());
    const { outcomes, rows, hours } = decide(frames, queues);
    const at = now();
    const after = [
      ...movesOf([...queues.values()].filter(hasMoved), at),
      ...hours.statements(at),
      ...storedCount(rows),
      "commit",
    ];
    await runCopyTransaction(client, { before: [], rows, turn: undefined, after });
    return outcomes;
  } catch (cause) {
    // Without a connection there is nothing to roll back, and the cause says more than a failed rollback.
    await client.query("rollback").catch(() => undefined);
    throw cause;
  }
};

/**
 * Commits frames under the assumption that each queue's cursor is at its value in `expected` and of the frames' session: it copies the
 * rows at once, and awaits `turn` before it locks the cursors, so that two batches of one queue copy in parallel and commit in their
 * order. Returns undefined, with nothing committed, when a cursor is elsewhere or of another session.
 */
export const commitFramesAhead = async (
  client: Client,
  frames: readonly FrameToCommit[],
  {
    expected,
    turn,
    now,
  }: { expected: ReadonlyMap<string, bigint>; turn: Promise<unknown> | undefined; now: () => number },
): Promise<CommittedFrame[] | undefined> => {
  try {
    const queues = queuesIn(frames, expected);
    const all = [...queues.values()];
    if (!frames.every((frame) => isOfSession(frame, queues.get(queueKey(frame.hostId, frame.queueId)))))
      return undefined;
    const { outcomes, rows, hours } = decide(frames, queues);
    const at = now();
    if (rows.length === 0) await turn;
    const cursors = numberArray(all.map(({ initial }) => initial));
    const sessions = textArray(all.map(({ session }) => session));
    await runCopyTransaction(client, {
      before: [beginFor(all.length)],
      rows,
      turn,
      after: [
        `execute expect_cursors(${hostsOf(all)}, ${queuesOf(all)}, ${cursors}, ${sessions})`,
        ...movesOf(all.filter(hasMoved), at),
        ...[...hours.statements(at), ...storedCount(rows)],
        "commit",
      ],
    });
    return outcomes;
  } catch (cause) {
    await client.query("rollback").catch(() => undefined);
    if (errorCode(cause) === unexpectedCursor) return undefined;
    throw cause;
  }
};

/** Adds counts to the hours of `now`, and moves `last_envelope_at` of hosts, in one transaction on an idle client of `openCommitClient`. */
export const addStoredCounts = async (
  client: Client,
  { hosts, hours, now }: { hosts: ReadonlyMap<string, number>; hours: HourCounts; now: number },
): Promise<void> => {
  const touched = [...Map.groupBy(hosts, ([, at]) => at)].map(
    ([at, some]) => `execute touch_hosts(${textArray(some.map(([host]) => host))}, ${timestampLiteral(at)})`,
  );
  await client.query(["begin", ...touched, ...hours.statements(now), "commit"].join(";"));
};

/** A batch of several queues waits for their locks but shortly: it can be split. */
const beginFor = (queues: number): string =>
  `begin; set local synchronous_commit = on${queues > 1 ? "; set local lock_timeout = '1s'" : ""}`;

/** The SQLSTATE that `expect_ingest_cursors` raises (drizzle/sql/ingest-expect-cursors.sql). */
const unexpectedCursor = "IC001";

const hasMoved = (queue: QueueState): boolean => queue.cursor > queue.initial || queue.isNew;

const hostsOf = (queues: readonly QueueState[]): string => textArray(queues.map(({ hostId }) => hostId));
const queuesOf = (queues: readonly QueueState[]): string => textArray(queues.map(({ queueHex }) => queueHex));

const lockQueues = async (
  client: Client,
  frames: readonly FrameToCommit[],
  now: number,
): Promise<Map<string, QueueState>> => {
  const queues = queuesIn(frames);
  const all = [...queues.values()];
  const found = await lastResult(
    client,
    `${beginFor(all.length)}; execute lock_queues(${hostsOf(all)}, ${queuesOf(all)})`,
  );
  setCursors(queues, found);
  const missing = all.filter(({ isNew }) => isNew);
  if (missing.length > 0) {
    // Another core may see others of them as new: release all locks, then lock all in the one order. An update to itself locks a row
    // that exists, or that another core inserts meanwhile.
    const inserted = await lastResult(
      client,
      `rollback; ${beginFor(all.length)};
       execute insert_queues(${hostsOf(all)}, ${queuesOf(all)}, ${timestampLiteral(now)})`,
    );
    setCursors(queues, inserted);
    for (const queue of missing) queue.isNew = true;
  }
  return queues;
};

/** Returns the queues of a batch at their expected cursors; without one, as new. */
const queuesIn = (frames: readonly FrameToCommit[], expected?: ReadonlyMap<string, bigint>) => {
  const queues = new Map<string, QueueState>();
  for (const { hostId, queueId, sessionId } of frames) {
    const key = queueKey(hostId, queueId);
    const known = queues.get(key);
    // Frames without a session may come first.
    if (known && sessionId && known.session === "") known.session = sessionId.toHex();
    if (known) continue;
    const cursor = expected?.get(key);
    const initial = cursor ?? 0n;
    const session = sessionId?.toHex() ?? "";
    queues.set(key, {
      hostId,
      queueHex: queueId.toHex(),
      cursor: initial,
      initial,
      session,
      isNew: cursor === undefined,
    });
  }
  return queues;
};

const setCursors = (queues: Map<string, QueueState>, rows: readonly Record<string, string>[]): void => {
  for (const { host_id, queue, cursor, session = "" } of rows) {
    const state = queues.get(`${host_id}\0${queue}`);
    if (state === undefined || cursor === undefined) continue;
    state.cursor = state.initial = BigInt(cursor);
    state.session = session;
    state.isNew = false;
  }
};

const isOfSession = ({ sessionId }: FrameToCommit, queue: QueueState | undefined): boolean =>
  sessionId === undefined || queue?.session === sessionId.toHex();

const decide = (frames: readonly FrameToCommit[], queues: ReadonlyMap<string, QueueState>) => {
  const copied: CopyRows[] = [];
  const hours = new HourCounts();
  const outcomes = frames.map((frame): CommittedFrame => {
    const queue = queues.get(queueKey(frame.hostId, frame.queueId));
    const before = queue?.cursor ?? 0n;
    const refused = { before, cursor: before, storedRows: 0, storedBytes: 0 };
    if (queue === undefined || frame.previousSequence > before) return { outcome: "sequence_gap", ...refused };
    if (!isOfSession(frame, queue))
      // Without a session the row is not the one that was opened: the database was restored, or the queue is not of the newest.
      return { outcome: queue.session === "" ? "sequence_gap" : "queue_forked", ...refused };
    if (frame.lastSequence <= before)
      return { outcome: "committed", before, cursor: before, storedRows: 0, storedBytes: 0 };
    const rows = frame.previousSequence === before ? frame.rows : rowsAbove(frame.rows, before);
    if (rows.count > 0) {
      copied.push(rows);
      hours.add(frame.hostId, frame.rows, before);
    }
    queue.cursor = frame.lastSequence;
    const stored = { storedRows: rows.count, storedBytes: rows.payloadBytes };
    return { outcome: "committed", before, cursor: frame.lastSequence, ...stored };
  });
  return { outcomes, rows: copied, hours };
};

/** Returns the statements that store the cursors and the hosts' `last_envelope_at`. */
const movesOf = (moved: readonly QueueState[], now: number): string[] => {
  const steps: string[] = [];
  if (moved.length > 0) {
    const cursors = numberArray(moved.map(({ cursor }) => cursor));
    steps.push(`execute move_cursors(${hostsOf(moved)}, ${queuesOf(moved)}, ${cursors}, ${timestampLiteral(now)})`);
  }
  const hosts = new Set(moved.filter((queue) => queue.cursor > queue.initial).map(({ hostId }) => hostId));
  if (hosts.size > 0) steps.push(`execute touch_hosts(${textArray([...hosts])}, ${timestampLiteral(now)})`);
  // A cursor that another batch has locked is in use, so not old: it is skipped, as waiting for it could deadlock.
  for (const host of new Set(moved.filter(({ isNew }) => isNew).map(({ hostId }) => hostId)))
    steps.push(`execute trim_queues(${literal(host)}, ${cursorsOfHostMax})`);
  return steps;
};
