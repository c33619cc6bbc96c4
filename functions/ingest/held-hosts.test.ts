import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { frame, newQueue, open, openSession, testHost } from "#tests/support/frames.ts";
import {
  connectForeign,
  type ForeignClient,
  forwardAll,
  openForward,
  submit,
} from "#tests/support/grpc-client.ts";
import { ingestPaths, startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { findStored } from "#tests/support/stored-envelopes.ts";
import { createHeldHosts, type HeldHosts, holdBack } from "./held-hosts.ts";
import { createPostgresSink } from "./postgres-sink.ts";

describe.each(ingestPaths)("a host that has sent its budget, on the $path", ({ fastPath }) => {
  const clock = createTestClock();
  const held: HeldHosts = createHeldHosts(clock);
  let test: TestIngest;
  let client: ForeignClient;
  beforeAll(async () => {
    test = await startTestIngest({
      needs: { fastPath },
      sink: (needs) => holdBack(createPostgresSink(needs), held),
    });
    client = connectForeign(test, await test.client({}));
  });
  afterAll(async () => {
    client.close();
    await test.close();
  });
  beforeEach(() => held.set([]));

  const hold = (hostId = testHost) =>
    held.set([{ hostId, budget: "small", until: new Date(clock.now() + 90_000) }]);
  const exceeded = { code: status.RESOURCE_EXHAUSTED, reason: "budget_exceeded" };
  const storedOf = async (queue: Buffer) =>
    (await findStored(test.connection.sql))
      .filter((each) => each.queue === queue.toString("hex"))
      .map(({ sequence }) => Number(sequence));

  it("cannot open its queue, nor submit, and stores nothing", async () => {
    const queue = newQueue();
    hold();
    const { error, messages } = await forwardAll(client, [
      open(queue),
      { frame: frame(queue, 1, 2) },
    ]);
    expect([messages, error]).toMatchObject([[], exceeded]);
    expect((await submit(client, frame(queue, 1, 2))).error).toMatchObject(exceeded);
    expect(await storedOf(queue)).toEqual([]);
    expect(test.observed).toContainEqual({ name: "refused", facts: "budget_exceeded" });
  });

  it("ends its open stream at the next frame, keeps what is acknowledged, and goes on once its hour has ended", async () => {
    const queue = newQueue();
    const session = newQueue();
    const { call, messages, ended } = openForward(client);
    call.write(openSession(queue, { session_id: session }));
    call.write({ frame: frame(queue, 1, 2) });
    await expect.poll(() => messages.length).toBe(2);
    hold();
    call.write({ frame: frame(queue, 3, 4) });
    expect((await ended).error).toMatchObject(exceeded);
    expect(await storedOf(queue)).toEqual([1, 2]);
    await clock.advance(90_000);
    const next = openSession(queue, { session_id: newQueue(), previous_session_ids: [session] });
    const later = await forwardAll(client, [next, { frame: frame(queue, 3, 4) }]);
    expect(later).toMatchObject({
      messages: [{ opened: { cursor: "2" } }, { ack: { acked_through: "4" } }],
    });
    expect(await storedOf(queue)).toEqual([1, 2, 3, 4]);
  });

  it("holds no other host", async () => {
    hold("spiffe://fleet.test/host-2");
    const queue = newQueue();
    expect((await submit(client, frame(queue, 1, 2))).error).toBeUndefined();
    expect(await storedOf(queue)).toEqual([1, 2]);
  });
});

it("is held no longer once its hour has ended, also if nothing says so", async () => {
  const clock = createTestClock();
  const held = createHeldHosts(clock);
  expect(held.faultOf("host")).toBeUndefined();
  const until = clock.now() + 90_000;
  held.set([{ hostId: "host", budget: "small", until: new Date(until) }]);
  expect(held.faultOf("host")).toMatchObject({
    code: "budget_exceeded",
    options: {
      detail: `core holds the host by its budget small until ${new Date(until).toISOString()}`,
    },
  });
  await clock.advance(90_000);
  expect(held.faultOf("host")).toBeUndefined();
});
