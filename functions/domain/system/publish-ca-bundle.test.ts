import { hash } from "node:crypto";
import { desc, gt } from "drizzle-orm";
import { expect, it } from "vitest";
import { caBundle } from "#drizzle/schema/deployment.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { createTestToken, sendHeartbeat, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createBundlePublisher } from "./publish-ca-bundle.ts";

const contentOf = (pem: string) => ({ pem, sha256: hash("sha256", pem, "hex") });

/** A database, and cores on it whose files have a bundle of the channel ingest. */
const startFleet = async () => {
  const test = await useTestCore();
  const { clock, db, core } = test;
  const { enroll } = await createTestToken(test);
  const startCore = (pem: string, channel: CaChannel = "ingest") => {
    let content = contentOf(pem);
    const { publish, warning } = createBundlePublisher(core, { channel, current: () => content });
    const put = (next: string) => {
      content = contentOf(next);
      return publish();
    };
    return { publish, warning, put };
  };
  return {
    ...test,
    enroll,
    startCore,
    /** Reports the number of the host's bundle. */
    report: async (host: TestCollector, ingest: number) => {
      await clock.advance(15_000);
      const ca_bundles = { ingest, management: null, pinned: false };
      expect((await sendHeartbeat(test, host, { ca_bundles })).status).toBe(200);
    },
    published: async () =>
      (await db.select().from(caBundle).orderBy(desc(caBundle.number))).map(
        ({ number, pem }) => `${number} ${pem}`,
      ),
  };
};

it("publishes what a file has at the first start and each change of it, audited", async () => {
  const fleet = await startFleet();
  const core = fleet.startCore("old");
  expect(await core.publish()).toEqual({ channel: "ingest", published: 1 });
  expect(await core.publish()).toBeUndefined();
  expect(await core.put("old and new")).toEqual({ channel: "ingest", published: 2 });
  expect(await fleet.startCore("another", "management").publish()).toMatchObject({ published: 1 });
  expect(await fleet.core.caBundles.findNumbers()).toEqual({ ingest: 2, management: 1 });
  expect((await fleet.core.caBundles.find()).ingest).toEqual({
    number: 2,
    ...contentOf("old and new"),
    published_at: fleet.clock.iso(),
  });
  const events = await fleet.events("action=ca_bundle.publish&target=ingest");
  expect(events).toMatchObject([
    { actor: { type: "system" }, target: { type: "ca_bundle", id: "ingest" }, reason_code: null },
    { details: { number: 1, sha256: contentOf("old").sha256 } },
  ]);
});

it("publishes a file once, however many cores start or see it change at once", async () => {
  const fleet = await startFleet();
  const cores = Array.from({ length: 10 }, () => fleet.startCore("old"));
  const done = await Promise.all(cores.map(({ publish }) => publish()));
  expect(done.filter((each) => each !== undefined)).toEqual([{ channel: "ingest", published: 1 }]);
  await Promise.all(cores.map(({ put }) => put("new")));
  expect(await fleet.published()).toEqual(["2 new", "1 old"]);
  expect(cores.map(({ warning }) => warning())).toEqual(cores.map(() => undefined));
});

it("publishes nothing of a replica that starts with an older bundle, and names it until it has the newest", async () => {
  const fleet = await startFleet();
  const core = fleet.startCore("old");
  await core.publish();
  await core.put("new");
  const replica = fleet.startCore("old");
  for (let tick = 0; tick < 3; tick += 1) expect(await replica.publish()).toBeUndefined();
  const warning = "the file has an older CA bundle than number 2, which hosts get";
  expect(replica.warning()).toBe(warning);
  expect(fleet.log.lines.filter(({ message }) => message === warning)).toHaveLength(1);
  expect(await replica.put("new")).toBeUndefined();
  expect([replica.warning(), await fleet.published()]).toEqual([undefined, ["2 new", "1 old"]]);
  // An operator undoes the change where cores run.
  expect(await core.put("old")).toMatchObject({ published: 3 });
});

it("publishes a change that it saw while the database was away", async () => {
  const { core, published } = await startFleet();
  let isAway = false;
  const transaction: typeof core.db.transaction = (run) =>
    isAway ? Promise.reject(new Error("away")) : core.db.transaction(run);
  const db = new Proxy(core.db, {
    get: (of, name) => (name === "transaction" ? transaction : Reflect.get(of, name)),
  });
  let content = contentOf("old");
  const { publish } = createBundlePublisher(
    { ...core, db },
    { channel: "ingest", current: () => content },
  );
  await publish();
  content = contentOf("new");
  await publish();
  // The same content was published before: only the change makes it due.
  content = contentOf("old");
  isAway = true;
  await expect(publish()).rejects.toThrow("away");
  isAway = false;
  await publish();
  expect(await published()).toEqual(["3 old", "2 new", "1 old"]);
});

it("Q12: numbers a bundle above what most hosts report after a restore, and only then", async () => {
  const fleet = await startFleet();
  const hosts = [await fleet.enroll("one"), await fleet.enroll("two"), await fleet.enroll("three")];
  const [one, two, three] = hosts as [TestCollector, TestCollector, TestCollector];
  const core = fleet.startCore("old");
  await core.publish();
  for (const pem of ["b", "c", "d"]) await core.put(pem);
  await fleet.report(one, 4);
  await fleet.report(two, 4);
  await fleet.report(three, 2);
  await fleet.db.delete(caBundle).where(gt(caBundle.number, 2));
  await fleet.clock.advance(60_000);
  // The restored database does not know the content.
  expect(await core.publish()).toMatchObject({ published: 5 });
  await fleet.db.delete(caBundle).where(gt(caBundle.number, 2));
  const restarted = fleet.startCore("b");
  expect(await restarted.publish()).toMatchObject({ published: 5 });
  expect(await fleet.lastEvent("action=ca_bundle.publish")).toMatchObject({
    reason_code: "hosts_report_higher",
  });
  await fleet.clock.advance(60_000);
  expect(await restarted.publish()).toBeUndefined();
});

it("V2: lets no host raise numbers out of the reach of others", async () => {
  const fleet = await startFleet();
  const evil = await fleet.enroll("evil");
  const revoked = await fleet.enroll("revoked");
  const core = fleet.startCore("1");
  await core.publish();
  for (const number of [2 ** 31, 1_002, 102]) {
    await fleet.report(evil, number);
    await fleet.clock.advance(60_000);
    expect(await core.publish()).toBeUndefined();
  }
  for (const name of ["a", "b", "c"]) await fleet.report(await fleet.enroll(name), 1);
  for (const number of [2 ** 31, 2 ** 53 - 1, 1_002, 102]) {
    await fleet.report(evil, number);
    await fleet.clock.advance(60_000);
    expect(await core.publish()).toBeUndefined();
  }
  expect(await core.put("2")).toMatchObject({ published: 2 });
  await fleet.report(evil, 2);
  await fleet.report(revoked, 50);
  await fleet.revoke(revoked.identityId);
  expect(await core.put("3")).toMatchObject({ published: 3 });
  await fleet.report(evil, 103);
  expect(await core.put("4")).toMatchObject({ published: 104 });
});
