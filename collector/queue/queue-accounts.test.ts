import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, expect, it } from "vitest";
import { hourMs } from "#kit/clock.ts";
import type { AccountBody } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import {
  closeAccounts,
  refusalsOf,
  testSigner as signer,
  takeAccounts,
} from "#tests/collector/support/queue-accounts.ts";
import { setUpQueues } from "#tests/collector/support/queue-folder.ts";
import { createTestClock, type TestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { testRecord } from "#tests/support/queue.ts";
import { addFileGaps, fileGapSource } from "./file-gaps.ts";
import { queueFiles } from "./format.ts";
import type { Queue } from "./queue.ts";

const minute = 60_000;

let clock: TestClock;
let start: number;
beforeEach(() => {
  clock = createTestClock();
  start = clock.now();
});
const { dirOf, open } = setUpQueues(() => ({ clock }));
/** Opens a copy of the queue's files as they are now, as after a kill. */
const openKilled = async () => {
  const copy = dirOf("killed");
  await rm(copy, { recursive: true, force: true });
  await cp(dirOf(), copy, { recursive: true });
  await rm(join(copy, "queue.lock"), { force: true });
  return open({}, "killed");
};
const pass = async (queue: Queue, ms: number) => {
  for (let left = ms; left > 0; left -= minute) {
    await clock.advance(Math.min(left, minute));
    queue.accounts.observe();
  }
};
const range = ({ firstSequence, lastSequence }: AccountBody) => [
  Number(firstSequence),
  Number(lastSequence),
];
const span = ({ fromMs, toMs }: AccountBody) => [Number(fromMs) - start, Number(toMs) - start];
const numbersOf = (all: readonly AccountBody[]) => all.map(({ number }) => Number(number));
/** Changes the closed or open database, as damage or another version of the collector does. */
const alter = (statements: string) => {
  const database = new DatabaseSync(join(dirOf(), "queue.db"));
  database.exec(statements);
  database.close();
};
const ackNow = async (queue: Queue, through: number) => {
  const acking = queue.ack(through);
  await new Promise(setImmediate);
  await acking;
};
const refuse = (queue: Queue, records: number) =>
  queue.accounts.refused("malformed", { kind: "otel_span", source: "otlp", records });
const recordsOf = ({ accepted }: AccountBody) =>
  accepted.map(({ kind, source, records }) => [kind, source, Number(records)]);

const texts = (count: number) =>
  Array.from({ length: count }, (_, index) => testRecord(`line ${index}`));

it("L5: states gaps of log files by their number, and how many of them have bytes that nobody knows", async () => {
  const queue = open();
  for (const bytes of [0, 70, 0]) {
    const gap = addFileGaps(queue.checkpoints(fileGapSource), "app", [bytes]);
    await queue.append([], { checkpoints: [gap] });
  }
  await pass(queue, 2 * hourMs);
  expect(takeAccounts(queue)).toMatchObject([
    { fileGaps: 3n, fileGapsUnknown: 2n, fileGapBytes: 70n },
    { fileGaps: 0n, fileGapsUnknown: 0n, fileGapBytes: 0n },
  ]);
});

it("has one for each hour, with what was accepted in it by kind and source, chained and signed", async () => {
  const queue = open();
  await queue.append(texts(3));
  await queue.append([testRecord("a"), { ...testRecord("b"), kind: "otel_span", source: "otlp" }]);
  await pass(queue, hourMs);
  await pass(queue, hourMs);
  await queue.append(texts(2));
  await pass(queue, hourMs);
  const all = takeAccounts(queue);
  expect(all.map(span)).toEqual([0, 1, 2].map((hour) => [hour * hourMs, (hour + 1) * hourMs]));
  expect(all.map(range)).toEqual([
    [1, 5],
    [6, 5],
    [6, 7],
  ]);
  expect(all.map(recordsOf)).toEqual([
    [
      ["log_line", "file", 4],
      ["otel_span", "otlp", 1],
    ],
    [],
    [["log_line", "file", 2]],
  ]);
  expect(all[0]?.accepted.map(({ bytes }) => bytes)).toEqual([3n * 6n + 1n, 1n]);
  expect(numbersOf(all)).toEqual([1, 2, 3]);
  expect(all[0]?.previousSha256).toHaveLength(0);
  expect(all[1]?.previousSha256).toHaveLength(32);
});

it("states a stop, and that it did not run until the next start", async () => {
  const queue = open();
  await queue.append(texts(1));
  await pass(queue, 10 * minute);
  await queue.close();
  await clock.advance(30 * hourMs);
  const all = takeAccounts(open());
  expect(all.map(span)).toEqual([
    [0, 10 * minute],
    [10 * minute, 30 * hourMs + 10 * minute],
  ]);
  expect(all.map(({ stopped, atLeast }) => [stopped, atLeast])).toEqual([
    [false, false],
    [true, false],
  ]);
});

it("counts every record that is on disk after a kill, and says that it may have refused more", async () => {
  const queue = open();
  await queue.append(texts(4));
  await pass(queue, 5 * minute);
  await queue.append(texts(2));
  await clock.advance(2 * minute);
  const killed = await openKilled();
  const all = takeAccounts(killed);
  expect(all.map(range)).toEqual([
    [1, 6],
    [7, 6],
  ]);
  expect(all.map(span)).toEqual([
    [0, 5 * minute],
    [5 * minute, 7 * minute],
  ]);
  expect(all.map(({ stopped, atLeast }) => [stopped, atLeast])).toEqual([
    [false, true],
    [true, false],
  ]);
});

it("does not count the time that a machine sleeps as running, nor a jump of its clock", async () => {
  const queue = open();
  await queue.append(texts(1));
  await pass(queue, 20 * minute);
  clock.set(clock.now() + 72 * hourMs);
  await queue.append(texts(1));
  clock.set(clock.now() - 2 * hourMs);
  queue.accounts.observe();
  await pass(queue, hourMs);
  const all = takeAccounts(queue);
  expect(all.slice(0, 3).map(span)).toEqual([
    [0, 20 * minute],
    [20 * minute, 72 * hourMs + 20 * minute],
    [72 * hourMs + 20 * minute, 72 * hourMs + 20 * minute],
  ]);
  expect(all.map(({ stopped }) => stopped)).toEqual([false, true, false, false]);
  expect(all.map(range)).toEqual([
    [1, 1],
    [2, 1],
    [2, 2],
    [3, 2],
  ]);
  expect(span(all[3] as AccountBody)).toEqual([70 * hourMs + 20 * minute, 71 * hourMs]);
});

it("counts what is refused in the hour in which it is, also where the machine has slept since it last observed", async () => {
  const queue = open({ maxDiskUsageBytes: 3_000 });
  await pass(queue, 20 * minute);
  clock.set(clock.now() + 72 * hourMs);
  expect(await queue.append([testRecord("x", 4_000)])).toBe("dropped");
  clock.set(clock.now() + 2 * hourMs);
  refuse(queue, 2);
  const all = closeAccounts(queue);
  expect(
    all.map((account) => [
      Math.floor((Number(account.fromMs) - start) / hourMs),
      refusalsOf([account]),
    ]),
  ).toEqual([
    [0, []],
    [0, []],
    [72, [[2, "log_line", "file", 1]]],
    [72, []],
    [74, [[3, "otel_span", "otlp", 2]]],
  ]);
});

it("has on disk, with the next observation, what was refused while nothing was stored", async () => {
  const queue = open();
  refuse(queue, 2);
  await pass(queue, minute);
  refuse(queue, 1);
  const [account] = takeAccounts(await openKilled());
  expect(account).toMatchObject({ atLeast: true, refused: [{ reason: 3, records: 2n }] });
});

it("counts how long records wait for room", async () => {
  const queue = open({ maxDiskUsageBytes: 3_000 });
  await queue.append(texts(10));
  const given = new AbortController();
  const waiting = queue.append(texts(20), { signal: given.signal }).catch(() => "rejected");
  await pass(queue, 5 * minute);
  given.abort();
  expect(await waiting).toBe("rejected");
  await queue.ack(10);
  await pass(queue, 55 * minute);
  expect(takeAccounts(queue)).toMatchObject([
    { waitedMs: BigInt(5 * minute), accepted: [{ records: 10n }] },
  ]);
});

it("counts what a full queue drops, what is too large, and what age drops", async () => {
  const dropping = open({
    maxDiskUsageBytes: 3_000,
    dropNewestOnFull: true,
    maxRecordAgeSeconds: 60,
  });
  await dropping.append(texts(10));
  expect(await dropping.append(texts(310))).toBe("dropped");
  expect(await dropping.append([testRecord("x", 4_000)])).toBe("dropped");
  dropping.accounts.refused("retry", { kind: "otel_log", source: "otlp", records: 7 });
  await pass(dropping, 2 * minute);
  dropping.dropExpired();
  await dropping.close();
  const [account] = takeAccounts(open());
  expect(refusalsOf(account ? [account] : [])).toEqual([
    [2, "log_line", "file", 311],
    [4, "otel_log", "otlp", 7],
  ]);
  expect(account).toMatchObject({ expired: 10n });
});

it("continues in a chain that names the old queue, and what was acknowledged there, after a fork", async () => {
  const queue = open();
  const old = queue.queueId;
  await queue.append(texts(5));
  await pass(queue, hourMs);
  const [first] = takeAccounts(queue);
  await queue.append(texts(10));
  await pass(queue, hourMs);
  queue.accounts.seal(signer);
  await queue.append(texts(1));
  queue.beginSession("host");
  await ackNow(queue, 9);
  queue.fork();
  // Nothing is acknowledged under this id.
  queue.fork();
  await pass(queue, hourMs);
  const all = takeAccounts(queue);
  expect(first).toMatchObject({ queueId: old, number: 1n });
  expect(all.map(range)).toEqual([
    [6, 15],
    [16, 16],
  ]);
  expect(numbersOf(all)).toEqual([1, 2]);
  expect(all.every(({ queueId }) => Buffer.compare(queueId, queue.queueId) === 0)).toBe(true);
  expect(all[0]).toMatchObject({ previousQueueId: old, ackedBeforeThrough: 9n });
  expect(all[1]).toMatchObject({ previousQueueId: new Uint8Array(), ackedBeforeThrough: 0n });
});

it("states what was acknowledged before two forks in one hour", async () => {
  const queue = open();
  await queue.append(texts(5));
  queue.beginSession("host");
  await ackNow(queue, 3);
  queue.fork();
  queue.fork();
  await pass(queue, hourMs);
  expect(takeAccounts(queue)).toMatchObject([{ lastSequence: 5n, ackedBeforeThrough: 3n }]);
});

it("keeps the accounts of a database that is damaged, and claims what was accepted and is lost with it", async () => {
  const queue = open();
  const old = queue.queueId;
  await queue.append(texts(5));
  await pass(queue, hourMs);
  queue.accounts.seal(signer);
  await queue.append(texts(3));
  await queue.close();
  alter("DELETE FROM state");
  const replaced = open({ entropy: createSeededEntropy(2) });
  await replaced.append(texts(1));
  await pass(replaced, hourMs);
  const all = takeAccounts(replaced);
  expect(all.map(range)).toEqual([
    [1, 5],
    [6, 8],
    [9, 9],
  ]);
  expect(numbersOf(all)).toEqual([1, 2, 1]);
  expect(all.map(({ queueId }) => queueId)).toEqual([old, old, replaced.queueId]);
  expect(all[2]).toMatchObject({ previousQueueId: old });
});

it.each([
  ["the hour of the saved period, and that it then did not run", 30, 10],
  ["later hours, and covers no time before its end", 150, 150],
])("claims what damage took back of %s", async (_, lostMinutes, stoppedMinutes) => {
  const queue = open();
  await queue.append(texts(2));
  await pass(queue, 10 * minute);
  await cp(dirOf(), dirOf("killed"), { recursive: true });
  await rm(join(dirOf("killed"), "queue.lock"), { force: true });
  await pass(queue, (lostMinutes - 10) * minute);
  await queue.append(texts(3));
  const { watermark } = queueFiles("");
  await cp(join(dirOf(), watermark), join(dirOf("killed"), watermark));
  await pass(queue, 5 * minute);
  const all = takeAccounts(open({}, "killed"));
  expect(all.map(range)).toEqual([
    [1, 5],
    [6, 5],
  ]);
  expect(all.map(span)).toEqual([
    [0, 10 * minute],
    [stoppedMinutes * minute, (lostMinutes + 5) * minute],
  ]);
});

it("is written anew, in its chain, where damage of the open database took it", async () => {
  const queue = open();
  const { queueId } = queue;
  await queue.append(texts(5));
  await pass(queue, hourMs);
  expect(takeAccounts(queue)).toHaveLength(1);
  await queue.append(texts(3));
  await pass(queue, hourMs);
  queue.accounts.seal(signer);
  queue.accounts.refused("retry", { kind: "otel_span", source: "otlp", records: 4 });
  alter(
    "DELETE FROM account; DELETE FROM account_period; UPDATE block SET last_sequence = last_sequence | (1 << 62)",
  );
  queue.read(0, { maxRecords: 1, maxBytes: 1 });
  await queue.append(texts(1));
  await pass(queue, hourMs);
  const all = takeAccounts(queue);
  expect(all.map(range)).toEqual([
    [6, 8],
    [9, 9],
  ]);
  expect(numbersOf(all)).toEqual([2, 3]);
  expect(all.map((account) => account.queueId)).toEqual([queueId, queueId]);
  expect(all[1]).toMatchObject({ damaged: 8n, refused: [{ reason: 4, records: 4n }] });
});

it("claims what another version of the collector has appended, whose kinds nobody knows", async () => {
  const queue = open();
  await queue.append(texts(2));
  await queue.close();
  alter("UPDATE state SET next_sequence = next_sequence + 4");
  const all = takeAccounts(open());
  expect(all.map(range)).toEqual([
    [1, 2],
    [3, 6],
  ]);
  expect(all.map(recordsOf)[1]).toEqual([["", "", 4]]);
});
