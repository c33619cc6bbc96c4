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
  let buffer: StreamMessage[] = [];
  /** Bytes of the buffer, and those that its envelopes take once they are decompressed. */
  let buffered = 0;
  let held = 0;
  let failure: Error | undefined;
  let delivered = 0;
  let last = 0;
  let requests = 0;
  let left = 0;
  let ended = Promise.withResolvers<void>();
  let heardAt = 0;
  let ticks = 0;
  let freed = Promise.withResolvers<void>();
  let filled = Promise.withResolvers<void>();

  const fail = (error: Error) => {
    failure ??= error;
    closed.abort();
    ended.resolve();
    filled.resolve();
  };
  const receiveStatus = (message: Msg, code: number) => {
    // One that has been given up ends nothing.
    if (!ends.has(code) || message.subject !== `${inbox}.${requests}`) return;
    const description = message.headers?.description ?? "";
    if (code === 503 || /consumer (deleted|is push)/i.test(description))
      fail(new Error(`the consumer is not available: ${code} ${description}`));
    ended.resolve();
  };
  const receive = (message: Msg) => {
    heardAt = ticks;
    const code = message.headers?.code ?? 0;
    if (message.subject.startsWith(inbox) && code !== 0) {
      receiveStatus(message, code);
      return;
    }
    const pulled = toStreamMessage(message);
    if (pulled.delivery !== delivered + 1) {
      fail(new Error("the server delivered a message that did not arrive"));
      return;
    }
    if (pulled.sequence <= last && pulled.deliveries === 1) {
      fail(new Error("the stream has gone back"));
      return;
    }
    delivered = pulled.delivery;
    if (pulled.sequence > last) {
      last = pulled.sequence;
      buffer.push(pulled);
      buffered += pulled.data.length;
      held += pulled.heldBytes;
      if (held >= bytes) filled.resolve();
    }
    left -= 1;
    if (left === 0) ended.resolve();
  };
  const subscription = connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => (error ? fail(error) : receive(message)),
  });

  const request = async () => {
    requests += 1;
    left = batch;
    ended = Promise.withResolvers();
    heardAt = ticks;
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
        reply: `${inbox}.${requests}`,
      },
    );
    await ended.promise;
  };
  const watch = async () => {
    for (;;) {
      await clock.sleep(heartbeatMs, closed.signal);
      ticks += 1;
      if (ticks - heardAt > silenceMs / heartbeatMs) ended.resolve();
    }
  };
  const pull = async () => {
    while (!closed.signal.aborted) {
      const before = delivered;
      await request();
      while (buffered >= bytes && !closed.signal.aborted) await freed.promise;
      if (delivered > before || closed.signal.aborted) continue;
      const made = await options.deliveries().catch(() => delivered);
      if (made > delivered) fail(new Error("the server delivered a message that did not arrive"));
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
      await Promise.race([filled.promise, waited]);
      if (failure) throw failure;
      const taken: StreamMessage[] = [];
      let takenBytes = 0;
      for (const message of buffer) {
        if (taken.length > 0 && takenBytes + message.heldBytes > bytes) break;
        taken.push(message);
        takenBytes += message.heldBytes;
        buffered -= message.data.length;
      }
      buffer = buffer.slice(taken.length);
      held -= takenBytes;
      if (held < bytes) filled = Promise.withResolvers();
      freed.resolve();
      freed = Promise.withResolvers();
      return taken;
    },
    close() {
      closed.abort();
      ended.resolve();
      freed.resolve();
      if (!subscription.isClosed()) subscription.unsubscribe();
    },
  };
};
