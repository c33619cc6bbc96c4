/**
 * The sink that stores blocks of envelopes in NATS JetStream. PostgreSQL is not in the path of a frame: it receives the counts once a
 * second, the queues that are opened, and the audit events of forks and gaps. Invariants, beside those of `queue-streams.ts`:
 * - The work of one queue runs one after the other (`mutex`); a view is changed there only.
 * - After any failure the view is dropped: what is stored then is read again, so an envelope that was stored without its
 *   acknowledgement is not stored again.
 */
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Client } from "pg";
import { addTotals, type CountedQueue } from "#functions/domain/telemetry/stream-range.ts";
import { Problem } from "#functions/problems.ts";
import type { Database } from "#functions/store/database/database.ts";
import {
  type FrameOutcome,
  type FrameToCommit,
  queueKey,
} from "#functions/store/ingest/decide-batch.ts";
import {
  cursorsOfHostMax,
  endQueues,
  findCursor,
  noteFork,
  noteQueues,
  type QueueName,
} from "#functions/store/ingest/queues.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import { withTimeout } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import type { Open } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { CommitObserver } from "../committer.ts";
import { inGroups } from "../in-groups.ts";
import {
  ackedUnder,
  checkOpen,
  decideOpen,
  type LeftCursor,
  lossOf,
  type OpenedQueue,
} from "../open-queue.ts";
import {
  forkEvent,
  type LossObserver,
  type QueueEventNeeds,
  withoutStored,
} from "../queue-events.ts";
import type { Sink } from "../sink.ts";
import { type AckedMessage, createAckedMessages, createRestoreDetector } from "./acked-messages.ts";
import { createServerInspection } from "./check-servers.ts";
import { streamStateOf, watchExportLags } from "./export-lags.ts";
import { createHealth } from "./health.ts";
import { createKeyedMutex } from "./keyed-mutex.ts";
import { createLossReports, type LossReports } from "./loss-reports.ts";
import { planBlocks } from "./plan-blocks.ts";
import {
  checkStreams,
  isStreamMissing,
  prepareStreams,
  type StreamSettings,
} from "./prepare-streams.ts";
import {
  createPublisher,
  type Publisher,
  type PublishObserver,
  StaleSequence,
} from "./publisher.ts";
import { createQueueStreams, type QueueStreams } from "./queue-streams.ts";
import {
  chainsEndOf,
  countConsumed,
  createChainNames,
  createViews,
  decideCountStart,
  decideRefusal,
  hasExpired,
  highestStored,
  type QueueView,
  sessionOf,
  totalsOf,
  type Views,
} from "./queue-view.ts";
import { createStoredCounts, type StoredCounts } from "./stored-counts.ts";

/** The dependencies of the sink. */
interface NatsSinkNeeds extends QueueEventNeeds {
  db: Database;
  /** Closed with the sink. */
  connection: NatsConnection;
  settings: StreamSettings;
  /** Opens a connection of `openCommitClient` for the counts. */
  connectCommitter(): Promise<Client>;
  codec: Pick<BlockCodec, "compress" | "digest">;
  observe: LossObserver & CommitObserver & PublishObserver;
}

/** The sink, and figures of its publisher. */
export interface NatsSink extends Sink {
  waiting: Publisher["waiting"];
}

/** Bytes of a message's headers at most, with an encoded host id of 6 KiB: they count against the server's `max_payload`. */
const headerBytesMax = 8 * 1024;

