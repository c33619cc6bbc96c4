/** Holds the model of JetStream to nats-server: the same messages and requests on both have the same results. */
import { AckPolicy, DeliverPolicy, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { pullMessages } from "#functions/export/stream-pulls.ts";
import { prepareStreams } from "#functions/ingest/nats-sink/prepare-streams.ts";
import { createPublisher } from "#functions/ingest/nats-sink/publisher.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createJetStream } from "./jetstream.ts";
import { connectStreams } from "./nats-connection.ts";
import { inWorld } from "./world.ts";

const subjects = [
  "svc.ingest.log_line.h.1",
  "svc.ingest.otel_log.h.1",
  "svc.queue.h.1",
  "svc.queue.h.2",
  "svc.none",
];
const streamStep = fc.record({
  act: fc.constantFrom(
    ...(["publish", "publish", "publish", "last", "next", "info", "purge"] as const),
  ),
  subject: fc.constantFrom(...subjects),
  /** How far the expected sequence is from the last one. */
  off: fc.constantFrom(0, 0, 0, 1, -1),
  sequence: fc.integer({ min: 1, max: 8 }),
});
type StreamStep = typeof streamStep extends fc.Arbitrary<infer Step> ? Step : never;

/** Names a stream anew: nats-server 2.15.1 may give a stream that is created right after it was deleted its old messages. */
const nextStream = (() => {
  let streams = 0;
  return () => `SVC_INGEST_${++streams}`;
})();

/** Connects to a server that stops with the test. */
const connectToNats = async () => {
  const nats = await startNats();
  onTestFinished(() => nats.stop());
  const connection = await connect({ servers: nats.addresses });
  onTestFinished(() => connection.close());
  return connection;
};

/** Creates the streams, and what publishes to them. */
const openStreams = async (
  connection: NatsConnection,
  stream: string,
  clock: Clock = systemClock,
) => {
  const manager = await jetstreamManager(connection);
  const names = await prepareStreams(manager, {
    stream,
    replicas: 1,
    durability: "replicated",
    maxAgeSeconds: 0,
  });
  const observe = { published: () => undefined, publishFailed: () => undefined };
  return { manager, names, publisher: createPublisher({ connection, clock, observe }) };
};

/** Runs the steps, one after the other, and returns what each resolved with or how it failed. */
const outcomesOf = async (
  connection: NatsConnection,
  stream: string,
  steps: readonly StreamStep[],
) => {
  const { manager, names, publisher } = await openStreams(connection, stream);
  const ends = new Map<string, number>();
  const run = async ({ act, subject, off, sequence }: StreamStep) => {
    const of = subject.startsWith("svc.queue") ? names.queues : names.envelopes;
    switch (act) {
      case "publish": {
        const expected = Math.max(0, (ends.get(subject) ?? 0) + off);
        const payload = Buffer.from(`${sequence}`);
        const stored = await publisher.publish({
          subject,
          expected,
          headers: { "Svc-Kind": "log_line" },
          payload,
        });
        ends.set(subject, stored);
        return stored;
      }
      case "last":
      case "next": {
        const query =
          act === "last" ? { last_by_subj: subject } : { seq: sequence, next_by_subj: subject };
        const found = await manager.streams.getMessage(of, query);
        return (
          found && [
            found.seq,
            found.subject,
            found.header.get("Svc-Kind"),
            Buffer.from(found.data).toString(),
          ]
        );
      }
      case "info": {
        const { state, config } = await manager.streams.info(of, {
          subjects_filter: subject.replace(/\w+$/, "*"),
        });
        const { messages, first_seq, last_seq } = state;
        return [
          { messages, first_seq, last_seq },
          state.subjects ?? {},
          config.max_bytes,
          config.max_msgs,
        ];
      }
      case "purge":
        ends.delete(subject);
        return (await manager.streams.purge(of, { filter: subject })).purged;
    }
  };
  const outcomes: unknown[] = [];
  for (const step of steps)
    outcomes.push(
      await run(step).catch((error: Error & { code?: string }) => [
        error.constructor.name,
        error.code ?? "",
      ]),
    );
  publisher.close();
  await Promise.all(
    [names.envelopes, names.queues].map((name) =>
      connection.request(`$JS.API.STREAM.DELETE.${name}`),
    ),
  );
  return outcomes;
};

it.skipIf(!(await canStartNats()))(
  "the model of JetStream stores and finds what nats-server does",
  async () => {
    const connection = await connectToNats();
    const property = fc.asyncProperty(
      fc.array(streamStep, { minLength: 1, maxLength: 15 }),
      fc.boolean(),
      async (steps, isOld) => {
        const stream = nextStream();
        const real = await outcomesOf(connection, stream, steps);
        const modelled = await inWorld(1, async (world) => {
          const jetstream = createJetStream(world, { isOld });
          const ran = outcomesOf(
            connectStreams(world, { jetstream, client: world.process("core") }),
            stream,
            steps,
          );
          await world.runUntil(60_000);
          return ran;
        });
        expect(modelled).toEqual(real);
      },
    );
    await fc.assert(property, { numRuns: 40 });
  },
);

const consumerStep = fc.record({
  act: fc.constantFrom(...(["publish", "publish", "pull", "open", "delete"] as const)),
  count: fc.integer({ min: 1, max: 4 }),
});
type ConsumerStep = typeof consumerStep extends fc.Arbitrary<infer Step> ? Step : never;

const consumerName = "svc-export-test";

/** Runs the steps, one after the other, and returns what was delivered, or that the consumer ended. */
const deliveriesOf = async (
  connection: NatsConnection,
  { clock, stream }: { clock: Clock; stream: string },
  steps: readonly ConsumerStep[],
) => {
  const { manager, names, publisher } = await openStreams(connection, stream, clock);
  const { queues } = names;
  const open = async (from: number) => {
    await manager.consumers.delete(stream, consumerName).catch(() => undefined);
    await manager.consumers.add(stream, {
      durable_name: consumerName,
      ack_policy: AckPolicy.All,
      ack_wait: 3_600_000_000_000,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
      max_ack_pending: 1_000,
    });
    const size = { bytes: 10_000, messageBytesMax: 1_000 };
    const deliveries = async () =>
      (await manager.consumers.info(stream, consumerName)).delivered.consumer_seq;
    return pullMessages({ connection, stream, consumer: consumerName, clock, deliveries, ...size });
  };
  let stored = 0;
  let pulls = await open(1);
  const run = async ({ act, count }: ConsumerStep) => {
    if (act === "publish") {
      for (let each = 0; each < count; each++)
        stored = await publisher.publish({
          subject: "svc.ingest.log_line.h.1",
          expected: stored,
          headers: { "Svc-Kind": "log_line" },
          payload: Buffer.from(`${stored + 1}`),
        });
      return stored;
    }
    if (act === "pull") {
      await clock.sleep(deliveryMs);
      return (await pulls.receive()).map(({ sequence, delivery, data, headers }) => [
        sequence,
        delivery,
        Buffer.from(data).toString(),
        headers?.get("Svc-Kind"),
      ]);
    }
    if (act === "delete") return manager.consumers.delete(stream, consumerName);
    pulls.close();
    pulls = await open(Math.max(1, stored - count + 1));
    return "open";
  };
  const outcomes: unknown[] = [];
  for (const step of steps) outcomes.push(await run(step).catch(() => "ended"));
  pulls.close();
  publisher.close();
  await Promise.all(
    [stream, queues].map((name) => connection.request(`$JS.API.STREAM.DELETE.${name}`)),
  );
  return outcomes;
};
/** Within it a server delivers what it has. */
const deliveryMs = 50;

it.skipIf(!(await canStartNats()))(
  "the model of a consumer delivers what nats-server does",
  async () => {
    const connection = await connectToNats();
    const property = fc.asyncProperty(
      fc.array(consumerStep, { minLength: 1, maxLength: 8 }),
      async (steps) => {
        const stream = nextStream();
        const real = await deliveriesOf(connection, { clock: systemClock, stream }, steps);
        const modelled = await inWorld(1, async (world) => {
          const jetstream = createJetStream(world, { isOld: false });
          const client = world.process("exporter");
          const clock = world.clockOf(client);
          const ran = deliveriesOf(
            connectStreams(world, { jetstream, client }),
            { clock, stream },
            steps,
          );
          await world.runUntil(60_000);
          return ran;
        });
        expect(modelled).toEqual(real);
      },
    );
    await fc.assert(property, { numRuns: 15 });
  },
);
