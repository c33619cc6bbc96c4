import {
  AckPolicy,
  DeliverPolicy,
  type JetStreamManager,
  jetstreamManager,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { isReplaced } from "../ingest/nats-sink/export-lags.ts";
import { type StreamState, streamStateOf } from "../ingest/nats-sink/stream-state.ts";
import type { Database } from "../store/database/database.ts";
import { findStreamExports } from "../store/export/lag.ts";
import {
  createStreamPosition,
  type ExportLease,
  moveExportPosition,
  moveToStream,
} from "../store/export/positions.ts";
import type { BlockCodec } from "../store/ingest/block-codec.ts";
import {
  describeDamage,
  objectBytes,
  type StoredEnvelope,
} from "../store/ingest/stored-envelope.ts";
import type { ClosableSource, ExportChunk } from "./source.ts";
import { readStreamBlock } from "./stream-block.ts";
import { createStreamChains } from "./stream-chains.ts";
import type { StreamMessage } from "./stream-message.ts";
import { pullMessages } from "./stream-pulls.ts";

/** The dependencies of the source. */
export interface StreamSourceOptions {
  db: Database;
  connection: NatsConnection;
  manager: JetStreamManager;
  /** The stream's name. */
  stream: string;
  lease: ExportLease;
  clock: Pick<Clock, "sleep">;
  log: Pick<Log, "warn" | "error">;
  codec: Pick<BlockCodec, "decompress">;
  /** The size of a chunk that the source aims at. */
  chunkBytes: number;
}

/** A chunk with where it ends. */
interface StreamChunk extends ExportChunk {
  last: StreamMessage;
  lost: number;
}

/** The server delivers no more than so many messages that are not acknowledged. */
const pendingMax = 100_000;
/** Only a new consumer, of the next process, shall deliver a message again: it does so in order. */
const ackWaitMs = 3_600_000;
const headerBytesMax = 64 * 1024;
const nanosOfMs = 1_000_000;
/** NATS' error code of a consumer that does not exist. */
const consumerNotFound = 10_014;

/** The name of an export's consumer. */
export const consumerNameOf = (exportName: string): string => `svc-export-${exportName}`;

/** Returns JetStream's manager. Rejects while the stream does not exist: core creates it, and until then an export has nothing to read. */
export const manageStream = async (
  connection: NatsConnection,
  stream: string,
): Promise<JetStreamManager> => {
  const manager = await jetstreamManager(connection);
  await manager.streams.info(stream);
  return manager;
};

/** Creates the position of an export unless there is one: before all that the stream has, or behind it. */
export const prepareStreamPosition = async (
  { db, manager, stream }: Pick<StreamSourceOptions, "db" | "manager" | "stream">,
  name: string,
  start: "oldest" | "now",
): Promise<void> => {
  const state = await streamStateOf(manager, stream);
  const position = start === "now" ? state.lastSequence : state.firstSequence - 1n;
  await createStreamPosition(db, name, { stream: state.identity, position });
};

/**
 * Reads the stream of blocks in its order, which is the order of each queue's kinds, behind the lease's position. The position is in PostgreSQL, in
 * one transaction with the dead letters; the durable consumer is created anew at it. So a process that continues begins with the oldest
 * message that is not exported: a consumer that went on would deliver new ones first, and those that the last process had when their time is
 * up. A chunk's acknowledgement covers all before it. A stream that is not the lease's is read from its beginning.
 */
export const openStreamSource = async (options: StreamSourceOptions): Promise<ClosableSource> => {
  const { db, connection, manager, stream, lease, clock, log, codec, chunkBytes } = options;
  await followStream(options, await streamStateOf(manager, stream));
  const consumer = consumerNameOf(lease.name);
  await replaceConsumer(manager, stream, consumer, lease.position);
  const messageBytesMax = (connection.info?.max_payload ?? 0) + headerBytesMax;
  const deliveries = async () =>
    (await manager.consumers.info(stream, consumer)).delivered.consumer_seq;
  const pulls = pullMessages({
    connection,
    stream,
    consumer,
    clock,
    deliveries,
    bytes: chunkBytes,
    messageBytesMax,
  });
  const chains = createStreamChains({ manager, stream, position: Number(lease.position), log });
  const chunks = new WeakMap<ExportChunk, StreamChunk>();
  let last = Number(lease.position);
  // Messages before the first one of a stream that has just been found are not lost.
  let isBehindFirst = lease.position === 0n;

  const toChunk = (
    messages: readonly StreamMessage[],
    end: StreamMessage,
    lacking: number,
  ): ExportChunk => {
    const queues = new Map<string, StoredEnvelope[]>();
    let envelopes = 0;
    let bytes = 0;
    let lost = lacking;
    for (const message of messages) {
      if (message.sequence > last) {
        if (!isBehindFirst) lost += message.sequence - last - 1;
        isBehindFirst = false;
        last = message.sequence;
      }
      bytes += message.heldBytes;
      const { subject, sequence: seq } = message;
      const read = readStreamBlock(message, codec, (block) => {
        lost += block.envelopes;
        log.error(
          { subject, seq, damaged: describeDamage(block) },
          "a stored block is damaged; its envelopes are lost",
        );
      });
      if (read === undefined) log.warn({ subject, seq }, "skipped a foreign message");
      const [first] = read ?? [];
      if (!read || !first) continue;
      envelopes += read.length;
      bytes += read.length * objectBytes;
      const key = `${first.hostId}\0${first.queueId.toHex()}`;
      const queue = queues.get(key) ?? [];
      queues.set(key, queue);
      for (const envelope of read) queue.push(envelope);
    }
    // Blocks of several kinds overlap.
    for (const queue of queues.values()) queue.sort((a, b) => (a.sequence < b.sequence ? -1 : 1));
    const chunk = { queues: [...queues.values()], envelopes, bytes, last: end, lost };
    chunks.set(chunk, chunk);
    return chunk;
  };

  return {
    async read() {
      const delivered = await pulls.receive();
      const end = delivered.at(-1);
      if (end === undefined) return null;
      const { messages, lost } = await chains.complete(delivered);
      return toChunk(messages, end, lost);
    },
    async commit(chunk, outcome) {
      const read = chunks.get(chunk);
      if (read === undefined) throw new TypeError("a chunk of another source");
      const { last: message, lost } = read;
      const { sequence, storedAt: positionAt } = message;
      await moveExportPosition(db, lease, {
        ...outcome,
        passed: read.envelopes,
        lost,
        position: BigInt(sequence),
        positionAt,
      });
      message.ack();
    },
    close: () => pulls.close(),
  };
};

/** Moves the lease to the beginning of the stream unless its position is one of it. */
const followStream = async (
  {
    db,
    manager,
    stream,
    lease,
    log,
  }: Pick<StreamSourceOptions, "db" | "manager" | "stream" | "lease" | "log">,
  state: StreamState,
): Promise<void> => {
  const [own] = (await findStreamExports(db, state.identity)).filter(
    ({ name }) => name === lease.name,
  );
  const isOfStream = own !== undefined && lease.position <= state.lastSequence;
  if (isOfStream && !(await isReplaced({ manager, stream }, { ...own, position: lease.position })))
    return;
  log.warn(
    { export: lease.name, was: lease.stream, stream: state.identity },
    "another stream: exporting all it has",
  );
  await moveToStream(db, lease, { stream: state.identity, position: state.firstSequence - 1n });
};

const replaceConsumer = async (
  { consumers }: Pick<JetStreamManager, "consumers">,
  stream: string,
  name: string,
  position: bigint,
): Promise<void> => {
  await consumers.delete(stream, name).catch((cause: unknown) => {
    if ((cause as { code?: number }).code !== consumerNotFound) throw cause;
  });
  await consumers.add(stream, {
    durable_name: name,
    description: "svc-server export: its position is in PostgreSQL",
    ack_policy: AckPolicy.All,
    ack_wait: ackWaitMs * nanosOfMs,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: Number(position) + 1,
    max_ack_pending: pendingMax,
  });
};
