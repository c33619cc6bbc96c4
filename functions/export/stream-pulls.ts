/**
 * Pulls messages of a JetStream consumer into a bounded buffer, with its own pull requests: those of the client library either fail at the first
 * message that exceeds their bytes, or leave messages at the server when they end early. Invariants:
 * - One request is open at a time, and is read to its end; the next one follows while the buffer has room.
 * - The deliveries of a consumer are numbered: a missing one is an error that ends everything, so nothing is skipped. When a request has ended
 *   without a delivery, the server's count is compared: it is higher if another process took a delivery, and lower after a restore.
 * - A message that the server delivers again is in the buffer, or with the reader, and is dropped. A first delivery with the same sequence is
 *   another message, of a restored stream: an error that ends everything.
 */

import type { StoredMsg } from "@nats-io/jetstream";
import { createInbox, type Msg, type MsgHdrs, type NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "#kit/clock.ts";

/** The dependencies of pulls. */
interface PullOptions {
  connection: NatsConnection;
  stream: string;
  consumer: string;
  clock: Pick<Clock, "sleep">;
  /** Returns how many deliveries the server has made. */
  deliveries(): Promise<number>;
  /** The target size in memory of what `receive` returns, and of the buffer, whose blocks are compressed: a request is sent below it. */
  bytes: number;
  /** The largest message of the server: a request that has less room for it never ends with it. */
  messageBytesMax: number;
}

/** A message that a JetStream consumer delivered. */
export interface StreamMessage {
  subject: string;
  headers: MsgHdrs | undefined;
  data: Uint8Array;
  /** The bytes of memory that its envelopes take. */
  heldBytes: number;
  /** Its sequence in the stream. */
  sequence: number;
  /** How often the consumer has delivered it. */
  deliveries: number;
  /** The number of the consumer's deliveries through this one. */
  delivery: number;
  /** When the stream stored it, in milliseconds. */
  storedAt: number;
  /** Acknowledges it, and by the consumer's policy all before it. */
  ack(): void;
}

/** The bytes of memory of a message beside its data. */
const overheadBytes = 512;
const acknowledge = new TextEncoder().encode("+ACK");

/**
 * Reads where a delivered message is in its stream, from the subject that acknowledges it: `$JS.ACK.<stream>.<consumer>.<deliveries of the
 * message>.<sequence>.<delivery>.<nanoseconds>.<pending>`; servers may put a domain and an account before the stream, and a token behind.
 * Throws for another subject.
 */
export const toStreamMessage = (message: Msg): StreamMessage => {
  const tokens = (message.reply ?? "").split(".");
  const at = tokens.length === 9 ? 5 : 7;
  const [deliveries, sequence, delivery] = tokens.slice(at - 1, at + 2).map(Number);
  // As a number, the nanoseconds of a whole millisecond may be those of the one before: then it differs from the time of the stored message.
  const storedAt = Number(tokens[at + 2]?.slice(0, -6));
  if (tokens[1] !== "ACK" || !deliveries || !sequence || !delivery || !storedAt)
    throw new TypeError(`a message of a consumer has the reply ${message.reply}`);
  const { subject, headers, data } = message;
  const heldBytes = heldBytesOf(data, headers);
  return {
    subject,
    headers,
    data,
    heldBytes,
    sequence,
    deliveries,
    delivery,
    storedAt,
    ack: () => void message.respond(acknowledge),
  };
};

/** Returns a message that was read by its sequence. There is nothing to acknowledge. */
export const storedMessage = ({ subject, seq, header, data, time }: StoredMsg): StreamMessage => ({
  subject,
  headers: header,
  data,
  heldBytes: heldBytesOf(data, header),
  sequence: seq,
  deliveries: 0,
  delivery: 0,
  storedAt: time.getTime(),
  ack: () => undefined,
});

const heldBytesOf = (data: Uint8Array, headers: MsgHdrs | undefined) =>
  Math.max(data.length, Number(headers?.get("Svc-Raw-Bytes") || 0)) + overheadBytes;

const lingerMs = 100;
const batch = 1_000;
const expiresMs = 5_000;
/** A request during which the server is silent for this time is abandoned: the connection, or the server, was replaced. */
const silenceMs = 3_000;
const heartbeatMs = 1_000;
const nanosOfMs = 1_000_000;
/** Statuses that end a request: no messages, expired, limits or a new leader, no server with the consumer. */
const ends = new Set([404, 408, 409, 503]);

/** Begins to pull; see the invariants above. */
export const pullMessages = (options: PullOptions) => {
  const { connection, clock, bytes } = options;
  const inbox = createInbox();
  const closed = new AbortController();
  const bytesMax = Math.max(bytes, options.messageBytesMax);
  const buffer = createMessageBuffer(bytes);
  let request = beginRequest(0);
  let failure: Error | undefined;
  /** The last delivery, and its sequence. */
  let delivered = 0;
  let last = 0;

  const fail = (error: Error) => {
    failure ??= error;
    closed.abort();
    request.ended.resolve();
    buffer.wake();
  };
  const receiveStatus = (message: Msg, code: number) => {
    // One that has been given up ends nothing.
    if (!ends.has(code) || message.subject !== `${inbox}.${request.number}`) return;
    const description = message.headers?.description ?? "";
    if (code === 503 || /consumer (deleted|is push)/i.test(description))
      fail(new Error(`the consumer is not available: ${code} ${description}`));
    request.ended.resolve();
  };
  const receive = (message: Msg) => {
    request.silentTicks = 0;
    const code = message.headers?.code ?? 0;
    if (message.subject.startsWith(inbox) && code !== 0) return receiveStatus(message, code);
    const pulled = toStreamMessage(message);
    if (pulled.delivery !== delivered + 1) return fail(missing());
    if (pulled.sequence <= last && pulled.deliveries === 1)
      return fail(new Error("the stream has gone back"));
    delivered = pulled.delivery;
    if (pulled.sequence > last) buffer.add(pulled);
    last = Math.max(last, pulled.sequence);
    request.left -= 1;
    if (request.left === 0) request.ended.resolve();
  };
  const subscription = connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => (error ? fail(error) : receive(message)),
  });

  const requestNext = async () => {
    request = beginRequest(request.number + 1);
    const body = {
      batch,
      max_bytes: bytesMax,
      expires: expiresMs * nanosOfMs,
      idle_heartbeat: heartbeatMs * nanosOfMs,
    };
    connection.publish(
      `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${options.consumer}`,
      JSON.stringify(body),
      {
        reply: `${inbox}.${request.number}`,
      },
    );
    await request.ended.promise;
  };
  const watch = async () => {
    for (;;) {
      await clock.sleep(heartbeatMs, closed.signal);
      request.silentTicks += 1;
      if (request.silentTicks > silenceMs / heartbeatMs) request.ended.resolve();
    }
  };
  const pull = async () => {
    while (!closed.signal.aborted) {
      const before = delivered;
      await requestNext();
      while (buffer.isFull() && !closed.signal.aborted) await buffer.untilTaken();
      if (delivered > before || closed.signal.aborted) continue;
      const made = await options.deliveries().catch(() => delivered);
      if (made > delivered) fail(missing());
      else if (made < delivered) fail(new Error("the consumer has gone back"));
      // The server is at its limit of unacknowledged messages, or has no leader: it answers at once.
      await clock.sleep(100, closed.signal);
    }
  };
  const end = (error: unknown) => {
    if (!closed.signal.aborted) fail(error instanceof Error ? error : new Error(String(error)));
  };
  watch().catch(end);
  pull().catch(end);

  return {
    /**
     * Returns the buffered messages in the order of the stream, up to the target size, when that is reached or after a tenth of a second. Rejects
     * when a delivery or the consumer is missing.
     */
    async receive() {
      const waited = clock.sleep(lingerMs, closed.signal).catch(() => undefined);
      await Promise.race([buffer.untilFilled(), waited]);
      if (failure) throw failure;
      return buffer.take();
    },
    close() {
      closed.abort();
      request.ended.resolve();
      buffer.wake();
      if (!subscription.isClosed()) subscription.unsubscribe();
    },
  };
};

