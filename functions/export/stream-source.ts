import {
  AckPolicy,
  DeliverPolicy,
  type JetStreamManager,
  jetstreamManager,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { LRUCache } from "lru-cache";
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
  BlockCorrupt,
  blockEncodings,
  type DamagedBlock,
  describeDamage,
  objectBytes,
  readStoredBlock,
  type StoredEnvelope,
} from "../store/ingest/stored-envelope.ts";
import { type ExportChunk, type ExportSource, groupQueues } from "./source.ts";
import { pullMessages, type StreamMessage, storedMessage } from "./stream-pulls.ts";

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
  {
    db,
    manager,
    stream,
    lease,
    log,
  }: Pick<StreamSourceOptions, "db" | "manager" | "stream" | "lease" | "log">,
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

/** A block is part of a frame, whose limit an operator can raise to this. */
const rawBytesMax = 256 * 1024 * 1024;

/**
 * Reads the envelopes of a message (docs/nats.md): of a block, or the one envelope of a message of earlier versions. A fence has none, and a
 * damaged message none either, which is passed to `onDamaged`. Returns undefined for a message that core did not write. The envelopes share no
 * memory with the message, because the client's buffer has other messages too.
 */
export const readStreamBlock = (
  { headers, data }: Pick<StreamMessage, "headers" | "data">,
  codec: Pick<BlockCodec, "decompress">,
  onDamaged = (block: DamagedBlock): void => {
    throw new BlockCorrupt(describeDamage(block));
  },
): readonly StoredEnvelope[] | undefined => {
  if (headers?.has("Svc-Fence")) return [];
  const header = (name: string) => headers?.get(name) ?? "";
  const block = readPlace(header);
  if (block === undefined) return undefined;
  const { hostId, queueId, receivedAt } = block;
  try {
    const name = header("Svc-Encoding");
    if (name === "")
      return [
        { hostId, queueId, receivedAt, ...readEnvelope(header), payload: new Uint8Array(data) },
      ];
    const rawBytes = Number(header("Svc-Raw-Bytes"));
    if ((name !== "none" && name !== "zstd") || !(rawBytes <= rawBytesMax))
      throw new BlockCorrupt(name);
    const own = name === "none" ? new Uint8Array(data) : data;
    return readStoredBlock(
      { ...block, rawBytes, encoding: blockEncodings[name], data: own },
      codec,
    );
  } catch {
    onDamaged(block);
    return [];
  }
};

/** Reads which envelopes a message has; undefined if core did not write it. */
const readPlace = (header: (name: string) => string): DamagedBlock | undefined => {
  const receivedAt = microsecondsOf(header("Svc-Received-At"));
  const host = header("Svc-Host");
  const queue = header("Svc-Queue");
  const sequence = header("Svc-Sequence");
  if (receivedAt === undefined || host === "" || queue === "") return undefined;
  try {
    return {
      hostId: decodeURI(host),
      queueId: Uint8Array.fromHex(queue),
      firstSequence: BigInt(header("Svc-First-Sequence") || sequence),
      lastSequence: BigInt(header("Svc-Last-Sequence") || sequence),
      envelopes: Number(header("Svc-Envelopes")) || 1,
      receivedAt,
    };
  } catch {
    return undefined;
  }
};

/** Reads an envelope from the headers of a message of versions before blocks. Throws for others. */
const readEnvelope = (
  header: (name: string) => string,
): Omit<StoredEnvelope, "hostId" | "queueId" | "receivedAt" | "payload"> => {
  const sequence = header("Svc-Sequence");
  const kind = header("Svc-Kind");
  if (!/^\d{1,19}$/.test(sequence) || kind === "")
    throw new TypeError("a message has no sequence or kind");
  return {
    sequence: BigInt(sequence),
    kind,
    observedAt: microsecondsOf(header("Svc-Observed-At")) ?? null,
    source: decodeURI(header("Svc-Source")),
    attributes: JSON.parse(header("Svc-Attributes") || "{}") as Record<string, string>,
  };
};

const time = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z$/;

/** Parses RFC 3339 in UTC with microseconds; undefined for another text. */
const microsecondsOf = (text: string): bigint | undefined => {
  const [, seconds, micro = "0"] = time.exec(text) ?? [];
  return seconds === undefined
    ? undefined
    : BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(micro);
};