/** Creates the sink; checks the servers and creates or checks the streams, see `checkServers` and `prepareStreams`. */
export const createNatsSink = async (needs: NatsSinkNeeds): Promise<NatsSink> => {
  const { connection, settings, db, clock, observe, log } = needs;
  const manager: JetStreamManager = await jetstreamManager(connection);
  const inspectServers = createServerInspection({ connection, settings, log });
  await inspectServers(0);
  const names = await prepareStreams(manager, settings);
  const restores = createRestoreDetector(manager, names.envelopes);
  const atStart = await checkStreams(manager, settings);
  await restores.isFound(atStart);
  const publisher = createPublisher({ connection, clock, observe });
  const acked = createAckedMessages(manager, atStart[0]);
  const onAcked = (message: AckedMessage) => {
    acked.note(message);
    restores.noteStored(message);
  };
  const streams = createQueueStreams({ ...needs, manager, publisher, streams: names, onAcked });
  const views = createViews(streams.load);
  const mutex = createKeyedMutex();
  const losses = createLossReports({
    ...needs,
    acked,
    cursorOf: (queue) =>
      mutex.run(queueKey(queue), async () => {
        const view = await streams.load(queue);
        await streams.findChains(view);
        return view.cursor;
      }),
  });
  // It may have gone back while no core ran.
  void losses.compare(atStart[0], true);
  const restoreListeners = new Set<() => void>();
  const inspect = async (round: number) => {
    const infos = await checkStreams(manager, settings).catch((error: unknown) => {
      if (!isStreamMissing(error)) throw error;
      restores.noteMissing();
      throw new ConfigError([streamMissing]);
    });
    const hasGoneBack = await restores.isFound(infos);
    if (hasGoneBack) {
      log.warn(
        {},
        "a stream has gone back, as after a restore from a backup; every queue is opened anew",
      );
      views.clear();
      for (const notify of restoreListeners) notify();
    }
    // Not awaited: to compare all takes seconds.
    void losses.compare(infos[0], hasGoneBack);
    await inspectServers(round);
    return infos;
  };
  const counts = createStoredCounts({
    connect: needs.connectCommitter,
    clock,
    onError: (err) =>
      log.warn({ err }, "counts of stored envelopes could not be written; they are kept"),
  });
  const { waiting } = publisher;
  const health = createHealth({ ...needs, waiting, inspect });
  const stopped = new AbortController();
  const counting = counts.run(stopped.signal);
  const watching = watchExportLags({ manager, db, clock, stream: names.envelopes }, stopped.signal);
  const parts: SinkParts = { ...needs, streams, views, counts, losses };
  const commit = createCommit(parts);
  const { open, openLeft } = createOpens(parts);
  const noteOpened = createNotes(needs, stopped.signal);
  const exclusively = <Result>(queue: QueueName, work: () => Promise<Result>): Promise<Result> =>
    mutex.run(queueKey(queue), () => health.observe(work));
  let isClosing = false;

  return {
    /** Reads what the streams have counted of a queue, whatever this core last saw of it. */
    countedOf: (queue) =>
      exclusively(queue, async () => {
        const view = await streams.load(queue);
        return countedIn(view, (await streamStateOf(manager, names.envelopes)).identity);
      }),
    async open(claims, isGone = () => false) {
      checkOpen(claims);
      const left: LeftCursor[] = [];
      // One after the other, as each has a lock of its own.
      for (const [index, each] of claims.leftQueues.entries()) {
        const { queueId, storedThrough, ackedThrough } = each;
        const queue = { hostId: claims.hostId, queueId };
        const before = ackedUnder(claims.leftQueues.slice(index + 1));
        const cursor = await exclusively(queue, () => openLeft(queue, storedThrough, before));
        left.push({ queueId, cursor, ackedThrough });
      }
      const opened = await exclusively(claims, () => open(claims, isGone));
      // As in PostgreSQL's sink.
      if (claims.sessionId.length > 0 || claims.ackedThrough > 0n) void noteOpened(claims);
      return { ...opened, left };
    },
    async commit(frame) {
      if (isClosing) throw new Problem("shutting_down");
      return exclusively(frame, () => commit(frame));
    },
    health: health.status,
    onRestored: (notify) => void restoreListeners.add(notify),
    waiting,
    async close(graceMs = 3_000) {
      isClosing = true;
      await withTimeout(graceMs, clock, mutex.idle()).catch(() => undefined);
      publisher.close();
      await mutex.idle();
      health.close();
      stopped.abort();
      await Promise.all([counting, watching]);
      await connection.close();
    },
  };
};

/** A server that has forgotten a stream after its disk was full was seen to acknowledge what it was sent. */
const streamMissing = {
  variable: "SVC_NATS_STREAM",
  message: "a stream is missing: restore it from a backup, or restart core, which creates it empty",
};

