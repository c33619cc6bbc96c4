/* What is adopted of objects behind one that is missing, and what is recorded as lost. */
import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { claimOf, queueId, session, through, useObjectCores } from "#tests/support/object-cores.ts";

const test = useObjectCores();
const { startCore, send, open, stored, gaps, passHour, passDay, dump } = test;

/** A host, and what an object has of its queue: behind a sequence, and up to one. */
type Part = readonly [hostId: string, previous: number, last: number];

/** Writes an object, as a core does that has not committed it. */
const writeObject = async (
  core: Awaited<ReturnType<typeof startCore>>,
  parts: readonly Part[],
  { isSettled = false } = {},
) => {
  const queues = parts.map(([hostId, previous, last]) => ({
    hostId,
    queueHex: queueId.toHex(),
    initial: BigInt(previous),
    cursor: BigInt(last),
    session: session(2).toHex(),
    isNew: false,
    counts: { stored: 0, rejected: last - previous, discarded: 0 },
  }));
  await core.writer.write({ queues, blocks: [], isSettled, now: systemClock.now() });
};
const cursors = async () =>
  (await test.sql`select host_id, cursor::int from ingest_cursor order by 1`).map(
    ({ host_id, cursor }) => `${host_id} ${cursor}`,
  );

it("K11: adopts what follows a missing object where a host knows that it was acknowledged", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  for (const [previous, last] of [
    [4, 6],
    [6, 8],
  ] as const)
    await writeObject(core, [
      ["a", previous, last],
      ["offline", previous, last],
    ]);
  await restore();
  await core.adopter.recover();
  expect(await cursors()).toContain("a 2");
  await core.adopter.recover([claimOf("a", 8)]);
  expect(await cursors()).toEqual(expect.arrayContaining(["a 8", "offline 0"]));
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
});

it("K11: skips what no object has only up to the first object behind it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await writeObject(core, [["a", 4, 6]]);
  await writeObject(core, [["a", 6, 8]], { isSettled: true });
  await restore();
  await core.adopter.recover();
  expect(await cursors()).toEqual(["a 8"]);
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
});

/** Deletes the object that was written as the given one. */
const deleteObject = (index: number) =>
  test.store.objects.delete([...test.store.objects.keys()][index] ?? "");

/** Lets the database lose a queue, and the store what the queue begins with; returns a core on them. */
const forgetBeginning = async ({ isNoticed = true } = {}) => {
  const core = await startCore();
  // Draws names that the restored database knows.
  await send(core, "b", 0, 1);
  const restore = await dump({ isNoticed });
  await open(core, "a", 0, 1);
  for (const previous of [0, 2, 4]) await send(core, "a", previous, previous + 2, 1);
  deleteObject(1);
  await restore();
  return startCore();
};

it("K11: takes the beginning of an unknown queue for missing once its host claims it", async () => {
  const core = await forgetBeginning();
  await core.adopter.recover();
  expect(await cursors()).toEqual(["a 0", "b 1"]);
  await core.adopter.recover([claimOf("a", 6, { ackedBefore: 1n })]);
  expect(await open(core, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual([...through("a", 6).slice(2), "b 1"]);
  expect(await gaps()).toEqual([{ host: "a", from: "2", through: "2" }]);
});

it.each([{ isNoticed: true }, { isNoticed: false }])(
  "K11: records after a day as lost the beginning of a queue whose host does not come: %o",
  async (options) => {
    const core = await forgetBeginning(options);
    await core.adopter.recover();
    expect(await stored()).toEqual(["b 1"]);
    await passDay();
    await core.adopter.recover();
    expect(await stored()).toEqual([...through("a", 6).slice(2), "b 1"]);
    expect(await gaps()).toEqual([{ host: "a", from: "1", through: "2" }]);
    expect(await open(core, "a", 6, 3)).toMatchObject({ cursor: 6n });
  },
);

it("K11: adopts after a day all that follows a missing object, although the last objects are younger", async () => {
  const core = await forgetBeginning({ isNoticed: false });
  await passDay({ objects: 3 });
  await core.adopter.recover();
  expect(await stored()).toEqual([...through("a", 6).slice(2), "b 1"]);
  expect(await gaps()).toEqual([{ host: "a", from: "1", through: "2" }]);
});

/** Lets a session send after another one, of which a restored database knows nothing; returns a core on that. */
const forgetSession = async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const restore = await dump({ isNoticed: false });
  await open(core, "a", 2, 2);
  for (const previous of [2, 4, 6]) await send(core, "a", previous, previous + 2, 2);
  await restore();
  return startCore();
};
const forked = { outcome: "session_superseded" };

it("K11: records after a day as lost what is missing before the objects of another session", async () => {
  const core = await forgetSession();
  deleteObject(1);
  await core.adopter.recover();
  expect(await cursors()).toEqual(["a 2"]);
  await passDay();
  await core.adopter.recover();
  expect(await stored()).toEqual([...through("a", 2), "a 5", "a 6", "a 7", "a 8"]);
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
  expect(await send(core, "a", 8, 9, 1)).toMatchObject(forked);
  expect(await open(core, "a", 8, 3)).toMatchObject({ cursor: 8n });
});

it("Q12: adopts after a day the rest of an object of which another session has sent a part", async () => {
  const core = await forgetSession();
  await send(core, "a", 2, 3, 1);
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 3));
  await passDay();
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 8));
  expect(await gaps()).toEqual([]);
  expect(await send(core, "a", 8, 9, 1)).toMatchObject(forked);
});

it("K11: adopts after a day what a younger object says was committed", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  await writeObject(core, [["a", 4, 6]]);
  await writeObject(core, [["a", 6, 8]], { isSettled: true });
  await passHour();
  await passDay({ objects: 2 });
  await core.adopter.recover();
  expect(await cursors()).toEqual(["a 8"]);
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
});

it("K11: names after a day what was not committed as far as core knows, and adopts nothing of it", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  await writeObject(core, [["a", 4, 6]]);
  await core.adopter.recover();
  await passDay();
  await core.adopter.recover();
  await core.adopter.recover();
  expect(await cursors()).toEqual(["a 2"]);
  expect(await gaps()).toEqual([]);
  expect(test.log.lines.filter(({ message }) => message.startsWith("not adopted"))).toMatchObject([
    {
      fields: { host_id: "a", cursor: "2", from: "5", through: "6" },
      message: "not adopted: no object has what comes before it",
    },
  ]);
});

it("K11: takes nothing of a queue for missing that waits for another queue of its object", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  // The object before this one is missing.
  await writeObject(
    core,
    [
      ["a", 4, 6],
      ["b", 0, 2],
    ],
    { isSettled: true },
  );
  await writeObject(core, [["b", 2, 4]], { isSettled: true });
  await restore();
  await core.adopter.recover();
  expect(await test.counts()).toMatchObject([
    { host_id: "a", cursor: "6", range_rejected: "2", range_lost: "2" },
    { host_id: "b", cursor: "4", range_rejected: "4", range_lost: "0" },
  ]);
});

it("K11: takes nothing for missing that an object has whose name is not an hour old", async () => {
  const one = await startCore();
  const two = await startCore();
  await send(one, "a", 0, 2);
  const restore = await dump();
  await send(two, "a", 2, 4);
  await send(one, "a", 4, 6);
  await restore();
  // The names of the first core are in the dump, those of the second are not.
  await passHour();
  await (await startCore()).adopter.settleOld();
  expect(await stored()).toEqual(through("a", 6));
  expect(await gaps()).toEqual([]);
});