/**
 * Completes the deliveries of a consumer. A consumer reads the replica of its node, and replicas can differ after a fault (docs/nats.md): one lacks
 * messages, or has some twice. Each message names its predecessor on its subject, so a reader notices both. Invariants:
 * - A predecessor that was not delivered is read from the stream's leader and inserted.
 * - A block that was delivered already, at another sequence, is omitted.
 * - Messages before the position, or delivered too long ago to be remembered, are not checked.
 */

const subjectsMax = 200_000;
/** Replicas differ in the messages of one moment. */
const blocksMax = 20_000;

/** Creates the chains of a stream that is read after `position`. */
export const createStreamChains = ({
  manager: { streams },
  stream,
  position,
  log,
}: {
  manager: Pick<JetStreamManager, "streams">;
  stream: string;
  position: number;
  log: Pick<Log, "warn">;
}) => {
  /** The sequence of the last message of each subject. */
  const ends = new Map<string, number>();
  /** The newest blocks, by `blockKey`. */
  const blocks = new LRUCache<string, true>({ max: blocksMax });
  let checkedFrom = position;

  const note = ({ subject, sequence }: StreamMessage) => {
    ends.delete(subject);
    ends.set(subject, sequence);
    const [oldest] = ends;
    if (ends.size <= subjectsMax || oldest === undefined) return;
    checkedFrom = Math.max(checkedFrom, oldest[1]);
    ends.delete(oldest[0]);
  };
  const isKnown = (key: string | undefined) => key !== undefined && blocks.has(key);

  /** Reads back along a chain, from the message that `next` expected to the last one that was delivered. */
  const readMissing = async (
    next: StreamMessage,
    after: number,
  ): Promise<{ recovered: StreamMessage[]; isLost: boolean }> => {
    const recovered: StreamMessage[] = [];
    let above = Number.POSITIVE_INFINITY;
    for (let at = expectedBy(next); at > after; at = expectedBy(recovered[0] ?? next)) {
      // A server that does not compare the expected sequence can store a message that expects itself or a later one: an endless chain.
      if (at >= above) return { recovered, isLost: false };
      above = at;
      const stored = await streams.getMessage(stream, { seq: at });
      // If no message is there, retention deleted it, or the position's `lost` counts it.
      if (stored?.subject !== next.subject) return { recovered, isLost: stored !== null };
      const message = storedMessage(stored);
      if (isKnown(blockKey(message))) break;
      recovered.unshift(message);
    }
    return { recovered, isLost: false };
  };

  return {
    /** Returns the messages as the stream has them, and how many the leader lacks too. Rejects when the leader does not answer. */
    async complete(messages: readonly StreamMessage[]) {
      const complete: StreamMessage[] = [];
      let lost = 0;
      const add = (message: StreamMessage) => {
        complete.push(message);
        const key = blockKey(message);
        if (key !== undefined) blocks.set(key, true);
      };
      for (const message of messages) {
        const { subject, sequence: seq } = message;
        if (isKnown(blockKey(message)))
          log.warn({ subject, seq }, "skipped a block that the replica has twice");
        else {
          const after = ends.get(subject) ?? checkedFrom;
          const { recovered, isLost } = await readMissing(message, after);
          if (isLost) lost += 1;
          if (isLost || recovered.length > 0)
            log.warn(
              { subject, seq, after, found: recovered.length },
              "the replica lacks messages that its leader may have; those found are exported",
            );
          for (const each of [...recovered, message]) add(each);
        }
        note(message);
      }
      return { messages: complete, lost };
    },
  };
};

const expectedHeader = "Nats-Expected-Last-Subject-Sequence";

/** The sequence that a message expected as the last of its subject; 0 for none. */
const expectedBy = ({ headers }: StreamMessage) => Number(headers?.get(expectedHeader) || 0);

/** Names a block by its subject and its envelopes; undefined for a fence and what core did not write. */
const blockKey = ({ subject, headers }: StreamMessage): string | undefined => {
  const digest = headers?.has(expectedHeader) && headers.get("Svc-Sha256");
  return digest ? `${subject} ${digest.slice(0, 24)}` : undefined;
};
