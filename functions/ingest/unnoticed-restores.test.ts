/* What is adopted of objects by what hosts claim, where core has not noticed that its database was restored. */
import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { startDatabaseProxy } from "#tests/fakes/tcp-proxy.ts";
import { claimOf, queueId, session, through, useObjectCores } from "#tests/support/object-cores.ts";

const test = useObjectCores();
const { startCore, send, open, stored, gaps, states, passHour, passDay, dump } = test;

/** Stores two records of each of two hosts and dumps the database; then both open their queues again. `restore` restores the dump. */
const startTwoHosts = async () => {
  const core = await startCore();
  for (const host of ["a", "b"]) {
    await open(core, host, 0, 1);
    await send(core, host, 0, 2, 1);
  }
  const restore = await dump({ isNoticed: false });
  for (const host of ["a", "b"]) await open(core, host, 2, 2);
  return { core, restore };
};

it("Q12: adopts for each host what it knows to be acknowledged, also of an object of several hosts", async () => {
  const { core, restore } = await startTwoHosts();
  await Promise.all([send(core, "a", 2, 4, 2), send(core, "b", 2, 5, 2)]);
  await Promise.all([send(core, "a", 4, 6, 2), send(core, "b", 5, 6, 2)]);
  const all = await stored();
  await restore();
  expect(await stored()).toEqual([...through("a", 2), ...through("b", 2)]);

  const next = await startCore();
  expect(await open(next, "a", 6, 3)).toMatchObject({ cursor: 6n });
  expect(await open(next, "b", 6, 3)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual(all);
  expect(await gaps()).toEqual([]);
  await passHour();
  await next.adopter.settleOld();
  expect(await stored()).toEqual(all);
});

it("Q12: adopts nothing for a fork, for another host, or beyond what the host has sent", async () => {
  const core = await startCore();
  for (const host of ["a", "b"]) {
    await open(core, host, 0, 1);
    await send(core, host, 0, 2, 1);
  }
  const restore = await dump({ isNoticed: false });
  for (const host of ["a", "b"]) {
    await open(core, host, 2, 2);
    await send(core, host, 2, 4, 2);
  }
  await restore();
  const before = await stored();
  const { recover } = (await startCore()).adopter;
  // Each claim has one fault: another history, an unknown session, records that were not sent, another queue.
  await recover([claimOf("a", 4, { sessionIds: [session(2)] })]);
  await recover([claimOf("a", 4, { sessionIds: [session(1), session(9)] })]);
  await recover([claimOf("a", 3)]);
  await recover([claimOf("a", 4, { queueId: session(7) })]);
  expect(await stored()).toEqual(before);
  await recover([claimOf("a", 4)]);
  expect(await stored()).toEqual([...through("a", 4), ...through("b", 2)]);
  await recover([claimOf("a", 4), claimOf("a", 9_000_000)]);
  expect(await stored()).toEqual([...through("a", 4), ...through("b", 2)]);
});

it("Q12: adopts what a host claims while a copy of its queue claims the same queue", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const restore = await dump({ isNoticed: false });
  await open(core, "a", 2, 2);
  await send(core, "a", 2, 4, 2);
  await restore();
  // The copy has left the queue, and core has told it how far that is.
  const copy = claimOf("a", 4, { sessionIds: [session(8), session(7)] });
  await (await startCore()).adopter.recover([claimOf("a", 4), copy]);
  expect(await stored()).toEqual(through("a", 4));
});

/** Lets a session send and another one after it, of which a restored database knows only the first; returns a core on that. */
const forgetSession = async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const restore = await dump({ isNoticed: false });
  await open(core, "a", 2, 2);
  await send(core, "a", 2, 4, 2);
  await send(core, "a", 4, 6, 2);
  await restore();
  return startCore();
};
const forked = { outcome: "session_superseded" };

it("Q12: adopts what a host has left, as core had reported it, and lets no other session continue", async () => {
  const core = await forgetSession();
  // A disk was restored: the host has another queue, and knows nothing of the sessions that it had.
  const opened = await core.open(
    create(OpenSchema, {
      hostId: "a",
      queueId: session(7),
      sessionId: session(9),
      leftQueues: [{ queueId, storedThrough: 6n, ackedThrough: 1n }],
    }),
  );
  expect(opened.left).toMatchObject([{ cursor: 6n }]);
  expect(await stored()).toEqual(through("a", 6));
  expect(await gaps()).toEqual([]);
  expect(await send(core, "a", 6, 7, 1)).toMatchObject(forked);
});

