import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { updateReportedLabels } from "../certificate/identities.ts";
import { deleteUnusedLabelSets } from "./labels.ts";

const database = await useTestDatabase();
const { db } = database.connect();
await seedFleet(db, { count: 4, now: new Date("2026-06-01T12:00:00Z") });

const identityId = (n: number) => `01920000-0000-7000-8000-00000000000${n}`;
const report = (
  n: number,
  labels: Record<string, string> | null,
  on: Parameters<typeof updateReportedLabels>[0] = db,
) => updateReportedLabels(on, { identityId: identityId(n), labels });
const setOf = async (n: number) =>
  (
    await db.execute(
      sql`select label_set_id as id from fleet where identity_id = ${identityId(n)}::uuid`,
    )
  )[0]?.id;
const setsWith = async (key: string) =>
  (
    await db.execute(
      sql`select labels from label_set where labels->>${key} is not null order by id`,
    )
  ).map(({ labels }) => labels);

it("are stored once, whatever the order of the keys, and each host refers to its own", async () => {
  await Promise.all([
    report(1, { env: "a", team: "b" }),
    report(2, { team: "b", env: "a" }),
    report(3, { env: "a" }),
  ]);
  expect(await setOf(1)).toBe(await setOf(2));
  expect(await setOf(3)).not.toBe(await setOf(1));
  await report(3, null);
  expect(await setOf(3)).toBe(0);
});

it("are deleted once no host has them", async () => {
  await report(1, { gone: "1" });
  await report(1, { gone: "2" });
  expect(await deleteUnusedLabelSets(db)).toBeGreaterThan(0);
  expect(await setsWith("gone")).toEqual([{ gone: "2" }]);
  expect(await deleteUnusedLabelSets(db)).toBe(0);
  expect((await db.execute(sql`select from label_set where id = 0`)).length).toBe(1);
});

it("are kept while a transaction that has not committed gives one to a host", async () => {
  await report(2, { late: "1" });
  const set = await setOf(2);
  await report(2, null);
  await database.connect().db.transaction(async (tx) => {
    await report(3, { late: "1" }, tx);
    await deleteUnusedLabelSets(db);
  });
  expect(await setOf(3)).toBe(set);
  expect(await setsWith("late")).toEqual([{ late: "1" }]);
});

it("do not touch the host's row when a heartbeat repeats the labels", async () => {
  await report(4, { env: "a" });
  const version = sql`select xmin::text as version from collector_identity where id = ${identityId(4)}::uuid`;
  const before = await db.execute(version);
  await report(4, { env: "a" });
  expect(await db.execute(version)).toEqual(before);
});