/** Returns what a stream has counted of a queue; null without a message or a state of it. */
const countedIn = (view: QueueView, stream: string): CountedQueue | null => {
  const { cursor, chains, countedFrom, stateEnd } = view;
  if (stateEnd === 0 && chains.size === 0) return null;
  const sequence = chainsEndOf(view);
  return {
    cursor,
    sessionId: sessionOf(view),
    totals: totalsOf(view),
    countedFrom,
    end: sequence === 0 ? null : { stream, sequence: BigInt(sequence) },
  };
};

/** What the work on a queue uses. */
interface SinkParts extends NatsSinkNeeds {
  streams: QueueStreams;
  views: Views;
  counts: StoredCounts;
  losses: LossReports;
}

/** Creates what commits frames. */
const createCommit = (parts: SinkParts) => {
  const { connection, clock, codec, observe, streams, views, counts } = parts;

  /** Stores what of a frame is above the cursor; `stored` counts it across attempts. */
  const store = async (
    view: QueueView,
    frame: FrameToCommit,
    stored: { rows: number; bytes: number },
  ): Promise<void> => {
    const blocks = planBlocks(frame, {
      cursor: view.cursor,
      chainOf: createChainNames(view),
      storedThrough: (chain) => view.chains.get(chain)?.storedThrough ?? 0n,
      // Another server may have another limit.
      bytesMax: (connection.info?.max_payload ?? 0) - headerBytesMax,
      codec,
    });
    await streams.declare(
      view,
      blocks.map(({ chain }) => chain),
    );
    for (const block of blocks) {
      const added = countConsumed(frame, {
        above: view.cursor,
        through: block.cursor,
        stored: block.run.count,
      });
      await streams.append(view, block, added, frame.receivedAt);
      stored.rows += block.run.count;
      stored.bytes += block.run.payloadBytes;
      counts.add(frame.hostId, block.run.kinds);
      counts.host(frame.hostId);
    }
    if (frame.lastSequence <= view.cursor) return;
    // All of the rest was rejected or discarded, or is stored: no block has moved the cursor.
    const totals = totalsOf(view);
    const added = countConsumed(frame, {
      above: view.cursor,
      through: frame.lastSequence,
      stored: 0,
    });
    await streams.writeState(view, {
      cursor: frame.lastSequence,
      totals: totals && addTotals(totals, added),
    });
    counts.host(frame.hostId);
  };

  return async (frame: FrameToCommit): Promise<FrameOutcome> => {
    const startedAt = clock.monotonic();
    const stored = { rows: 0, bytes: 0 };
    let first: bigint | undefined;
    let isFenced = false;
    const outcome = await views.use(frame, async (view, isFresh) => {
      // A sender without sessions opens nothing, and what it sent through another core may still be under way. One fence a frame: senders
      // that write through two cores at once would fence each other for ever.
      if (frame.sessionId === undefined && !view.isOwn) {
        if (!isFenced) await streams.fence(view);
        isFenced = true;
        view.isOwn = true;
      }
      const refused = decideRefusal(view, frame);
      if (refused && !isFresh) throw new StaleSequence();
      first ??= view.cursor;
      if (refused === undefined) await store(view, frame, stored);
      return { outcome: refused ?? ("committed" as const), cursor: view.cursor };
    });
    observe.batch({
      seconds: (clock.monotonic() - startedAt) / 1000,
      frames: 1,
      rows: stored.rows,
    });
    const { rows: storedRows, bytes: storedBytes } = stored;
    return { ...outcome, before: first ?? outcome.cursor, storedRows, storedBytes };
  };
};

