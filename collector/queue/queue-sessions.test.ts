import { cpSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { readAll, testRecord } from "#tests/support/queue.ts";
import type { Queue } from "./queue.ts";

const host = "spiffe://fleet.test/host-1";
const { dirOf, open } = setUpQueues();
const append = (queue: Queue, ...texts: string[]) =>
  queue.append(texts.map((text) => testRecord(text)));
const sequences = (queue: Queue) => readAll(queue).map(({ sequence }) => sequence);
const hex = (ids: readonly Uint8Array[]) => ids.map((id) => id.toHex());

describe("sessions of a queue", () => {
  it("Q11: are drawn anew for each stream, and on disk before they are returned", async () => {
    const queue = open();
    const first = queue.beginSession(host);
    const second = queue.beginSession(host);
    expect(first.previousSessionIds).toEqual([]);
    expect(hex(second.previousSessionIds)).toEqual([first.sessionId.toHex()]);
    // A kill now: the copy has what is on disk.
    cpSync(dirOf(), dirOf("killed"), { recursive: true });
    const third = open({}, "killed").beginSession(host);
    expect(third.queueId).toEqual(first.queueId);
    expect(hex(third.previousSessionIds)).toEqual(hex([first.sessionId, second.sessionId]));
  });

  it("Q11: differ between machines that were cloned with the state of their random numbers", () => {
    const ids = ["a", "b"].map((name) =>
      open({ entropy: createSeededEntropy(7) }, name)
        .beginSession(host)
        .sessionId.toHex(),
    );
    expect(ids[0]).not.toBe(ids[1]);
  });

  it("Q12: state as acknowledged what waits to be deleted, too", async () => {
    const queue = open();
    await append(queue, "a", "b", "c");
    queue.beginSession(host);
    queue.markSent(3);
    const acknowledged = queue.ack(2, { lingerMs: 60_000 });
    // Deleted after the claim, it would be neither claimed nor sent: with a restored database, core would report no loss of it.
    expect(queue.beginSession(host).ackedThrough).toBe(2);
    expect(sequences(queue)).toEqual([3]);
    await queue.close();
    await acknowledged;
  });

  it("Q11, Q12: keep those that core answered, however many it did not answer since, and the first and last of these", () => {
    const queue = open();
    const begin = () => queue.beginSession(host).sessionId;
    const answered = Array.from({ length: 3 }, () => {
      const sessionId = begin();
      queue.sessionAnswered();
      return sessionId;
    });
    const later = Array.from({ length: 40 }, begin);
    const { sessionId, previousSessionIds } = queue.beginSession(host);
    expect(hex([...previousSessionIds, sessionId])).toEqual(
      hex([...answered, ...later.slice(0, 4), ...later.slice(-3), sessionId]),
    );
  });

  it("Q11: keep the newest 16", () => {
    const queue = open();
    const answered = Array.from({ length: 20 }, () => {
      const { sessionId } = queue.beginSession(host);
      queue.sessionAnswered();
      return sessionId;
    });
    const { sessionId, previousSessionIds } = queue.beginSession(host);
    expect(hex([...previousSessionIds, sessionId])).toEqual(
      hex([...answered.slice(-15), sessionId]),
    );
  });

  it("Q11: state as sent what is on disk at a start, but nothing that was appended since core last answered", async () => {
    let queue = open();
    const restart = async () => {
      await queue.close();
      queue = open();
    };
    expect(queue.beginSession(host).sentThrough).toBe(0);
    await append(queue, "a", "b");
    await restart();
    // Core has never answered: nothing was sent, however often the collector starts.
    expect(queue.beginSession(host).sentThrough).toBe(0);
    queue.sessionAnswered();
    queue.markSent(2);
    await append(queue, "c");
    expect(queue.beginSession(host).sentThrough).toBe(2);
    await restart();
    expect(queue.beginSession(host).sentThrough).toBe(3);
    await append(queue, "d");
    await restart();
    expect(queue.beginSession(host).sentThrough).toBe(3);
  });

  it("Q12: state what was acknowledged and deleted, also after a restart", async () => {
    let queue = open();
    await append(queue, "a", "b", "c");
    await queue.ack(2);
    expect(queue.beginSession(host).ackedThrough).toBe(2);
    await queue.close();
    queue = open();
    expect(queue.beginSession(host).ackedThrough).toBe(2);
  });
});

describe("a fork", () => {
  it("Q11: continues under a new queue id with everything that is not acknowledged, under its sequences", async () => {
    let queue = open();
    await append(queue, "a", "b", "c", "d");
    const before = queue.beginSession(host);
    queue.sessionAnswered();
    queue.markSent(4);
    // Acknowledged, and not yet deleted: it must not count under the new queue id.
    const acknowledged = queue.ack(2, { lingerMs: 60_000 });
    queue.fork();
    await acknowledged;
    const after = queue.beginSession(host);
    expect(after.queueId).not.toEqual(before.queueId);
    expect(after).toMatchObject({ previousSessionIds: [], ackedThrough: 0, sentThrough: 0 });
    await append(queue, "e");
    await queue.close();
    queue = open();
    expect(sequences(queue)).toEqual([3, 4, 5]);
    expect(queue.queueId).toEqual(after.queueId);
    expect(queue.stats()).toMatchObject({ records: 3, forks: 1 });
    expect(queue.beginSession(host)).toMatchObject({ ackedThrough: 0, sentThrough: 0 });
  });

  it("Q12: is remembered with what core had under the queue id that was left, by its acks or its answer", async () => {
    let queue = open();
    await append(queue, "a", "b", "c");
    const { queueId } = queue.beginSession(host);
    await queue.ack(2);
    queue.fork();
    const left = () =>
      queue.beginSession(host).leftQueues.map(({ order: _, hostId: __, ...one }) => one);
    const expected = { queueId, storedThrough: 2, ackedThrough: 2, forked: true };
    expect(left()).toEqual([expected]);
    // An older core answers without cursors.
    queue.sessionAnswered();
    expect(left()).toEqual([expected]);
    // Core has recorded what it lost.
    queue.sessionAnswered([1]);
    expect(left()).toEqual([{ ...expected, storedThrough: 1 }]);
    queue.sessionAnswered([5]);
    await queue.close();
    queue = open();
    expect(left()).toEqual([{ ...expected, storedThrough: 5 }]);
  });

  it("is remembered for its host alone, the newest eight of all", () => {
    const queue = open();
    const ids = Array.from({ length: 10 }, (_, index) => {
      const { queueId } = queue.beginSession(index < 2 ? "spiffe://fleet.test/host-2" : host);
      queue.fork();
      return queueId;
    });
    const leftOf = (hostId: string) =>
      hex(queue.beginSession(hostId).leftQueues.map(({ queueId }) => queueId));
    expect(leftOf(host)).toEqual(hex(ids.slice(2).toReversed()));
    // The queue was not another host's yet, so it is left as the one of `host`: the oldest is forgotten.
    expect(leftOf("spiffe://fleet.test/host-2")).toEqual([]);
    expect(leftOf(host)).toHaveLength(7);
  });

  it("happens, uncounted, when the queue is another host's: its acknowledgements are of the other", async () => {
    const queue = open();
    await append(queue, "a", "b");
    const before = queue.beginSession(host);
    await queue.ack(1);
    const after = queue.beginSession("spiffe://fleet.test/host-2");
    expect(after.queueId).not.toEqual(before.queueId);
    expect(after).toMatchObject({ previousSessionIds: [], ackedThrough: 0 });
    expect(sequences(queue)).toEqual([2]);
    expect(queue.stats().forks).toBe(0);
  });
});
