import { concatBytes, lengthOf } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { freeBytes } from "#kit/free-bytes.ts";
import type { Span, Tracer } from "#kit/tracing/tracer.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import type { Queue } from "../queue/queue.ts";
import type { QueuedRecords } from "../queue/record.ts";
import { type AccountSender, AccountTimeoutError, createAccountSender } from "./account-sender.ts";
import { type BatchLimits, nextBatch } from "./batch.ts";
import type { Compressor } from "./compressor.ts";
import type { GrpcConnection, GrpcRequest } from "./grpc-stream.ts";
import {
  type Ack,
  type Directive,
  decodeResponse,
  encodeBlock,
  encodeFrame,
  encodeOpen,
  encodeStatus,
  forwardPath,
  type Opened,
  type Status,
  type StatusAnswer,
  zstd,
} from "./messages.ts";

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

/** The dependencies and callbacks of one stream. */
export interface ForwardStreamOptions {
  connection: Pick<GrpcConnection, "run">;
  hostId: string;
  queue: Queue;
  batch: BatchLimits;
  /** Compresses with zstd, where core takes that; otherwise the connection compresses. */
  compressBlock?: Compressor | undefined;
  /** Called before each frame, as the limit changes while the stream runs. */
  maxInFlightFrames(): number;
  /** The stream fails after so long without an answer while one is due. */
  answerTimeoutMs: number;
  /** The stream fails with an `AccountTimeoutError` after so long without the answer to an account. */
  accountTimeoutMs: number;
  /** Reports whether accounts wait, and telemetry does not wait for them; false again at a time of its own. */
  areAccountsPaused(): boolean;
  clock: Clock;
  tracer?: Tracer;
  /** Core has answered; `send` is undefined if it takes no statuses on this stream. */
  onOpened(opened: { send: StatusExchange["send"] | undefined; takesAccounts: boolean }): void;
  onAck(ack: Ack): void;
  onAccountAnswered(): void;
  /** Core refuses an account of this host. */
  onAccountRefused(refusal: { number: number; reason: string }): void;
  /** Without it, core is not told that this client takes directives. */
  onDirective?: ((directive: Directive) => void) | undefined;
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

  const controls = createControlRequests();
  const statuses = createStatusExchange(controls);
  let queueId = queue.queueId;
  const opened = Promise.withResolvers<void>();
  let slot = Promise.withResolvers<void>();
  let answerDueSince: number | null = clock.monotonic();
  let cursor = 0;
  let compressBlock: Compressor | undefined;
  const accounts = createAccountSender(queue, controls, options);
  /** The last sequence that this stream has sent, or does not have to send. */
  let sent = 0;

  /** Runs once the connection is there: an outage does not fill the history of sessions. */
  const beginSession = () => {
    try {
      const session = queue.beginSession(options.hostId);
      queueId = session.queueId;
      const takesDirectives = options.onDirective !== undefined;
      return { hostId: options.hostId, ...session, takesDirectives };
    } catch (error) {
      // Core would see a stream without messages.
      end.abort(error);
      throw error;
    }
  };

  const requests = async function* (): AsyncGenerator<GrpcRequest> {
    yield encodeOpen(beginSession());
    await opened.promise;
    while (!end.signal.aborted) {
      while (inFlight.length >= (sent < cursor ? 1 : options.maxInFlightFrames())) {
        slot = Promise.withResolvers();
        await slot.promise;
      }
      const previous = sent;
      const batch = await nextBatch(
        queue,
        previous,
        options.batch,
        { clock, gate: accounts },
        end.signal,
      );
      const frame = frameOf(batch, previous, options.tracer);
      inFlight.push(frame);
      sent = frame.lastSequence;
      queue.markSent(sent);
      answerDueSince ??= clock.monotonic();
      const head = {
        hostId: options.hostId,
        queueId,
        previousSequence: previous,
        lastSequence: sent,
      };
      const envelopes = batch.map((records) => records.envelopes);
      if (compressBlock !== undefined && lengthOf(envelopes) >= blockBytesMin) {
        const raw = concatBytes(envelopes);
        const block = { ...head, envelopes: frame.records, rawBytes: raw.length };
        freeBatch(batch);
        yield encodeBlock(block, await compressBlock(raw));
        continue;
      }
      const request = encodeFrame(head, envelopes);
      freeBatch(batch);
      yield request;
      // The next one is requested when this one has left.
      freeBytes(request);
    }
  };

