import { sql } from "drizzle-orm";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { findBlockPlaces } from "#functions/store/ingest/host-blocks.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { openEnvelopeStore, untilPast } from "#tests/support/stored-envelopes.ts";

const test = await useTestCore({ now: Date.now() });
const { enroll } = await createTestToken(test);
const host = await enroll("web-1");
const store = await openEnvelopeStore(test.database);
afterAll(() => store.close());

const get = async (query = "", { identityId } = host) => {
  const authorization = `Bearer ${await test.bridgeToken("auditor")}`;
  const url = `http://core.test/v1/collector/hosts/${identityId}/envelopes${query}`;
  return test.fetch(new Request(url, { headers: { authorization } }));
};
/** Opens the stream of a host; `next` returns the lines that have arrived once they are so many. */
const open = async (query: string, of = host) => {
  const { body } = await get(query, of);
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = "";
  const pump = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
    }
  };
  let isEnded = false;
  const pumping = pump().finally(() => {
    isEnded = true;
  });
  const lines = () => text.split("\n").filter((line) => line !== "");
  const payloads = () => lines().map((line) => atob(JSON.parse(line).payload));
  // The source of the stream may be waiting.
  const close = async () => {
    const closing = reader.cancel();
    await until(() => isEnded);
    await Promise.all([closing, pumping]);
  };
  return { payloads, text: () => text, isEnded: () => isEnded, close };
};

/** Advances core's clock until `done`. */
const until = async (done: () => boolean) => {
  await expect
    .poll(async () => {
      await test.clock.advance(1000);
      return done();
    })
    .toBe(true);
};

it("follows what is stored, whatever the order of its commits, and nothing twice", async () => {
  await store.lines(host.identity, ["before 1", "before 2"]);
  await untilPast(test.db);
  const stream = await open("?follow=true&limit=1");
  await until(() => stream.payloads().length === 1);
  await store.lines(host.identity, ["after 1"]);
  await until(() => stream.payloads().length === 2);
  // So the horizon moves up to the next transaction, while that is open.
  await test.db.execute(sql`select pg_current_xact_id()`);
  // A block that was received before, and is committed after another one.
  await test.database.connect().db.transaction(async (tx) => {
    await tx.execute(sql`insert into ingest_block select host_id, queue_id, 900, 900, envelopes, kinds, raw_bytes, payload_bytes, observed_from,
      observed_to, received_at - interval '10 seconds', digest, encoding, data from ingest_block where first_sequence = 3`);
    await store.lines(host.identity, ["after 2"]);
    // The horizon waits for the open transaction: all that comes is the line of ten seconds without others.
    const before = stream.text();
    await until(() => stream.text() !== before);
    expect(stream.text()).toBe(`${before}\n`);
  });
  await until(() => stream.payloads().length === 4);
  const end = stream.text();
  await until(() => stream.text() !== end);
  expect(stream.payloads()).toEqual(["before 2", "after 1", "after 1", "after 2"]);
  await stream.close();
});

it("misses nothing that waits for an old transaction, or that a core whose clock is behind has stored", async () => {
  let now = Date.now();
  const late = await openEnvelopeStore(test.database, () => now);
  const another = await enroll("web-2");
  const receivedAgo = async (minutes: number, line: string) => {
    now = Date.now() - minutes * 60_000;
    await late.lines(another.identity, [line]);
  };
  await receivedAgo(30, "before");
  let stream: Awaited<ReturnType<typeof open>> | undefined;
  await test.database.connect().db.transaction(async (tx) => {
    await tx.execute(sql`select pg_current_xact_id()`);
    await receivedAgo(20, "since");
    stream = await open("?follow=true", another);
    await until(() => stream?.payloads().length === 1);
  });
  await until(() => stream?.payloads().length === 2);
  await receivedAgo(10, "slow clock");
  await until(() => stream?.payloads().length === 3);
  expect(stream?.payloads()).toEqual(["before", "since", "slow clock"]);
  await stream?.close();
  await late.close();
});

it("sends an empty line each ten seconds, and ends with its reader", async () => {
  const stream = await open("?follow=true&grep=nothing%20has%20this");
  await until(() => stream.text() === "\n\n");
  // Eight streams of one operator are open at most.
  await stream.close();
  const streams = [];
  for (let n = 0; n < 8; n++) {
    const another = await open("?follow=true&limit=1");
    await until(() => another.payloads().length === 1);
    streams.push(another);
  }
  expect((await get()).status).toBe(429);
  for (const another of streams) await another.close();
  await expect
    .poll(async () => {
      await test.clock.advance(1000);
      return (await get()).status;
    })
    .toBe(200);
});

it.each([
  ["is suspended", sql`status = 'suspended'`, sql`status = 'active'`],
  [
    "loses audit",
    sql`scopes = array_remove(scopes, 'audit')`,
    sql`scopes = array_append(scopes, 'audit')`,
  ],
])("A3: ends within ten seconds when the operator %s", async (_, change, undo) => {
  const another = await enroll(`web-${test.clock.now()}`);
  const stream = await open("?follow=true", another);
  // Longer than between two look-ups.
  for (let n = 1; n <= 15; n++) {
    await store.lines(another.identity, [`line ${n}`]);
    await until(() => stream.payloads().length === n);
  }
  const update = (set: typeof change) =>
    test.db.execute(sql`update person set ${set} where user_id = ${test.people.auditor.userId}`);
  await update(change);
  onTestFinished(async () => void (await update(undo)));
  const since = test.clock.monotonic();
  await until(stream.isEnded);
  expect(test.clock.monotonic() - since).toBeLessThan(30_000);
  await store.lines(another.identity, ["not for them"]);
  expect(stream.payloads()).toHaveLength(15);
});

it("finds blocks by the index on host and time of receipt", async () => {
  await test.db.execute(sql`insert into ingest_block select 'host-' || n % 500, queue_id, n, n, 1, kinds, raw_bytes, payload_bytes, null, null,
    received_at - n * interval '1 second', digest, encoding, data from ingest_block, generate_series(1, 20000) n where first_sequence = 3`);
  await test.db.execute(sql`analyze ingest_block`);
  const range = { hostId: "host-7", from: null, to: null, kind: null };
  const [place] = await findBlockPlaces(test.db, range, { order: "newest", limit: 1 });
  for (const search of [
    { order: "newest", limit: 500 },
    { order: "newest", limit: 500, beyond: place },
    { order: "oldest", limit: 500, upTo: place, xids: { from: null, to: 1n << 40n } },
  ] as const) {
    let plan = "";
    const explaining = {
      execute: async (query: ReturnType<typeof sql>) => {
        plan = JSON.stringify(await test.db.execute(sql`explain ${query}`));
        return [];
      },
    } as unknown as typeof test.db;
    await findBlockPlaces(explaining, range, search);
    expect(plan).toMatch(/Index Scan[^}]*ingest_block_default_host_id_received_at_idx/);
    expect(plan).not.toContain("Seq Scan");
  }
});
