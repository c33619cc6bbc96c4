import { afterAll, beforeAll, expect, it } from "vitest";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { texts, within } from "../support/deployment/exported-program.ts";
import { streamSettings } from "../support/ingest/nats-sink.ts";
import { type OtlpBackend, startOtlpBackend } from "../support/ingest/otlp-backend.ts";
import { type Program, startProgram } from "../support/program.ts";
import { type EnvelopeStore, openStreamStore } from "../support/stored-envelopes.ts";

const withNats = it.runIf(await canStartNats());

/* `svc-server export` as a process that reads a cluster of three NATS servers, whose leader is killed. */

const { stream } = streamSettings;
let nats: RunningNats;
let database: TestDatabase;
let store: EnvelopeStore;
let backend: OtlpBackend;
let program: Program | undefined;
beforeAll(async () => {
  [nats, database, backend] = await Promise.all([
    startNats({ nodes: 3 }),
    createTestDatabase(),
    startOtlpBackend(),
  ]);
  store = await openStreamStore(nats, database, { replicas: 3 });
});
afterAll(async () => {
  program?.child.kill("SIGKILL");
  await program?.exited;
  await store.close();
  await backend.close();
  await nats.stop();
  await database.drop();
});

const hosts = ["a", "b", "c"];

withNats(
  "exports everything, from its position on, when the stream's leader is killed in the middle",
  async () => {
    const { sql } = database.connect();
    // The sequence of a message, which is a block: `storeAll` stores one for each host.
    const positions: number[] = [];
    const position = async () => {
      const [row] = await sql<{ position: number }[]>`select position::int from export_position`;
      positions.push(row?.position ?? 0);
      return row?.position ?? 0;
    };
    const storeAll = async (from: number) => {
      for (const host of hosts)
        await expect
          .poll(() => store.lines(host, texts(host, from, 20)).then(() => "stored", String), within)
          .toBe("stored");
    };
    await storeAll(0);
    program = startProgram("functions/main.ts", ["export"], {
      SVC_DATABASE_URL: database.url,
      SVC_INGEST_SINK: "nats",
      SVC_NATS_URLS: nats.addresses.map((address) => `nats://${address}`).join(),
      SVC_EXPORT_ENDPOINT: backend.httpUrl,
      SVC_EXPORT_REQUEST_BYTES: "1024",
    });
    await expect.poll(position, within).toBeGreaterThanOrEqual(hosts.length);
    const exported = await position();

    // Some requests of the next chunk are accepted, others are under way.
    const killed = Promise.withResolvers<"accept">();
    const before = backend.accepted.length;
    backend.answer = () => (backend.accepted.length < before + 2 ? "accept" : killed.promise);
    await storeAll(20);
    await expect.poll(() => backend.accepted.length, within).toBeGreaterThanOrEqual(before + 2);
    const leader = await nats.leaderOf(stream);
    await leader.kill();
    killed.resolve("accept");
    await storeAll(40);
    await expect.poll(() => position().then(() => new Set(backend.lines()).size), within).toBe(180);

    const lines = backend.lines();
    for (const host of hosts) {
      const own = lines.filter((line) => line.startsWith(`${host} `));
      expect([...new Set(own)]).toEqual(texts(host, 0, 60));
      // Nothing before the position that was stored is sent again.
      expect(own.filter((line) => texts(host, 0, 20).includes(line))).toEqual(texts(host, 0, 20));
    }
    await expect.poll(position, within).toBeGreaterThanOrEqual(exported + 2 * hosts.length);
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
  },
);