  const open = ({
    cursor: committed,
    leftCursors,
    blockEncodings,
    statusIntervalSeconds,
    takesAccounts,
  }: Opened) => {
    if (blockEncodings.includes(zstd)) compressBlock = options.compressBlock;
    if (committed > queue.sentThrough()) throw new QueueForkedError();
    queue.sessionAnswered(leftCursors);
    answerDueSince = null;
    cursor = committed;
    const [oldest] = queue.read(0, { maxRecords: 1, maxBytes: 0 });
    sent = Math.min(cursor, (oldest?.firstSequence ?? Number.POSITIVE_INFINITY) - 1);
    const send = statusIntervalSeconds > 0 ? statuses.send : undefined;
    options.onOpened({ send, takesAccounts });
    accounts.opened(takesAccounts);
    opened.resolve();
  };

  const acknowledge = (ack: Ack) => {
    if (ack.ackedThrough > Math.max(cursor, sent)) throw new QueueForkedError();
    for (const { sequence, code, message } of ack.rejected)
      queue.moveToDeadLetters(sequence, code, message);
    // For a resent frame core's cursor is ahead; records that were not resent may still be rejected.
    const through = Math.min(ack.ackedThrough, sent);
    while (inFlight[0] !== undefined && inFlight[0].lastSequence <= through)
      inFlight.shift()?.span?.end();
    answerDueSince = inFlight.length > 0 ? clock.monotonic() : null;
    removeThrough(queue, through, accounts.poke);
    accounts.ackedThrough(through);
    options.onAck(ack);
    slot.resolve();
  };

  const onResponse = (bytes: Uint8Array) => {
    const { ack, opened, statusAnswer, accountAck, directive } = decodeResponse(bytes);
    if (ack) acknowledge(ack);
    if (opened) open(opened);
    if (statusAnswer) statuses.answered(statusAnswer);
    if (accountAck) {
      options.onAccountAnswered();
      accounts.acknowledged(accountAck);
    }
    if (directive) options.onDirective?.(directive);
  };

  watchAnswers(options, { accounts, answerDueSince: () => answerDueSince }, end);
  followAccounts(queue, accounts, end);

  try {
    await options.connection.run({
      path: forwardPath,
      requests: controls.merge(requests()),
      onResponse,
      signal: end.signal,
    });
    throw new GrpcError("unavailable", "core ended the stream");
  } catch (error) {
    throw end.signal.aborted ? end.signal.reason : error;
  } finally {
    for (const { span } of inFlight) endFailed(span);
    signal.removeEventListener("abort", stop);
    end.abort(new Error("the stream has ended"));
    statuses.end(end.signal.reason);
    opened.reject(end.signal.reason);
    slot.reject(end.signal.reason);
    opened.promise.catch(() => undefined);
    slot.promise.catch(() => undefined);
  }
};

/** Ends the stream with an error while an answer is due for too long. */
const watchAnswers = (
  { clock, answerTimeoutMs, accountTimeoutMs }: ForwardStreamOptions,
  { accounts, answerDueSince }: { accounts: AccountSender; answerDueSince(): number | null },
  end: AbortController,
) => {
  const watch = async () => {
    for (;;) {
      await clock.sleep(Math.min(answerTimeoutMs / 4, accounts.timeLeftMs()), end.signal);
      // Those that were paused may be due.
      accounts.poke();
      if (accounts.timeLeftMs() <= 0) end.abort(new AccountTimeoutError(accountTimeoutMs));
      const since = answerDueSince() ?? Number.POSITIVE_INFINITY;
      if (clock.monotonic() - since < answerTimeoutMs) continue;
      const message = `core did not answer for ${answerTimeoutMs / 1000} s`;
      end.abort(new GrpcError("deadline_exceeded", message));
    }
  };
  watch().catch(() => undefined);
};

