/** Holds the model of JetStream to nats-server: the same messages and requests on both have the same results. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { prepareStreams } from "../../functions/ingest/nats-sink/prepare-streams.ts";
import { createPublisher } from "../../functions/ingest/nats-sink/publisher.ts";
import { systemClock } from "../../kit/clock.ts";
import { canStartNats, startNats } from "../../scripts/lab/nats-servers.ts";
import { createJetStream } from "./jetstream.ts";
import { connectStreams } from "./nats-connection.ts";
import { inWorld } from "./world.ts";

const subjects = ["svc.ingest.log_line.h.1", "svc.ingest.otel_log.h.1", "svc.queue.h.1", "svc.queue.h.2", "svc.none"];
const streamStep = fc.record({
  act: fc.constantFrom(...(["publish", "publish", "publish", "last", "next", "info", "purge"] as const)),
  subject: fc.constantFrom(...subjects),
  /** How far the expected sequence is from the last one. */
  off: fc.constantFrom(0, 0, 0, 1, -1),
  sequence: fc.integer({ min: 1, max: 8 }),
});
type StreamStep = typeof streamStep extends fc.Arbitrary<infer Step> ? Step : never;

/** Runs the steps, one after the other, and returns what each resolved with or how it failed. */
const outcomesOf = async (connection: NatsConnection, steps: readonly StreamStep[]): Promise<unknown[]> => {
  const manager = await jetstreamManager(connection);
  const names = await prepareStreams(manager, {
    ...{ stream: "SVC_INGEST", replicas: 1, durability: "replicated", maxAgeSeconds: 0 },
  });
  const observe = { published: () => undefined, publishFailed: () => undefined };
  const publisher = createPublisher({ connection, clock: systemClock, observe });
  const ends = new Map<string, number>();
  const run = async ({ act, subject, off, sequence }: StreamStep): Promise<unknown> => {
    const stream = subject.startsWith("svc.queue") ? names.queues : names.envelopes;
    switch (act) {
      case "publish": {
        const expected = Math.max(0, (ends.get(subject) ?? 0) + off);
        const payload = Buffer.from(`${sequence}`);
        const stored = await publisher.publish({ subject, expected, headers: { "Svc-Kind": "log_line" }, payload });
        ends.set(subject, stored);
        return stored;
      }
      case "last":
      case "next": {
        const query = act === "last" ? { last_by_subj: subject } : { seq: sequence, next_by_subj: subject };
        const found = await manager.streams.getMessage(stream, query);
        return found && [found.seq, found.subject, found.header.get("Svc-Kind"), Buffer.from(found.data).toString()];
      }
      case "info": {
        const { state, config } = await manager.streams.info(stream, { subjects_filter: subject.replace(/\w+$/, "*") });
        const { messages, first_seq, last_seq } = state;
        return [{ messages, first_seq, last_seq }, state.subjects ?? {}, config.max_bytes, config.max_msgs];
      }
      case "purge":
        ends.delete(subject);
        return (await manager.streams.purge(stream, { filter: subject })).purged;
    }
  };
  const outcomes: unknown[] = [];
  for (const step of steps)
    outcomes.push(
      await run(step).catch((error: Error & { code?: string }) => [error.constructor.name, error.code ?? ""]),
    );
  publisher.close();
  await Promise.all([names.envelopes, names.queues].map((name) => connection.request(`$JS.API.STREAM.DELETE.${name}`)));
  return outcomes;
};

it.skipIf(!(await canStartNats()))("the model of JetStream stores and finds what nats-server does", async () => {
  const nats = await startNats();
  onTestFinished(() => nats.stop());
  const connection = await connect({ servers: nats.addresses });
  onTestFinished(() => connection.close());
  const property = fc.asyncProperty(
    fc.array(streamStep, { minLength: 1, maxLength: 15 }),
    fc.boolean(),
    async (steps, isOld) => {
      const real = await outcomesOf(connection, steps);
      const modelled = await inWorld(1, async (world) => {
        const jetstream = createJetStream(world, { isOld });
        const ran = outcomesOf(connectStreams(world, { jetstream, client: world.process("core") }), steps);
        await world.runUntil(60_000);
        return ran;
      });
      expect(modelled).toEqual(real);
    },
  );
  await fc.assert(property, { numRuns: 40 });
});
