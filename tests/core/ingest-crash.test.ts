import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type IngestCore, prepareIngestCore } from "../../scripts/lab/ingest-core.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createNumberedQueue } from "../support/numbered-queue.ts";
import { programFile } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

let database: TestDatabase;
let core: IngestCore;
beforeAll(async () => {
  database = await createTestDatabase();
  core = await prepareIngestCore(database.url, { program: programFile("functions/main.ts") });
});
afterAll(async () => {
  await core.remove();
  await database.drop();
});

const last = 1_300n;
it("G5: core that is killed repeatedly has stored all it acknowledged, and in the end everything once", async () => {
  let running: { ingestPort: number; process: ChildProcess } | undefined;
  let finished = false;
  const queues = await Promise.all(
    ["a", "b", "c"].map(async (name) => {
      const hostId = `spiffe://fleet.test/${name}`;
      return createNumberedQueue({
        hostId,
        tls: { ...(await core.client(hostId)), ca: core.caPem },
        last: () => last,
      });
    }),
  );
  const senders = queues.map(async (queue) => {
    while (queue.acked() < last) {
      await (running ? queue.connect(running.ingestPort) : Promise.reject(new Error("down"))).catch(
        () => undefined,
      );
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });
  const all = Promise.all(senders).then(() => {
    finished = true;
  });
  const { sql } = database.connect();
  let kills = 0;
  while (!finished) {
    running = await core.start();
    // Killed after a few more frames were acknowledged.
    const goal = queues.reduce((sum, queue) => sum + queue.acked(), 0n) + 1_000n;
    while (!finished && queues.reduce((sum, queue) => sum + queue.acked(), 0n) < goal)
      await new Promise((resolve) => setTimeout(resolve, 1));
    running.process.kill("SIGKILL");
    await once(running.process, "exit");
    running = undefined;
    kills++;
    for (const queue of queues) {
      // Core's last acks may arrive during this query.
      const acked = queue.acked();
      const found = (await findStored(sql)).filter(
        (each) => each.hostId === queue.hostId && each.sequence <= acked,
      );
      const distinct = new Set(found.map(({ sequence }) => sequence)).size;
      expect({ stored: found.length, distinct }).toEqual({
        stored: Number(acked),
        distinct: Number(acked),
      });
    }
  }
  await all;
  expect(kills).toBeGreaterThan(2);
  expect(queues.flatMap(({ violations }) => violations)).toEqual([]);
  const found = await findStored(sql);
  const total = { stored: found.length, contents: new Set(found.map(({ text }) => text)).size };
  const sent = queues.length * Number(last);
  expect(total).toEqual({ stored: sent, contents: sent });
});
