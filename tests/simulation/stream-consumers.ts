/**
 * Pull consumers of JetStream as exports use them, on the model of its streams. Invariants, as of the servers:
 * - A consumer delivers the messages of its stream in their order, from its first sequence on, and numbers its deliveries.
 * - A request receives at most its batch and its bytes, what is there at once and the rest as it is stored, until it expires. While nothing is
 *   delivered, heartbeats are sent.
 * - The requests of a connection end with it, and what they were sent is delivered to nobody else: its time is not up.
 */
import type { ModelStream, StreamMessageStored } from "./jetstream.ts";
import type { Process, World } from "./world.ts";

/** What a consumer sends to the inbox of a request. */
export type ConsumerMessage =
  | { kind: "message"; message: StreamMessageStored; reply: string }
  | { kind: "status"; code: number; description: string };

/** What the API does with a consumer. */
export type ConsumerCall = "CREATE" | "DELETE" | "INFO";

/** A request of a client. */
interface Pull {
  batch: number;
  bytes: number;
  heardAt: number;
  send(message: ConsumerMessage): void;
}

interface Consumer {
  next: number;
  delivered: number;
  pulls: Pull[];
}

/** The consumers of the servers. */
export interface StreamConsumers {
  /** Answers a request about a consumer. */
  request(
    call: ConsumerCall,
    consumer: { stream: string; name: string },
    body: Record<string, unknown>,
  ): object;
  /** Receives a request for messages. Returns false where no such consumer is. */
  pull(
    consumer: { stream: string; name: string },
    body: Record<string, unknown>,
    send: (message: ConsumerMessage) => void,
  ): boolean;
  /** Delivers what was stored. */
  serve(stream: string): void;
  /** Every connection is lost. */
  disconnect(): void;
  /** Returns what goes back to the consumers of now. */
  backUp(): () => void;
}

const nanosOfMs = 1_000_000;
const notFound = { error: { code: 404, err_code: 10_014, description: "consumer not found" } };

/** Creates the consumers of streams. */
export const createStreamConsumers = (
  world: World,
  { process, streams }: { process: Process; streams: ReadonlyMap<string, ModelStream> },
): StreamConsumers => {
  let consumers = new Map<string, Consumer>();
  const keyOf = ({ stream, name }: { stream: string; name: string }) => `${stream}.${name}`;

  /** Delivers the next message of a consumer. Returns false where nothing waits for one, or none is there. */
  const deliverNext = (key: string, consumer: Consumer, { messages }: ModelStream): boolean => {
    const [pull] = consumer.pulls;
    const message = messages.find(({ seq }) => seq >= consumer.next);
    if (pull === undefined || message === undefined) return false;
    const bytes = message.data.length + message.headers.length;
    if (bytes > pull.bytes) {
      consumer.pulls.shift();
      pull.send({ kind: "status", code: 409, description: "Message Size Exceeds MaxBytes" });
      return true;
    }
    consumer.next = message.seq + 1;
    consumer.delivered += 1;
    pull.bytes -= bytes;
    pull.batch -= 1;
    pull.heardAt = world.now();
    const nanos = `${Date.parse(message.time)}000000`;
    const reply = `$JS.ACK.${key}.1.${message.seq}.${consumer.delivered}.${nanos}.0`;
    pull.send({ kind: "message", message, reply });
    if (pull.batch === 0) consumer.pulls.shift();
    return true;
  };
  const serve = (name: string): void => {
    const stream = streams.get(name);
    if (stream === undefined) return;
    for (const [key, consumer] of consumers)
      if (key.startsWith(`${name}.`)) while (deliverNext(key, consumer, stream));
  };
  /** Sends heartbeats, and the end of a request that has expired. */
  const watch = (
    consumer: Consumer,
    pull: Pull,
    at: { expiresAt: number; heartbeatMs: number },
  ): void => {
    world.as(process, () =>
      world.after(at.heartbeatMs, () => {
        if (!consumer.pulls.includes(pull)) return;
        if (world.now() >= at.expiresAt) {
          consumer.pulls = consumer.pulls.filter((other) => other !== pull);
          pull.send({ kind: "status", code: 408, description: "Request Timeout" });
          return;
        }
        if (world.now() - pull.heardAt >= at.heartbeatMs)
          pull.send({ kind: "status", code: 100, description: "Idle Heartbeat" });
        watch(consumer, pull, at);
      }),
    );
  };

  return {
    request(call, name, body) {
      const key = keyOf(name);
      const found = consumers.get(key);
      if (call === "DELETE") {
        for (const { send } of found?.pulls ?? [])
          send({ kind: "status", code: 409, description: "Consumer Deleted" });
        return consumers.delete(key) ? { success: true } : notFound;
      }
      if (call === "INFO")
        return found
          ? {
              name: name.name,
              delivered: { consumer_seq: found.delivered, stream_seq: found.next - 1 },
            }
          : notFound;
      const config = body.config as Record<string, unknown>;
      if (config.deliver_policy !== "by_start_sequence" || config.ack_policy !== "all")
        throw new Error("the model does not know such a consumer");
      consumers.set(key, { next: Number(config.opt_start_seq), delivered: 0, pulls: [] });
      return { stream_name: name.stream, name: name.name, config };
    },
    pull(name, body, send) {
      const consumer = consumers.get(keyOf(name));
      if (consumer === undefined) return false;
      const pull = {
        batch: Number(body.batch),
        bytes: Number(body.max_bytes),
        heardAt: world.now(),
        send,
      };
      consumer.pulls.push(pull);
      watch(consumer, pull, {
        expiresAt: world.now() + Number(body.expires) / nanosOfMs,
        heartbeatMs: Number(body.idle_heartbeat) / nanosOfMs,
      });
      serve(name.stream);
      return true;
    },
    serve,
    disconnect: () => {
      for (const consumer of consumers.values()) consumer.pulls = [];
    },
    backUp: () => {
      const kept = [...consumers].map(
        ([key, { next, delivered }]) => [key, { next, delivered }] as const,
      );
      return () => {
        consumers = new Map(kept.map(([key, consumer]) => [key, { ...consumer, pulls: [] }]));
      };
    },
  };
};