/** Offers each account that the queue seals to `accounts`. */
const followAccounts = (queue: Queue, accounts: AccountSender, end: AbortController) => {
  const follow = async () => {
    for (;;) {
      await queue.accounts.changed(end.signal);
      accounts.poke();
    }
  };
  follow().catch((error: unknown) => end.abort(error));
};

/** Smaller frames are sent as they are. */
const blockBytesMin = 1024;

/** How long acknowledged records may stay on disk, to save fsyncs. */
const ackLingerMs = 50;

/** Ignores failures of the disk: the next ack covers the same records, and core skips those that are resent. */
const removeThrough = (queue: Queue, sequence: number, onRemoved: () => void) => {
  queue
    .ack(sequence, { lingerMs: ackLingerMs })
    .then(onRemoved)
    .catch(() => undefined);
};

const frameOf = (
  batch: readonly QueuedRecords[],
  previous: number,
  tracer: Tracer | undefined,
): SentFrame => {
  const figures = {
    firstSequence: batch[0]?.firstSequence ?? previous,
    lastSequence: batch.at(-1)?.lastSequence ?? previous,
    records: batch.reduce(
      (sum, { firstSequence, lastSequence }) => sum + lastSequence - firstSequence + 1,
      0,
    ),
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

const endFailed = (span: Span | undefined) => {
  span?.fail();
  span?.end();
};

/** Frees what a copied batch was read into, except that of its last records: the queue reads on in it. */
const freeBatch = (batch: readonly QueuedRecords[]) => {
  const kept = batch.at(-1)?.envelopes.buffer;
  for (const { envelopes } of batch)
    if (envelopes.buffer !== kept) freeBytes(envelopes, { whole: true });
};

/** Requests of a stream that go between the others. */
export interface ControlRequests {
  push(request: GrpcRequest): void;
  /** Returns the requests of the stream: `others`, and between them those that were pushed. */
  merge(others: AsyncGenerator<GrpcRequest>): AsyncGenerator<GrpcRequest>;
}

/** Creates an empty one. */
const createControlRequests = (): ControlRequests => {
  const unsent: GrpcRequest[] = [];
  let wake = () => {};
  return {
    push(request) {
      unsent.push(request);
      wake();
    },
    async *merge(others) {
      let next: IteratorResult<GrpcRequest> | undefined;
      let failure: { error: unknown } | undefined;
      const pull = () => {
        next = undefined;
        others.next().then(
          (result) => {
            next = result;
            wake();
          },
          (error: unknown) => {
            failure = { error };
            wake();
          },
        );
      };
      pull();
      for (;;) {
        if (failure) throw failure.error;
        const request = unsent.shift();
        if (request) yield request;
        else if (next) {
          if (next.done) return;
          yield next.value;
          // Only now: the one that was sent is freed with the request for the next one.
          pull();
        } else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
};

/** The statuses of one stream, of which one at most is unanswered. */
export interface StatusExchange {
  /** Sends a status; resolves with core's answer, and rejects with the reason of `end`. */
  send(status: Status): Promise<StatusAnswer>;
  answered(answer: StatusAnswer): void;
  end(reason: unknown): void;
}

/** Creates the statuses of a stream. */
export const createStatusExchange = (controls: Pick<ControlRequests, "push">): StatusExchange => {
  let seq = 0;
  let ended: { reason: unknown } | undefined;
  let waiting: (PromiseWithResolvers<StatusAnswer> & { seq: number }) | undefined;

  return {
    async send(status) {
      if (ended) throw ended.reason;
      if (waiting) throw new Error("the last status is not answered yet");
      seq += 1;
      waiting = { ...Promise.withResolvers<StatusAnswer>(), seq };
      controls.push(encodeStatus(seq, status));
      return waiting.promise;
    },
    answered(answer) {
      if (answer.seq !== waiting?.seq) return;
      waiting.resolve(answer);
      waiting = undefined;
    },
    end(reason) {
      ended ??= { reason };
      waiting?.reject(reason);
      waiting = undefined;
    },
  };
};
