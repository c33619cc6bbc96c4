import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, it } from "vitest";
import { IngestService } from "../proto/gen/svc/ingest/v1/ingest_pb.js";
import { type IngestCore, prepareIngestCore } from "../scripts/lab/ingest-core.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";

let database: TestDatabase;
let core: IngestCore;
beforeAll(async () => {
  database = await createTestDatabase();
  core = await prepareIngestCore(database.url);
});
afterAll(async () => {
  await core.remove();
  await database.drop();
});

const framesOfQueue = 260;
const envelopesOfFrame = 5;
const framesInFlight = 8;

/** Sends one queue across restarts of core, and records the acknowledged cursor. */
const createQueue = (hostId: string, credentials: { cert: string; key: string }) => {
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const last = BigInt(framesOfQueue * envelopesOfFrame);
  let acked = 0n;

  /** Sends over one connection from core's cursor, until everything is acknowledged or the connection breaks. */
  const connect = async (port: number): Promise<void> => {
    const nodeOptions = { ca: core.caPem, ...credentials };
    const transport = createGrpcTransport({ baseUrl: `https://localhost:${port}`, nodeOptions });
    let opened = Promise.withResolvers<bigint>();
    let room = Promise.withResolvers<void>();
    let inFlight = 0;
    async function* send() {
      yield { message: { case: "open" as const, value: { hostId, queueId } } };
      let previous = await opened.promise;
      while (previous < last) {
        while (inFlight >= framesInFlight) await room.promise;
        inFlight++;
        const envelopes = Array.from({ length: envelopesOfFrame }, (_, index) => {
          const sequence = previous + BigInt(index + 1);
          return { sequence, kind: "log_line", payload: new TextEncoder().encode(`${hostId} ${sequence}`) };
        });
        yield {
          message: { case: "frame" as const, value: { hostId, queueId, previousSequence: previous, envelopes } },
        };
        previous += BigInt(envelopesOfFrame);
      }
    }
    try {
      for await (const { message } of createClient(IngestService, transport).forward(send())) {
        if (message.case === "opened") {
          expect(message.value.cursor).toBeGreaterThanOrEqual(acked);
          opened.resolve(message.value.cursor);
        } else if (message.case === "ack") {
          acked = message.value.ackedThrough;
          inFlight--;
          room.resolve();
          room = Promise.withResolvers();
        }
      }
    } finally {
      opened.promise.catch(() => undefined);
      opened.reject(new Error("disconnected"));
      opened = Promise.withResolvers();
    }
  };
  return { hostId, last, acked: () => acked, connect };
};

it("G5: core that is killed repeatedly has stored all it acknowledged, and in the end everything once", async () => {
  let running: { ingestPort: number; process: ChildProcess } | undefined;
  let finished = false;
  const queues = await Promise.all(
    ["a", "b", "c"].map(async (name) => {
      const hostId = `spiffe://fleet.test/${name}`;
      return createQueue(hostId, await core.client(hostId));
    }),
  );
  const senders = queues.map(async (queue) => {
    while (queue.acked() < queue.last) {
      await (running ? queue.connect(running.ingestPort) : Promise.reject(new Error("down"))).catch(() => undefined);
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
      const [row] = await sql`select count(*)::int as stored, count(distinct sequence)::int as distinct
        from ingest_envelope where host_id = ${queue.hostId} and sequence <= ${acked.toString()}::text::bigint`;
      expect(row).toEqual({ stored: Number(acked), distinct: Number(acked) });
    }
  }
  await all;
  expect(kills).toBeGreaterThan(2);
  const [total] =
    await sql`select count(*)::int as stored, count(distinct convert_from(payload, 'utf8'))::int as contents
    from ingest_envelope`;
  const sent = queues.length * framesOfQueue * envelopesOfFrame;
  expect(total).toEqual({ stored: sent, contents: sent });
});
