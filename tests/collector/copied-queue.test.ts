import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Queue } from "#collector/queue/queue.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestCa, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import { type TestDatabase, useTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startTestIngest, type TestClient, type TestIngest } from "../support/ingest.ts";
import { newFolder } from "../support/new-folder.ts";
import { openTestQueue, testRecord } from "../support/queue.ts";
import { findStored } from "../support/stored-envelopes.ts";
import { createForwarderTo } from "./support/forwarder-to.ts";

/* Collectors whose disk is restored or copied, and a core whose database is restored: both ends of docs/protocol.md, "Fencing". */

const hostId = "spiffe://fleet.test/host-1";
let root: string;
let ca: TestCa;
let client: TestClient;
let core: TestIngest;
const ends: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  root = newFolder();
  ca = await createTestCa({
    notBefore: new Date(Date.now() - 3_600_000),
    notAfter: new Date(Date.now() + 86_400_000),
  });
  core = await startTestIngest({ ca });
  client = await core.client({ uri: hostId });
});

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  await core.close();
});

/** Starts a collector on a directory of its own. */
const startMachine = (name: string) => {
  const dir = join(root, name);
  let queue: Queue | undefined;
  let stop: AbortController | undefined;
  let running: Promise<void> | undefined;
  const machine = {
    dir,
    queue: () => queue as Queue,
    append: (...texts: string[]) => machine.queue().append(texts.map((text) => testRecord(text))),
    empty: () => eventually(() => expect(machine.queue().stats().records).toBe(0)),
    /** Runs the forwarder to the core that runs now. */
    forward: () => {
      stop = new AbortController();
      const batch = { maxEnvelopes: 5, maxBytes: 1_048_576, lingerMs: 1 };
      const options = { hostId, queue: machine.queue(), batch };
      running = createForwarderTo(core, client, options).run(stop.signal);
    },
    open: () => {
      queue = openTestQueue(dir, { entropy: systemEntropy });
    },
    /** Stops the forwarder, and keeps the queue open. */
    pause: async () => {
      stop?.abort(new Error("stop"));
      await running;
    },
    stop: async () => {
      await machine.pause();
      await queue?.close();
      queue = undefined;
    },
  };
  ends.push(machine.stop);
  machine.open();
  return machine;
};

const copy = (from: string, to: string) => {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true });
};

const texts = (word: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${word} ${from + index}`);

const stored = async () => new Set((await findStored(core.connection.sql)).map(({ text }) => text));

const events = async () => {
  const rows = await core.connection.sql<
    { action: string; from: number | null; through: number | null }[]
  >`
    select action, (details->>'from')::int as from, (details->>'through')::int as through from audit_event order by id`;
  return rows.map((row) => ({ ...row }));
};

it("Q11: a queue restored to a snapshot loses nothing that is accepted afterwards, also after further restarts", async () => {
  const machine = startMachine("host");
  await machine.append(...texts("first", 1, 10));
  machine.forward();
  await machine.empty();
  await machine.stop();
  copy(machine.dir, join(root, "snapshot"));
  machine.open();
  machine.forward();
  await machine.append(...texts("gone with the disk", 11, 60));
  await machine.empty();
  await machine.stop();

  copy(join(root, "snapshot"), machine.dir);
  machine.open();
  await machine.append(...texts("restored", 11, 40));
  // Restarts before core answers: what was appended meanwhile was never sent.
  await machine.stop();
  machine.open();
  await machine.append(...texts("restored", 41, 70));
  machine.forward();
  await machine.empty();
  expect([
    ...texts("first", 1, 10),
    ...texts("gone with the disk", 11, 60),
    ...texts("restored", 11, 70),
  ]).toEqual(expect.arrayContaining([...(await stored())]));
  expect((await stored()).size).toBe(120);
  expect(machine.queue().stats()).toMatchObject({ forks: 1, droppedRecordsTotal: 0 });
  expect((await events()).map(({ action }) => action)).toEqual(["queue.forked"]);
});

it("Q11: two live copies of one queue lose nothing, and one of them continues under a new queue id", async () => {
  const original = startMachine("original");
  await original.append(...texts("shared", 1, 10));
  original.forward();
  await original.empty();
  await original.stop();
  copy(original.dir, join(root, "clone"));
  const clone = startMachine("clone");
  original.open();
  for (const machine of [original, clone]) machine.forward();
  for (let round = 0; round < 10; round++) {
    await original.append(...texts("original", round * 7, round * 7 + 6));
    await clone.append(...texts("clone", round * 5, round * 5 + 4));
  }
  await Promise.all([original.empty(), clone.empty()]);
  const found = await stored();
  for (const text of [
    ...texts("shared", 1, 10),
    ...texts("original", 0, 69),
    ...texts("clone", 0, 49),
  ])
    expect(found).toContain(text);
  expect(original.queue().stats().forks + clone.queue().stats().forks).toBeGreaterThanOrEqual(1);
  expect((await events()).map(({ action }) => action)).toContain("queue.forked");
});

it.each(["the original", "the clone"])(
  "Q11: machines resumed from one memory lose nothing, when %s reconnects first",
  async (first) => {
    const original = startMachine("original");
    await original.append(...texts("shared", 1, 10));
    original.forward();
    await original.empty();
    await original.append(...texts("not acknowledged", 1, 3));
    await original.pause();
    copy(original.dir, join(root, "clone"));
    // The original never opens its queue again: it continues with what it has in memory.
    const clone = startMachine("clone");
    await clone.append(...texts("clone", 1, 40));
    await original.append(...texts("original", 1, 70));
    const order = first === "the clone" ? [clone, original] : [original, clone];
    for (const machine of order) {
      machine.forward();
      await machine.empty();
    }
    const found = await stored();
    const all = [...texts("shared", 1, 10), ...texts("not acknowledged", 1, 3)];
    for (const text of [...all, ...texts("clone", 1, 40), ...texts("original", 1, 70)])
      expect(found).toContain(text);
    expect(order.map(({ queue }) => queue().stats().forks)).toEqual([0, 1]);
    expect((await events()).map(({ action }) => action)).toEqual(["queue.forked"]);
  },
);

it("Q12: collectors continue on a database restored from a backup, and the lost range is reported", async () => {
  const machine = startMachine("host");
  const restartCore = async (database: TestDatabase) => {
    await machine.pause();
    await core.close();
    core = await startTestIngest({ ca, database });
    machine.forward();
  };
  const database = await useTestDatabase();
  await restartCore(database);
  await machine.append(...texts("before", 1, 20));
  await machine.empty();

  await machine.pause();
  await core.connection.close();
  await core.close();
  const backup = await useTestDatabase(database);
  core = await startTestIngest({ ca, database });
  machine.forward();
  await machine.append(...texts("lost", 21, 45));
  await machine.empty();

  await restartCore(backup);
  await machine.append(...texts("after", 46, 60));
  await machine.empty();
  expect(await stored()).toEqual(new Set([...texts("before", 1, 20), ...texts("after", 46, 60)]));
  expect(await events()).toEqual([{ action: "ingest.gap", from: 21, through: 45 }]);
  expect(machine.queue().stats()).toMatchObject({ forks: 0, deadLetters: 0 });
});