it("Q12: adopts what a host that core takes for a copy knows to be acknowledged, before it records a loss", async () => {
  const core = await forgetSession();
  // The host has had too many sessions since to name that of the restored database.
  const opened = await core.open(
    create(OpenSchema, {
      hostId: "a",
      queueId,
      sessionId: session(9),
      previousSessionIds: [session(2)],
      ackedThrough: 6n,
      sentThrough: 6n,
    }),
  );
  expect(opened).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual(through("a", 6));
  expect(await gaps()).toEqual([]);
});

it("Q12: adopts what a host has left also of objects in which other hosts have something that waits", async () => {
  const { core, restore } = await startTwoHosts();
  await send(core, "a", 2, 4, 2);
  await Promise.all([send(core, "a", 4, 6, 2), send(core, "b", 2, 5, 2)]);
  await restore();
  await (await startCore()).adopter.recover([
    claimOf("a", 6, { sessionIds: [session(9)], isLeft: true }),
  ]);
  expect(await stored()).toEqual([...through("a", 6), ...through("b", 2)]);
});

it("Q12: adopts nothing of a left queue that core had not reported", async () => {
  const core = await forgetSession();
  await core.adopter.recover([claimOf("a", 3, { sessionIds: [session(9)], isLeft: true })]);
  expect(await stored()).toEqual(through("a", 2));
});

it("Q12: adopts at once a queue that the database does not know, though its host does not come", async () => {
  const core = await startCore();
  await send(core, "b", 0, 1);
  const restore = await dump({ isNoticed: false });
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  await open(core, "a", 2, 2);
  await send(core, "a", 2, 4, 2);
  await restore();
  const next = await startCore();
  await next.adopter.recover();
  expect(await stored()).toEqual([...through("a", 2), "b 1"]);
  expect(await open(next, "a", 4, 3)).toMatchObject({ cursor: 4n });
  expect(await stored()).toEqual([...through("a", 4), "b 1"]);
  expect(await gaps()).toEqual([]);
});

it("Q12: adopts after a day what waits for a host that does not come", async () => {
  const core = await forgetSession();
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 2));
  await passDay();
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 6));
  expect(await send(core, "a", 6, 7, 1)).toMatchObject(forked);
  expect(await open(core, "a", 6, 3)).toMatchObject({ cursor: 6n });
});

it("Q12: adopts nothing that was rejected because another copy of the queue has opened it", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const other = await startCore();
  await open(other, "a", 2, 2);
  const restore = await dump();
  expect(await send(core, "a", 2, 4, 1)).toMatchObject(forked);
  await expect.poll(() => test.store.objects.size).toBe(1);
  expect(await states()).toContain("2: 1");
  await restore();
  await core.adopter.recover();
  expect(await open(other, "a", 2, 3)).toMatchObject({ cursor: 2n });
});

it("D8: adopts although the connection of another core that adopts is lost", async () => {
  const { proxy, url } = await startDatabaseProxy(test.databaseUrl());
  const lost = await startCore({ adopterUrl: url, leaseMs: 300 });
  await send(lost, "a", 0, 2);
  const restore = await dump();
  await send(lost, "a", 2, 4);
  await restore();
  const { read } = test.store;
  const { promise: reading, resolve: reads } = Promise.withResolvers<void>();
  const { promise: silent, resolve: isSilent } = Promise.withResolvers<void>();
  test.store.read = async (name, range) => {
    reads();
    await silent;
    return read(name, range);
  };
  const adopting = lost.adopter.recover();
  await reading;
  proxy.swallowOpen();
  isSilent();
  await Promise.all([expect(adopting).rejects.toThrow(), (await startCore()).adopter.recover()]);
  expect(await stored()).toEqual(through("a", 4));
  await proxy.close();
});

