import { AckPolicy, jetstream } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { readStreamBlock } from "#functions/export/stream-block.ts";
import { createNatsSink, type NatsSink } from "#functions/ingest/nats-sink/create-nats-sink.ts";
import type { StreamSettings } from "#functions/ingest/nats-sink/prepare-streams.ts";
import type { PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import type { StoredEnvelope } from "#functions/store/ingest/stored-envelope.ts";
import { systemClock } from "#kit/clock.ts";
import type { RunningNats } from "#scripts/lab/nats-servers.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { textsOf } from "#tests/support/queue.ts";

/** The settings of a test's streams. No disk fails, so what a server holds in memory is as good as synced. */
export const streamSettings: StreamSettings = {
  stream: "SVC_INGEST",
  replicas: 1,
  durability: "replicated",
  maxAgeSeconds: 3_600,
};

/** Sends one message of a sink; a test may send others of its own around it. */
export type Publish = NatsConnection["publish"];

/**
 * Returns the option `sink` of `startTestIngest` for a sink on a connection of its own; `failures` receives failed publishes, and `around`
 * is called for each message with the function that sends it.
 */
export const natsSinkOn =
  (
    nats: RunningNats,
    {
      failures = [],
      around = (publish, ...message) => publish(...message),
      ...settings
    }: Partial<StreamSettings> & {
      failures?: string[];
      around?: (publish: Publish, ...message: Parameters<Publish>) => void;
    } = {},
  ): ((needs: PostgresSinkNeeds) => Promise<NatsSink>) =>
  async (needs) => {
    const connection = await connect({
      servers: nats.addresses,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 50,
      pingInterval: 500,
      maxPingOut: 2,
    });
    const publish = connection.publish.bind(connection);
    connection.publish = (...message) => around(publish, ...message);
    return createNatsSink({
      ...needs,
      connection,
      connectCommitter: async () => openCommitClient(await needs.databaseUrl()),
      settings: { ...streamSettings, ...settings },
      observe: {
        ...needs.observe,
        published: () => undefined,
        publishFailed: (code) => void failures.push(code),
      },
    }).catch(async (error: unknown) => {
      await connection.close();
      throw error;
    });
  };

/** A block as the stream has it. */
export interface StoredMessage {
  subject: string;
  headers: Record<string, string>;
  data: Buffer;
  /** Its envelopes, and their sequences and payloads. */
  envelopes: readonly StoredEnvelope[];
  sequences: number[];
  texts: string[];
}

/** Reads the blocks of a stream in its order, without fences. Throws for a message that is no block. */
export const readStream = async (nats: RunningNats, stream = streamSettings.stream) => {
  const messages: StoredMessage[] = [];
  const { state } = await nats.manager.streams.info(stream);
  if (state.messages === 0) return messages;
  // A cluster whose leader was killed answers no request about consumers for some seconds. Also chaos reads, which is no test of vitest.
  const signal = AbortSignal.timeout(60_000);
  const waiting = {
    what: "the stream has a consumer",
    clock: systemClock,
    signal,
    timeoutMs: 60_000,
  };
  // Replicas can differ, and a consumer reads that of its node; core serves what the leader has.
  const consumer = await waitUntil(waiting, async () => {
    const settings = { ack_policy: AckPolicy.None, inactive_threshold: 60_000_000_000 };
    const { name, cluster } = await nats.manager.consumers.add(stream, settings);
    const { leader } = (await nats.manager.streams.info(stream)).cluster ?? {};
    // One server of today names itself as the leader of a stream, and none of a consumer.
    if (cluster === undefined || cluster.leader === leader)
      return jetstream(nats.connection).consumers.get(stream, name);
    await nats.manager.consumers.delete(stream, name);
    return undefined;
  });
  for await (const { subject, headers: head, data, info } of await consumer.consume()) {
    if (head !== undefined && !head.has("Svc-Fence")) {
      const envelopes = readStreamBlock({ headers: head, data }, zstdCodec);
      if (envelopes === undefined) throw new TypeError(`a message on ${subject} is no block`);
      messages.push({
        subject,
        data: Buffer.from(data),
        headers: Object.fromEntries(head.keys().map((name) => [name, head.get(name)])),
        envelopes,
        sequences: envelopes.map(({ sequence }) => Number(sequence)),
        texts: textsOf(envelopes),
      });
    }
    // A server of 2.9 may count more as pending than there is.
    if (info.streamSequence >= state.last_seq) break;
  }
  await consumer.delete();
  return messages;
};
