import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { frame, newQueue, openSession } from "#tests/support/frames.ts";
import { connectForeign, forwardAll } from "#tests/support/grpc-client.ts";
import { natsSinkOn, streamSettings } from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { rangesOf } from "./acked-messages.ts";

const canStart = await canStartNats();
const { stream } = streamSettings;

describe.skipIf(!canStart)("a stream whose leader lacks what was acknowledged", () => {
  let nats: RunningNats;
  let test: TestIngest;
  beforeAll(async () => {
    nats = await startNats({ nodes: 3 });
    test = await startTestIngest({ sink: natsSinkOn(nats, { replicas: 3 }) });
  });
  afterAll(async () => {
    await test.close();
    await nats.stop();
  });

  /** Stores frames of two lines each, and returns the sequences of their messages in the stream. */
  const store = async (queue: Buffer, frames: number) => {
    const client = connectForeign(test, await test.client({}));
    const sent = Array.from({ length: frames }, (_, index) => ({
      frame: frame(queue, 2 * index + 1, 2 * index + 2),
    }));
    const { error } = await forwardAll(client, [
      openSession(queue, { session_id: newQueue() }),
      ...sent,
    ]);
    client.close();
    expect(error).toBeUndefined();
    const { state } = await nats.manager.streams.info(stream);
    return sent.map((_, index) => state.last_seq - frames + 1 + index);
  };
  const stepDown = async () => {
    const before = (await nats.leaderOf(stream)).name;
    await nats.connection.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`);
    await expect.poll(async () => (await nats.leaderOf(stream)).name).not.toBe(before);
  };
  const eventsOf = (queue: Buffer) => test.connection.sql`
    select action, reason_code as code, details->>'from' as from, details->>'through' as through from audit_event
    where details->>'queue_id' = ${queue.toString("hex")} order by 3`;

  it("Q12: reports the exact ranges below a queue's end, once, and none of a queue that the leader has all of", async () => {
    const queue = newQueue();
    const whole = newQueue();
    const sequences = await store(queue, 7);
    await store(whole, 3);
    // Its end is found when it is opened.
    const cut = newQueue();
    await nats.manager.streams.deleteMessage(stream, (await store(cut, 2)).at(-1) ?? 0);
    // As a replica that skipped them, and that leads from now on.
    for (const at of [1, 2, 4, 5])
      await nats.manager.streams.deleteMessage(stream, sequences[at] ?? 0);
    await stepDown();
    await expect
      .poll(() => eventsOf(queue), { timeout: 20_000 })
      .toEqual([
        { action: "ingest.gap", code: "replica_differs", from: "3", through: "6" },
        { action: "ingest.gap", code: "replica_differs", from: "9", through: "12" },
      ]);
    const later = newQueue();
    const [first = 0] = await store(later, 2);
    await nats.manager.streams.deleteMessage(stream, first);
    await stepDown();
    await expect.poll(() => eventsOf(later), { timeout: 20_000 }).toHaveLength(1);
    expect(await eventsOf(queue)).toHaveLength(2);
    for (const other of [whole, cut]) expect(await eventsOf(other)).toEqual([]);
  });
});

it("joins the ranges of messages that follow each other or overlap", () => {
  const named = (first: number, last: number) => ({ first: String(first), last: String(last) });
  expect(rangesOf([named(7, 8), named(1, 3), named(2, 5), named(6, 6), named(11, 12)])).toEqual([
    { from: 1n, through: 8n },
    { from: 11n, through: 12n },
  ]);
});
