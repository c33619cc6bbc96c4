import {
  AckPolicy,
  DeliverPolicy,
  type JetStreamManager,
  jetstreamManager,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import { isReplaced, type StreamState, streamStateOf } from "../ingest/nats-sink/export-lags.ts";
import type { Database } from "../store/database/database.ts";
import { findStreamExports } from "../store/export/lag.ts";
import {
  createStreamPosition,
  type ExportLease,
  moveExportPosition,
  moveToStream,
} from "../store/export/positions.ts";
import {
  type BlockCodec,
  describeDamage,
  objectBytes,
  type StoredEnvelope,
} from "../store/ingest/stored-envelope.ts";
import { type ExportChunk, type ExportSource, groupQueues } from "./source.ts";
import { readStreamBlock } from "./stream-block.ts";
import { createStreamChains } from "./stream-chains.ts";
import { pullMessages, type StreamMessage } from "./stream-pulls.ts";

/** The dependencies of the source. */
interface StreamSourceOptions {
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

/** The most unacknowledged messages that the server delivers. */
const pendingMax = 100_000;
/** Long, so that only the new consumer of the next process delivers a message again, which keeps the order. */
const ackWaitMs = 3_600_000;
const headerBytesMax = 64 * 1024;
const nanosOfMs = 1_000_000;
/** NATS' error code of a consumer that does not exist. */
const consumerNotFound = 10_014;

/** The name of an export's consumer. */
const consumerNameOf = (exportName: string) => `svc-export-${exportName}`;

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
 * Reads the stream of blocks in its order, which is the order of each queue's kinds, after the lease's position. The position is stored in
 * PostgreSQL, in one transaction with the dead letters, and the durable consumer is recreated at it. So the next process begins with the oldest
 * message that is not exported: an existing consumer would deliver new messages first, and those of the last process only after their timeout. A
 * chunk's acknowledgement covers all before it. A stream that is not the lease's is read from its beginning.
 */
export const openStreamSource = async (options: StreamSourceOptions): Promise<ExportSource> => {
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
  let last = Number(lease.position);
  // In a stream that was just found, the messages before its first one are not lost.
  let isBehindFirst = lease.position === 0n;

  /** Returns how many messages are lost between the last one and this one. */
  const moveTo = (sequence: number) => {
    const skipped = isBehindFirst ? 0 : Math.max(0, sequence - last - 1);
    if (sequence > last) isBehindFirst = false;
    last = Math.max(last, sequence);
    return skipped;
  };

  const toChunk = (
    messages: readonly StreamMessage[],
    end: StreamMessage,
    lacking: number,
  ): ExportChunk => {
    const envelopes: StoredEnvelope[] = [];
    let bytes = 0;
    let lost = lacking;
    for (const message of messages) {
      lost += moveTo(message.sequence);
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
      for (const envelope of read ?? []) envelopes.push(envelope);
    }
    return {
      queues: groupQueues(envelopes),
      envelopes: envelopes.length,
      bytes: bytes + envelopes.length * objectBytes,
      async commit(outcome) {
        await moveExportPosition(db, lease, {
          ...outcome,
          passed: envelopes.length,
          lost,
          position: BigInt(end.sequence),
          positionAt: end.storedAt,
        });
        end.ack();
      },
    };
  };

  return {
    async read() {
      const delivered = await pulls.receive();
      const end = delivered.at(-1);
      if (end === undefined) return null;
      const { messages, lost } = await chains.complete(delivered);
      return toChunk(messages, end, lost);
    },
    close: pulls.close,
  };
};

/** Moves the lease to the beginning of the stream, unless its position belongs to the stream. */
const followStream = async (
  { db, manager, stream, lease, log }: StreamSourceOptions,
  state: StreamState,
) => {
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
) => {
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
