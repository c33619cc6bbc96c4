import { expect, it } from "vitest";
import type { Queue } from "#collector/queue/queue.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { eventually } from "../support/eventually.ts";
import { startTestIngest, type TestIngest } from "../support/ingest.ts";
import { openTestQueue } from "../support/queue.ts";
import { findStored } from "../support/stored-envelopes.ts";
import { createForwarderTo } from "./support/forwarder-to.ts";

/* The collector's queue and forwarder against core's real listener and database: both ends of docs/protocol.md. */

const hostId = "spiffe://fleet.test/host-1";
const start = async (options: Parameters<typeof startTestIngest>[0] = {}) => {
  const core = await startTestIngest(options);
  whenDone(() => core.close());
  const dir = newFolder();
  const queue = openTestQueue(dir);
  whenDone(() => queue.close());
  const client = await core.client({ uri: hostId });
  const forwarder = createForwarderTo(core, client, { hostId, queue, compression: "gzip" });
  const run = () => {
    const stop = new AbortController();
    const running = forwarder.run(stop.signal);
    return () => {
      stop.abort(new Error("stop"));
      return running;
    };
  };
  let stop = run();
  whenDone(() => stop());
  const reconnect = async () => {
    await stop();
    stop = run();
  };
  return { core, queue, reconnect };
};

const append = (queue: Queue, from: number, to: number, size = 10) =>
  queue.append(
    Array.from({ length: to - from + 1 }, (_, index) => ({
      kind: "log_line",
      observedAtMs: Date.UTC(2026, 5, 1, 12) + index,
      source: "file",
      attributes: { "file.path": "/var/log/a.log", "file.offset": `${index}` },
      payload: new TextEncoder().encode(`${from + index}`.padEnd(size)),
    })),
  );

const empty = (queue: Queue) => eventually(() => expect(queue.stats().records).toBe(0));

const storedNumbers = async (core: TestIngest) => {
  const found = await findStored(core.connection.sql);
  return found.filter((each) => each.hostId === hostId).map(({ text }) => Number(text));
};

const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

it("stores every queued record in core's database, once and in order, before the queue deletes it", async () => {
  const { core, queue } = await start();
  for (let from = 1; from <= 2_000; from += 200) await append(queue, from, from + 199);
  await empty(queue);
  expect(await storedNumbers(core)).toEqual(numbers(1, 2_000));
});

it("authenticates the collector when it resumes its TLS session", async () => {
  const { core, queue, reconnect } = await start();
  await append(queue, 1, 10);
  await empty(queue);
  await reconnect();
  await append(queue, 11, 20);
  await empty(queue);
  expect(await storedNumbers(core)).toEqual(numbers(1, 20));
  expect(core.observed.filter(({ name }) => name === "refused")).toEqual([]);
});

it("moves an envelope over core's payload or frame limit to the dead letters, also when it is compressed", async () => {
  const { core, queue } = await start({
    config: { frameBytesMax: 20_000, payloadBytesMax: 5_000 },
  });
  await append(queue, 1, 100, 1_000);
  await append(queue, 101, 101, 6_000);
  await append(queue, 102, 110, 1_000);
  await empty(queue);
  expect(queue.stats().deadLetters).toBe(1);
  await append(queue, 111, 111, 50_000);
  await append(queue, 112, 120, 1_000);
  await empty(queue);
  expect(await storedNumbers(core)).toEqual(
    numbers(1, 120).filter((number) => number !== 101 && number !== 111),
  );
  expect(queue.stats()).toMatchObject({ deadLetters: 2, droppedRecordsTotal: 0 });
});
