import { status } from "@grpc/grpc-js";
import { expect, it, onTestFinished } from "vitest";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { frame, newQueue, openSession } from "#tests/support/frames.ts";
import { connectForeign, openForward } from "#tests/support/grpc-client.ts";
import { natsSinkOn, streamSettings } from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest } from "#tests/support/ingest.ts";
import type { NatsSink } from "./create-nats-sink.ts";

const canStart = await canStartNats();

it.skipIf(!canStart)(
  "Q12: ends the stream of a host that is silent when JetStream has gone back",
  async () => {
    const nats = await startNats();
    onTestFinished(() => nats.stop());
    const test = await startTestIngest({ sink: natsSinkOn(nats) });
    onTestFinished(() => test.close());
    const client = connectForeign(test, await test.client({}));
    onTestFinished(() => client.close());
    const queue = newQueue();
    const { call, messages, ended } = openForward(client);
    call.write(openSession(queue, { session_id: newQueue() }));
    call.write({ frame: frame(queue, 1, 3) });
    await expect.poll(() => messages.length).toBe(2);
    // As it is after a restore from a backup of before: the host, which sends nothing more, would never learn of its loss.
    const { streams } = nats.manager;
    const { config } = await streams.info(streamSettings.stream);
    await streams.delete(streamSettings.stream);
    await streams.add(config);
    expect((await ended).error).toMatchObject({
      code: status.UNAVAILABLE,
      reason: "database_unavailable",
    });
  },
);

it.skipIf(!canStart)("D1: acknowledges nothing while a stream is missing", async () => {
  const nats = await startNats();
  onTestFinished(() => nats.stop());
  const opened = Promise.withResolvers<NatsSink>();
  const open = natsSinkOn(nats);
  const test = await startTestIngest({
    sink: async (needs) => {
      const sink = await open(needs);
      opened.resolve(sink);
      return sink;
    },
  });
  onTestFinished(() => test.close());
  const { health } = await opened.promise;
  expect(health().healthy).toBe(true);
  const { streams } = nats.manager;
  const { config } = await streams.info(streamSettings.stream);
  await streams.delete(streamSettings.stream);
  await expect.poll(() => health().detail).toMatch(/missing: restore it from a backup/);
  await streams.add(config);
  await expect.poll(() => health().healthy).toBe(true);
});