/** Creates what opens queues. */
const createOpens = ({ db, settings, clock, streams, views, losses }: SinkParts) => {
  const openView = async (
    view: QueueView,
    claims: Open,
    queue: OpenedQueue,
    { isFresh, isGone }: { isFresh: boolean; isGone(): boolean },
  ): Promise<OpenedQueue> => {
    const reject = async (): Promise<never> => {
      if (isGone()) throw new Problem("queue_forked");
      const { lost } = decideView(view, claims);
      await losses.recordOnce(queue, lost, { others: [forkEvent(view.cursor)] });
      await noteFork(db, queue);
      throw new Problem("queue_forked");
    };
    if (decideView(view, claims).lost) await streams.findChains(view);
    if (decideView(view, claims).isForked) {
      if (!isFresh) throw new StaleSequence();
      return reject();
    }
    const isExpired = hasExpired(view, settings, clock.now());
    const { isOwn } = view;
    view.isOwn = false;
    await streams.writeState(view, queue.sessionId ? { session: queue.sessionId.toHex() } : {});
    view.stateAt = clock.now();
    if (!isOwn) await streams.fence(view);
    // The fence may have found more than the view had.
    const { isForked, lost, cursor } = decideView(view, claims);
    if (isForked) return reject();
    const recorded =
      lost && !isExpired ? withoutStored(lost, await findCursor(db, queue)) : undefined;
    await losses.record(queue, recorded, "stream");
    const restart = decideCountStart(view, lost, recorded);
    if (restart) await streams.writeState(view, { cursor, ...restart });
    view.isOwn = true;
    return { ...queue, cursor };
  };

  const open = async (claims: Open, isGone: () => boolean): Promise<OpenedQueue> => {
    const { hostId, queueId, sessionId } = claims;
    const isFenced = sessionId.length > 0;
    const queue = { hostId, queueId, cursor: 0n, sessionId: isFenced ? sessionId : undefined };
    if (!isFenced && claims.ackedThrough === 0n)
      return { ...queue, cursor: (await streams.load(queue)).cursor };
    // What this core last saw may be ahead of a stream that has gone back since, with a state that is as it was then.
    views.forget(queue);
    return views.use(queue, (view, isFresh) => openView(view, claims, queue, { isFresh, isGone }));
  };

  /** Records what the streams have lost of a queue that its host has left, and returns its cursor. */
  const openLeft = (
    queue: QueueName,
    storedThrough: bigint,
    ackedBefore: bigint,
  ): Promise<bigint> => {
    views.forget(queue);
    return views.use(queue, async (view) => {
      if (lossOf(view.cursor, storedThrough, ackedBefore)) await streams.findChains(view);
      const lost = lossOf(view.cursor, storedThrough, ackedBefore);
      if (!lost) return view.cursor;
      // Of what core does not judge, the host keeps what it knows: a queue without a state may have been trimmed.
      const mayBeTrimmed =
        view.stateEnd === 0 && (await streams.countStates(queue.hostId)) >= cursorsOfHostMax;
      const known = await findCursor(db, queue);
      if (mayBeTrimmed || hasExpired(view, settings, clock.now()) || known >= storedThrough)
        return storedThrough;
      await losses.recordOnce(queue, lost, { storedThrough: known });
      return view.cursor;
    });
  };

  return { open, openLeft };
};

/** Decides on an open by what the streams have of its queue. */
const decideView = (view: QueueView, claims: Open) => {
  const decided = decideOpen({ cursor: view.cursor, sessionId: sessionOf(view) }, claims);
  const stored = highestStored(view);
  return { ...decided, isForked: decided.isForked || stored > (claims.sentThrough ?? stored) };
};

/** Creates what notes that a queue is open; no frame waits for it, also while PostgreSQL is unavailable. */
const createNotes = ({ db, clock, log }: NatsSinkNeeds, signal: AbortSignal) => {
  const note = inGroups(
    (opens: readonly Open[]) =>
      db.transaction(async (tx) => {
        const now = new Date(clock.now());
        await noteQueues(tx, opens, now);
        for (const { hostId, leftQueues } of opens) {
          const left = leftQueues.map(({ queueId }) => queueId);
          if (left.length > 0)
            await endQueues(tx, hostId, left, { endedAt: now, ending: "succeeded" }, now);
        }
        return opens;
      }),
    { keyOf: ({ hostId }) => hostId },
  );
  return async (open: Open): Promise<void> => {
    while (!signal.aborted)
      try {
        await note(open);
        return;
      } catch (err) {
        log.warn({ err }, "an opened queue could not be noted; core tries again");
        await clock.sleep(1_000, signal).catch(() => undefined);
      }
  };
};
