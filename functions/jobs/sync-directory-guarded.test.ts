import { describe, expect, it } from "vitest";
import { adminGroup, type LabUser, usualDirectory } from "#scripts/lab/directory-people.ts";
import { people } from "#scripts/lab/people.ts";
import { crowd, setUpDirectorySync } from "#tests/support/access/set-up-directory-sync.ts";

const fixture = await setUpDirectorySync();
const { directory, events, peopleInDatabase, status, stored, sync } = fixture;

it("Y2: the guard holds a mass absence until three syncs agree, and applies suspensions and lost groups at once", async () => {
  directory.set({ users: crowd(17) });
  await sync();
  const left = [
    { ...usualDirectory.users[0], suspended: true } as LabUser,
    ...usualDirectory.users.slice(1),
  ];
  directory.set({
    users: left,
    groups: [{ email: adminGroup, members: ["20", people.auditor.subject] }],
  });
  expect(await sync()).toMatchObject({ outcome: "held", held: 17 });
  expect(
    (await peopleInDatabase()).filter(([, personStatus]) => personStatus === "active").length,
  ).toBe(19);
  expect((await peopleInDatabase())[0]).toEqual(["ada@example.test", "suspended", []]);
  expect((await fixture.test.auditor.read("/v1/whoami")).scopes).toContain("admin");
  const report = await fixture.test.auditor.read("/v1/directory/status");
  expect(report).toMatchObject({
    last_sync: { outcome: "held", reason_code: "mass_absence" },
    counts: { absences_held: 17 },
  });
  expect(await sync()).toMatchObject({ outcome: "held" });
  expect(await sync()).toMatchObject({ outcome: "synced", changed: 17 });
  expect(
    (await peopleInDatabase()).filter(([, personStatus]) => personStatus === "absent").length,
  ).toBe(17);
  expect(fixture.observed).toEqual(["synced", "held", "held", "synced"]);
  const { body } = await fixture.test.auditor.get("/v1/audit-events?action=directory.refuse");
  expect(body.items).toMatchObject([
    { reason: "mass_absence", details: { held: 17, users: 3 } },
    { reason: "mass_absence", details: { held: 17, users: 3 } },
  ]);
});

describe("several cores", () => {
  it("sync one at a time; a core that boots later syncs again, and at an interval only the first does", async () => {
    const reading = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const slow = sync({
      read: async () => {
        reading.resolve();
        await release.promise;
        return { users: [], admins: null, auditors: null };
      },
    });
    slow.catch(() => undefined);
    await reading.promise;
    expect(await sync({ read: () => expect.fail("two read at once") })).toBeUndefined();
    release.resolve();
    await expect(slow).rejects.toThrow("no users");

    expect(await sync()).toMatchObject({ outcome: "synced" });
    await fixture.test.clock.advance(1_700_000);
    expect(await sync({ isFirst: false })).toBeUndefined();
    expect(await sync({ isFirst: true })).toMatchObject({ outcome: "synced" });
    await fixture.test.clock.advance(1_800_000);
    expect(await sync({ isFirst: false })).toMatchObject({ outcome: "synced" });
  });

  it("a slow snapshot does not undo a newer one of another core", async () => {
    const exclusively = <Result>(work: () => Promise<Result>) => work();
    const report = await sync({
      exclusively,
      read: async () => {
        await sync({ exclusively });
        return {
          users: [
            { id: "9", primaryEmail: "x@y", displayName: "", suspended: false, archived: false },
          ],
          admins: null,
          auditors: null,
        };
      },
    });
    expect(report).toMatchObject({ outcome: "superseded" });
    expect((await peopleInDatabase()).map(([email]) => email)).not.toContain("x@y");
  });
});

// After the people, and after all but the audit event.
it.each(["authentication_identity", "audit_event"])(
  "Y4: a database connection that is killed while a snapshot is written at %s leaves nothing of it, and the next sync writes all",
  async (table) => {
    await sync();
    const before = await stored();
    directory.set({ users: crowd(5).slice(1) });
    // Writes to the table wait for a lock that this test holds, and die waiting.
    const { sql } = fixture.test.database.connect();
    await sql.begin(async (blocker) => {
      await blocker.unsafe(`lock table ${table} in share row exclusive mode`);
      const killed = sync();
      killed.catch(() => undefined);
      const waiting = `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and application_name = 'svc-server'`;
      await expect.poll(async () => (await sql.unsafe(waiting)).length).toBe(1);
      await expect(killed).rejects.toThrow();
    });
    expect(await stored()).toEqual(before);
    expect(await status()).toMatchObject({
      last_sync: { outcome: "synced" },
      failures_in_a_row: 0,
    });
    expect((await events()).length).toBe(1);
    expect(fixture.observed).toEqual(["synced", "failed"]);
    await sync();
    expect((await peopleInDatabase()).length).toBe(8);
  },
);
