import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { Clock } from "../../kit/clock.ts";
import type { Span, Tracer } from "../../kit/tracing/tracer.ts";
import {
  type Ack,
  ForwardRequestSchema,
  ForwardResponseSchema,
  FrameSchema,
  IngestService,
} from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { GrpcError } from "../../proto/grpc-status.ts";
import { wireTag } from "../../proto/wire.ts";
import type { Queue } from "../queue/queue.ts";
import type { QueuedRecords } from "../queue/record.ts";
import { type BatchLimits, nextBatch } from "./batch.ts";
import { freeBytes } from "./free-bytes.ts";
import type { GrpcConnection } from "./grpc-stream.ts";

/** Core has acknowledged more than this queue ever sent: a copy of it has, so its disk was restored or its machine cloned. */
export class QueueForkedError extends Error {
  override readonly name = "QueueForkedError";

  constructor() {
    super("core is ahead of this queue: its disk was restored or its machine cloned");
  }
}

/** A frame that was sent and not yet acknowledged. */
export interface SentFrame {
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly records: number;
  readonly bytes: number;
  /** Undefined if it is not recorded. */
  readonly span: Span | undefined;
}

const path = `/${IngestService.typeName}/${IngestService.method.forward.name}`;

/** The dependencies and callbacks of one stream. */
export interface ForwardStreamOptions {
  connection: Pick<GrpcConnection, "run">;
  hostId: string;
  queue: Queue;
  batch: BatchLimits;
  /** Called before each frame, as the limit changes while the stream runs. */
  maxInFlightFrames(): number;
  /** The stream fails after so long without an answer while one is due. */
  answerTimeoutMs: number;
  clock: Clock;
  tracer?: Tracer;
  onOpened(): void;
  onAck(ack: Ack): void;
}

/**
 * Runs one `Forward` stream until it fails or `signal` aborts; always rejects. Invariants:
 * - Frames follow each other without a gap in `previous_sequence`, which starts at core's cursor, or before it.
 * - A record leaves the queue only by the ack of a frame that contained it: acknowledged, or rejected and moved to the dead letters
 *   before the ack counts. Records at or below core's cursor that are still in the queue lost their ack, and perhaps a rejection: they
 *   are sent again, a frame at a time, and core, which stores nothing twice, reports the rejected ones again.
 * - At most `maxInFlightFrames()` frames are unacknowledged; `inFlight` lists them, oldest first, also after the failure.
 */
export const runStream = async (
  options: ForwardStreamOptions,
  inFlight: SentFrame[],
  signal: AbortSignal,
): Promise<never> => {
  const { queue, clock } = options;
  const end = new AbortController();
  const stop = () => end.abort(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();

  let queueId = queue.queueId;
  const opened = Promise.withResolvers<void>();
  let slot = Promise.withResolvers<void>();
  let answerDueSince: number | null = clock.monotonic();
  let cursor = 0;
  /** The last sequence that this stream has sent, or does not have to send. */
  let sent = 0;

  /** Runs once the connection is there: an outage does not fill the history of sessions. */
  const beginSession = () => {
    try {
      const session = queue.beginSession(options.hostId);
      queueId = session.queueId;
      return {
        hostId: options.hostId,
        queueId,
        sessionId: session.sessionId,
        previousSessionIds: [...session.previousSessionIds],
        ackedThrough: BigInt(session.ackedThrough),
        sentThrough: BigInt(session.sentThrough),
      };
    } catch (error) {
      // Core would see a stream without messages.
      end.abort(error);
      throw error;
    }
  };

  const requests = async function* (): AsyncGenerator<Uint8Array> {
    const message = { case: "open" as const, value: beginSession() };
    yield toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message }));
    await opened.promise;
    while (!end.signal.aborted) {
      while (inFlight.length >= (sent < cursor ? 1 : options.maxInFlightFrames())) {
        slot = Promise.withResolvers();
        await slot.promise;
      }
      const batch = await nextBatch(queue, sent, options.batch, clock, end.signal);
      const previous = sent;
      const frame = frameOf(batch, previous, options.tracer);
      inFlight.push(frame);
      sent = frame.lastSequence;
      queue.markSent(sent);
      answerDueSince ??= clock.monotonic();
      const request = encodeRequest({ hostId: options.hostId, queueId, previousSequence: previous }, batch);
      freeBatch(batch);
      yield request;
      // The next one is requested when this one has left.
      freeBytes(request);
    }
  };

  const open = (committed: number) => {
    if (committed > queue.sentThrough()) throw new QueueForkedError();
    queue.sessionAnswered();
    answerDueSince = null;
    cursor = committed;
    const [oldest] = queue.read(0, { maxRecords: 1, maxBytes: 0 });
    sent = Math.min(cursor, (oldest?.firstSequence ?? Number.POSITIVE_INFINITY) - 1);
    options.onOpened();
    opened.resolve();
  };

  const acknowledge = (ack: Ack) => {
    if (Number(ack.ackedThrough) > Math.max(cursor, sent)) throw new QueueForkedError();
    for (const { sequence, code, message } of ack.rejected) queue.moveToDeadLetters(Number(sequence), code, message);
    // For a resent frame core's cursor is ahead; records that were not resent may still be rejected.
    const through = Math.min(Number(ack.ackedThrough), sent);
    while (inFlight[0] !== undefined && inFlight[0].lastSequence <= through) inFlight.shift()?.span?.end();
    answerDueSince = inFlight.length > 0 ? clock.monotonic() : null;
    removeThrough(queue, through);
    options.onAck(ack);
    slot.resolve();
  };

  const onResponse = (bytes: Uint8Array) => {
    const { message } = fromBinary(ForwardResponseSchema, bytes);
    if (message.case === "opened") open(Number(message.value.cursor));
    else if (message.case === "ack") acknowledge(message.value);
  };

  const watch = async () => {
    for (;;) {
      await clock.sleep(options.answerTimeoutMs / 4, end.signal);
      if (answerDueSince !== null && clock.monotonic() - answerDueSince >= options.answerTimeoutMs)
        end.abort(new GrpcError("deadline_exceeded", `core did not answer for ${options.answerTimeoutMs / 1000} s`));
    }
  };
  watch().catch(() => undefined);

  try {
    await options.connection.run({ path, requests: requests(), onResponse, signal: end.signal });
    throw new GrpcError("unavailable", "core ended the stream");
  } catch (error) {
    throw end.signal.aborted ? end.signal.reason : error;
  } finally {
    for (const { span } of inFlight) endFailed(span);
    signal.removeEventListener("abort", stop);
    end.abort(new Error("the stream has ended"));
    opened.reject(end.signal.reason);
    slot.reject(end.signal.reason);
    opened.promise.catch(() => undefined);
    slot.promise.catch(() => undefined);
  }
};

