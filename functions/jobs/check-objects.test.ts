import { beforeEach, expect, it, onTestFinished } from "vitest";
import { claimStore } from "#functions/objects/claim-store.ts";
import { ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { objectsCheck } from "#functions/ops/checks.ts";
import { readLineageName } from "#functions/store/database/lineage.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { createMemoryStore, type MemoryStore } from "#tests/fakes/object-store.ts";
import { useTestCore } from "#tests/support/core.ts";
import { findStored, openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { createObjectWriter } from "../ingest/object-writer.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { countGapHosts } from "../store/ingest/gaps.ts";
import { createObjectReader } from "../store/ingest/object-data.ts";
import { noteStore } from "../store/ingest/objects.ts";
import { checkObjects, describeFaults, type StoreFaults } from "./check-objects.ts";

const test = await useTestCore();
const { db, sql } = test.database.connect();
await sql`insert into deployment (tenant_id, created_at) values (gen_random_uuid(), now())`;
let store: MemoryStore;
let log: ReturnType<typeof createTestLog>;
let envelopes: Awaited<ReturnType<typeof openEnvelopeStore>>;
const gaps: bigint[] = [];
beforeEach(async () => {
  await sql.unsafe(
    "truncate ingest_object, ingest_store, ingest_object_damage, ingest_block, ingest_cursor, ingest_lost_range, ingest_gap",
  );
  store = createMemoryStore();
  log = createTestLog();
  gaps.length = 0;
  const lineage = await readLineageName(db);
  await claimStore(store, { lineage, hasObjects: false });
  const writer = createObjectWriter({
    db,
    store,
    storeId: await noteStore(db, "memory:/"),
    lineage,
    clock: systemClock,
    entropy: systemEntropy,
    observe: { objectWrite: () => undefined },
  });
  envelopes = await openEnvelopeStore(test.database, Date.now, writer);
  const opened = envelopes;
  onTestFinished(() => opened.close());
});

const checkFrom = (open: (location: string) => Promise<MemoryStore>, faults?: StoreFaults) =>
  checkObjects(
    {
      db,
      log,
      clock: systemClock,
      entropy: systemEntropy,
      objects: createObjectReader({ db, codec: zstdCodec, open }),
      observe: { gap: (sequences) => void gaps.push(sequences), objects: () => undefined },
    },
    faults,
  );
const check = (opened: MemoryStore = store) => checkFrom(async () => opened);
const telemetry = () => [...store.objects.keys()].filter((name) => name.startsWith("o/"));
const events = async () =>
  (
    await sql`select details from audit_event where action = 'ingest.lost'
      and occurred_at > now() - interval '1 minute' order by details->>'host_id'`
  ).map(({ details }) => details);
const age = (minutes: number) =>
  sql`update ingest_object set received_at = received_at - make_interval(mins => ${minutes})`;
const checkAgain = () => sql`update ingest_store set checked_at = null`;

it("names host and range of each object that the store has lost or has not whole, once", async () => {
  for (const host of ["whole", "missing", "missing", "short", "late"])
    await envelopes.lines(host, ["a line"]);
  expect(await check()).toBeUndefined();
  const [, missing = "", second = "", short = "", late = ""] = telemetry();
  for (const name of [missing, second]) store.objects.delete(name);
  store.objects.set(short, Buffer.of(1));
  const list: typeof store.list = async (query) =>
    (await store.list(query)).filter(({ name }) => name !== late);
  await checkAgain();
  expect(await check({ ...store, list })).toEqual({ objects: 3, hosts: 2, envelopes: 3 });
  expect(await events()).toMatchObject([
    { host_id: "missing", from: "1", through: "2", ranges: 1, envelopes: 2 },
    { host_id: "short", from: "1", through: "1", ranges: 1, envelopes: 1 },
  ]);
  expect(gaps).toEqual([2n, 1n]);
  expect(await sql`select host_id, records_max::int as lost from ingest_gap order by 1`).toEqual([
    { host_id: "missing", lost: 2 },
    { host_id: "short", lost: 1 },
  ]);
  expect(
    await sql`select host_id, from_sequence::int as from, through_sequence::int as through from ingest_lost_range order by 1`,
  ).toEqual([
    { host_id: "missing", from: 1, through: 2 },
    { host_id: "short", from: 1, through: 1 },
  ]);
  await checkAgain();
  expect(await check()).toBeUndefined();
  expect(await objectsCheck({ db, clock: systemClock }, () => []).find()).toEqual({
    status: "warning",
    detail:
      "The store has lost 3 stored records with 3 objects in the last week: they are missing, or have other bytes.",
  });
  // A loss of the store is no sign of a restored database.
  expect(await countGapHosts(db, new Date(0))).toBe(0);
});

it("names a store that is unavailable, and compares the others", async () => {
  const earlier = await noteStore(db, "memory:/earlier");
  await sql`insert into ingest_object (id, nonce, store_id, state, changed_at, received_at) overriding system value
    values (1, '\\x00', ${earlier}, 1, now(), now() - interval '1 hour')`;
  await sql`insert into ingest_object_damage (object_id, nonce, noticed_at) values (1, '\\x00', now())`;
  await envelopes.lines("a", ["a line"]);
  await check();
  const [name = ""] = telemetry();
  store.objects.delete(name);
  await age(3);
  const faults: StoreFaults = new Map();
  const open = async (location: string) => {
    if (location === "memory:/") return store;
    throw new ObjectStoreUnavailable("the bucket fails GET: HTTP 403, AccessDenied");
  };
  await expect(checkFrom(open, faults)).rejects.toThrow(
    "the store memory:/earlier is unavailable: the bucket fails GET: HTTP 403, AccessDenied",
  );
  expect(await events()).toContainEqual(expect.objectContaining({ host_id: "a", envelopes: 1 }));
  const readiness = objectsCheck({ db, clock: systemClock }, () => describeFaults(faults));
  expect(await readiness.find()).toEqual({
    status: "warning",
    detail:
      "The store memory:/earlier is unavailable: the bucket fails GET: HTTP 403, AccessDenied. The store has lost 1 stored records with 1 objects in the last week: they are missing, or have other bytes.",
  });
  await checkFrom(async () => store, faults);
  expect(describeFaults(faults)).toEqual([]);
});

it("repeats a comparison that failed, within a minute", async () => {
  await envelopes.lines("a", ["a line"]);
  const list = () => Promise.reject(new ObjectStoreUnavailable("the bucket fails GET"));
  await expect(check({ ...store, list })).rejects.toThrow("the bucket fails GET");
  const { lists } = store;
  await check();
  expect(store.lists).toBe(lists + 1);
});

it("records what a reader finds changed, and forgets what is whole", async () => {
  for (const host of ["changed", "fine"]) await envelopes.lines(host, ["a line"]);
  await check();
  const [name = ""] = telemetry();
  const bytes = Buffer.from(store.objects.get(name) ?? []);
  store.objects.set(
    name,
    Buffer.from(bytes.toString("latin1").replace("a line", "b line"), "latin1"),
  );
  expect(await check()).toBeUndefined();
  const reader = createObjectReader({ db, codec: zstdCodec, open: async () => store });
  await expect(findStored(sql, reader)).rejects.toThrow("another digest");
  expect(await sql`select count(*)::int from ingest_object_damage`).toEqual([{ count: 1 }]);
  await sql`insert into ingest_object_damage (object_id, nonce, noticed_at)
    select id, nonce, now() from ingest_object where state = 1 on conflict do nothing`;
  expect(await check()).toEqual({ objects: 1, hosts: 1, envelopes: 1 });
  expect(await sql`select count(*)::int from ingest_object_damage`).toEqual([{ count: 1 }]);
});

it("compares all objects within a minute of a time when the store was set back, else once a day, on one core", async () => {
  for (const host of ["old", "new"]) await envelopes.lines(host, ["a line"]);
  await check();
  const [old = "", recent = ""] = telemetry();
  store.objects.delete(old);
  const { lists } = store;
  // Neither is a minute old.
  expect(await check()).toBeUndefined();
  expect(store.lists).toBe(lists);
  await age(3);
  store.objects.delete(recent);
  expect(await check()).toEqual({ objects: 2, hosts: 2, envelopes: 2 });
  await envelopes.lines("third", ["a line"]);
  await sql`update ingest_store set checking_at = clock_timestamp(), checked_at = null`;
  const before = store.lists;
  await check();
  expect(store.lists).toBe(before);
  // A core that has ended while its clock was ahead does not hold others up.
  await sql`update ingest_store set checking_at = clock_timestamp() + interval '1 day'`;
  await check();
  expect(store.lists).toBe(before + 1);
});

it("records nothing as lost with a store that is not the database's, and finds objects whose names were deleted", async () => {
  await envelopes.lines("first", ["a line"]);
  await envelopes.lines("second", ["a line"]);
  const [first = "", second = ""] = telemetry();
  const recorded = await events();
  await expect(check(createMemoryStore())).rejects.toThrow("is it another store");
  expect(await events()).toEqual(recorded);
  const orphan = `${second}aa`;
  expect(first < orphan).toBe(true);
  store.objects.set(orphan, Buffer.of(1));
  await envelopes.lines("third", ["a line"]);
  await sql`update ingest_store set checking_at = null, checked_at = null`;
  await check();
  expect(
    await sql`select state from ingest_object where encode(nonce, 'hex') = ${orphan.slice(-18)}`,
  ).toEqual([{ state: 0 }]);
});