const missing = () => new Error("the server delivered a message that did not arrive");

/** Begins a pull request: it ends when nothing of its batch is left, by a status of the server, or after a silence. */
const beginRequest = (number: number) => ({
  number,
  left: batch,
  /** Heartbeats since the server was last heard. */
  silentTicks: 0,
  ended: Promise.withResolvers<void>(),
});

/** Creates a buffer of messages: full when `bytes` of data wait, filled when their envelopes take as much once they are decompressed. */
const createMessageBuffer = (bytes: number) => {
  let messages: StreamMessage[] = [];
  let dataBytes = 0;
  let heldBytes = 0;
  let filled = Promise.withResolvers<void>();
  let taken = Promise.withResolvers<void>();
  return {
    isFull: () => dataBytes >= bytes,
    untilFilled: () => filled.promise,
    /** Resolves with the next `take`. */
    untilTaken: () => taken.promise,
    add(message: StreamMessage) {
      messages.push(message);
      dataBytes += message.data.length;
      heldBytes += message.heldBytes;
      if (heldBytes >= bytes) filled.resolve();
    },
    /** Removes and returns the oldest messages, one at least, while their envelopes fit. */
    take(): StreamMessage[] {
      const oldest: StreamMessage[] = [];
      let oldestBytes = 0;
      for (const message of messages) {
        if (oldest.length > 0 && oldestBytes + message.heldBytes > bytes) break;
        oldest.push(message);
        oldestBytes += message.heldBytes;
        dataBytes -= message.data.length;
      }
      messages = messages.slice(oldest.length);
      heldBytes -= oldestBytes;
      if (heldBytes < bytes) filled = Promise.withResolvers();
      taken.resolve();
      taken = Promise.withResolvers();
      return oldest;
    },
    /** Resolves what waits. */
    wake() {
      filled.resolve();
      taken.resolve();
    },
  };
};