/** How long acknowledged records may stay on disk, to save fsyncs. */
const ackLingerMs = 50;

/** Ignores failures of the disk: the next ack covers the same records, and core skips those that are resent. */
const removeThrough = (queue: Queue, sequence: number): void => {
  queue.ack(sequence, { lingerMs: ackLingerMs }).catch(() => undefined);
};

const frameOf = (batch: readonly QueuedRecords[], previous: number, tracer: Tracer | undefined): SentFrame => {
  const figures = {
    firstSequence: batch[0]?.firstSequence ?? previous,
    lastSequence: batch.at(-1)?.lastSequence ?? previous,
    records: batch.reduce((sum, { firstSequence, lastSequence }) => sum + lastSequence - firstSequence + 1, 0),
    bytes: batch.reduce((sum, { bytes }) => sum + bytes, 0),
  };
  const span = tracer?.begin({ name: "forward frame", kind: "client" });
  span?.set({
    "svc.first_sequence": figures.firstSequence,
    "svc.records": figures.records,
    "svc.bytes": figures.bytes,
  });
  return { ...figures, span };
};

const endFailed = (span: Span | undefined): void => {
  span?.fail();
  span?.end();
};

const frameTag = wireTag(ForwardRequestSchema.field.frame.number, WireType.LengthDelimited);

/** Encodes a request with a frame of these records. Their envelopes go into it as the queue stores them. */
const encodeRequest = (
  head: { hostId: string; queueId: Uint8Array<ArrayBuffer>; previousSequence: number },
  batch: readonly QueuedRecords[],
): Uint8Array<ArrayBuffer> => {
  const previousSequence = BigInt(head.previousSequence);
  const begin = toBinary(FrameSchema, create(FrameSchema, { ...head, previousSequence }));
  const length = batch.reduce((sum, { envelopes }) => sum + envelopes.length, begin.length);
  const prefix = new BinaryWriter().uint32(frameTag).uint32(length).finish();
  const parts = [prefix, begin, ...batch.map(({ envelopes }) => envelopes)];
  const bytes = new Uint8Array(prefix.length + length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
};

/** Frees what a copied batch was read into, except that of its last records: the queue reads on in it. */
const freeBatch = (batch: readonly QueuedRecords[]): void => {
  const kept = batch.at(-1)?.envelopes.buffer;
  for (const { envelopes } of batch) if (envelopes.buffer !== kept) freeBytes(envelopes, { whole: true });
};