it("Q12: adopts what an earlier store has, behind what the present one has", async () => {
  const earlier = await startCore({ location: "memory:/earlier" });
  await send(earlier, "a", 0, 2);
  const restore = await dump();
  await send(earlier, "a", 2, 4);
  await send(await startCore(), "a", 4, 6);
  await restore();
  const core = await startCore();
  expect(await open(core, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual(through("a", 6));
  expect(await gaps()).toEqual([]);
});

it("Q12: adopts what an earlier store has although names were drawn for the present one before", async () => {
  const earlier = await startCore({ location: "memory:/earlier" });
  await send(earlier, "a", 0, 2);
  const restore = await dump();
  await send(await startCore({ location: "memory:/earlier" }), "a", 2, 4);
  const core = await startCore();
  await send(core, "a", 4, 6);
  await restore();
  await send(await startCore(), "b", 0, 1);
  expect(await open(core, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual([...through("a", 6), "b 1"]);
  expect(await gaps()).toEqual([]);
});

it("Q12: adopts what an earlier store has that the restored database does not know", async () => {
  const restore = await dump();
  await send(await startCore({ location: "memory:/earlier" }), "a", 0, 2);
  const core = await startCore();
  await send(core, "a", 2, 4);
  await restore();
  await test.sql`delete from ingest_store where location = 'memory:/earlier'`;
  // A core that is started with it once makes it known again.
  await startCore({ location: "memory:/earlier" });
  await send(core, "b", 0, 1);
  expect(await open(core, "a", 4)).toMatchObject({ cursor: 4n });
  expect(await stored()).toEqual([...through("a", 4), "b 1"]);
  expect(await gaps()).toEqual([]);
});

it("Q12: lets hosts go on that lack nothing of an earlier store while that is unavailable", async () => {
  const earlier = await startCore({ location: "memory:/earlier" });
  await send(earlier, "a", 0, 2);
  const restore = await dump();
  await send(earlier, "a", 2, 4);
  const core = await startCore();
  await send(core, "a", 4, 6);
  await send(core, "b", 0, 3);
  await restore();
  const { list } = test.otherStore;
  const unavailable = () => Promise.reject(new ObjectStoreUnavailable("the bucket fails GET"));
  test.otherStore.list = unavailable;
  const next = await startCore();
  await send(next, "c", 0, 1);
  expect(await open(next, "b", 3)).toMatchObject({ cursor: 3n });
  await expect(open(next, "a", 6)).rejects.toThrow(
    "the earlier store memory:/earlier is unavailable: the bucket fails GET",
  );
  expect(await gaps()).toEqual([]);
  expect(await stored()).toEqual([...through("a", 2), ...through("b", 3), "c 1"]);
  test.otherStore.list = list;
  expect(await open(next, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual([...through("a", 6), ...through("b", 3), "c 1"]);
  // One that is gone for good is forgotten by hand.
  test.otherStore.list = unavailable;
  await test.sql`delete from ingest_store where location = 'memory:/earlier'`;
  expect(await open(next, "a", 7)).toMatchObject({ cursor: 7n });
  expect(await gaps()).toEqual([{ host: "a", from: "7", through: "7" }]);
});

it("Q12: lets hosts go on of which nothing is missing, while it adopts what others had", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await send(core, "a", 2, 4);
  await send(await startCore(), "a", 4, 6);
  await restore();
  const next = await startCore();
  const [, , last = ""] = test.store.objects.keys();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const { read } = test.store;
  test.store.read = async (name, range) => {
    if (name === last) await held;
    return read(name, range);
  };
  await send(next, "b", 0, 3);
  expect(await stored()).toContain("b 3");
  release();
  await next.adopter.recover();
  expect(await stored()).toEqual([...through("a", 6), ...through("b", 3)]);
});

it("Q12: takes nothing for missing that waits for its host, and adopts all where the store proves a restore", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const restore = await dump({ isNoticed: false });
  await open(core, "a", 2, 2);
  await send(core, "a", 2, 4, 2);
  // Under a name that only the lost state of the database has drawn.
  await send(await startCore(), "a", 4, 6, 2);
  await restore();
  const next = (await startCore()).adopter;
  const [, , third = ""] = test.store.objects.keys();
  await test.sql`
    insert into ingest_object (id, nonce, store_id, state, changed_at) overriding system value
    values (65, decode(${third.slice(-16)}, 'hex'), 1, 0, 'epoch')`;
  await next.recover();
  expect(await stored()).toEqual(through("a", 2));
  await test.sql`delete from ingest_object where id = 65`;
  await test.sql`select setval('ingest_object_id_seq', 64)`;
  await next.recover();
  expect(await stored()).toEqual(through("a", 6));
  expect(await gaps()).toEqual([]);
});

it("audits an adoption, and logs each range", async () => {
  const core = await startCore();
  const restore = await dump();
  await send(core, "a", 0, 12);
  await send(core, "b", 0, 2);
  await restore();
  await core.adopter.recover();
  const details = { objects: 2, hosts: 2, envelopes: 13, left: 0 };
  expect(await test.sql`select details from audit_event where action = 'ingest.adopt'`).toEqual([
    { details },
  ]);
  expect(test.log.lines).toContainEqual({
    level: "info",
    fields: { host_id: "a", queue_id: queueId.toHex(), from: "1", through: "12", envelopes: 11 },
    message: "a range of a queue was adopted",
  });
});
