import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asc, eq } from "drizzle-orm";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { authenticationIdentity, person } from "../../drizzle/schema/operator.ts";
import { createTestCore, type TestCore } from "../../tests/core.ts";
import { type DirectoryApi, startDirectoryApi } from "../../tests/fakes/directory-api.ts";
import {
  adminGroup,
  auditorGroup,
  type DirectoryUser,
  directoryDomain,
  usualDirectory,
} from "../../tests/fakes/directory-people.ts";
import { people } from "../../tests/people.ts";
import type { DirectoryObserver } from "../core.ts";
import { readGoogleDirectory } from "../directory/google-directory.ts";
import { parseServiceAccount } from "../directory/service-account.ts";
import { openDatabaseSocket } from "../node/database-socket.ts";
import { createDirectoryLock } from "../store/directory-lock.ts";
import { type DirectorySyncNeeds, syncDirectory } from "./sync-directory.ts";

const folder = await mkdtemp(join(tmpdir(), "svc-directory-"));
const directory: DirectoryApi = await startDirectoryApi({ pageSize: 7 });
const account = parseServiceAccount(await readFile(await directory.writeKeyFile(folder), "utf8"));
afterAll(async () => {
  await directory.close();
  await rm(folder, { recursive: true });
});

let test: TestCore;
let observed: unknown[];
beforeEach(async () => {
  test = await createTestCore();
  observed = [];
});
afterEach(async () => {
  directory.fail();
  directory.set(usualDirectory);
  await test.close();
});

const observer: DirectoryObserver = {
  ended: (outcome) => observed.push(outcome),
  stands: () => undefined,
};
const { signal } = new AbortController();
const sync = async (changes: Partial<DirectorySyncNeeds> & { isFirst?: boolean; stop?: AbortSignal } = {}) => {
  const { isFirst = true, stop = signal, ...needs } = changes;
  const read = (ending: AbortSignal) =>
    readGoogleDirectory({
      account,
      delegateEmail: "root@example.test",
      domain: directoryDomain,
      apiUrl: directory.url,
      signal: ending,
    });
  const exclusively = createDirectoryLock({ url: test.databaseUrl, openSocket: openDatabaseSocket });
  return syncDirectory({ ...test.core, read, exclusively, observe: observer, ...needs }, { isFirst, signal: stop });
};

const stored = () => test.db.select().from(person).orderBy(asc(person.primaryEmail), asc(person.userId));
const standings = async () =>
  (await stored()).map(({ primaryEmail, status, scopes }) => [primaryEmail, status, scopes]);
const status = async () => (await test.api("GET", "/v1/directory/status", { as: "admin" })).body;
const events = async () => {
  const { body } = await test.api<{ items: Record<string, unknown>[] }>("GET", "/v1/audit-events", { as: "admin" });
  return body.items.filter(({ action }) => String(action).startsWith("directory."));
};

/** Everybody of the tests, and as many others as said. */
const crowd = (others: number): DirectoryUser[] => [
  ...usualDirectory.users,
  ...Array.from({ length: others }, (_, at) => ({ id: `2${at}`, primaryEmail: `p${at}@example.test` })),
];

describe("a sync", () => {
  it("writes people, their status and scopes, and the provider's subject under the tenant; ids stay", async () => {
    directory.set({
      users: [
        ...usualDirectory.users,
        { id: "31", primaryEmail: "Barbara@Example.test", fullName: "Barbara Liskov", aliases: ["ada@example.test"] },
        { id: "32", primaryEmail: "left@example.test", suspended: true },
        { id: "33", primaryEmail: "guest@partner.test" },
      ],
      groups: [
        { email: adminGroup, members: [people.admin.subject, "32"] },
        { email: auditorGroup, members: ["leads@example.test"] },
        { email: "leads@example.test", members: [people.auditor.subject, "31"] },
      ],
    });
    expect(await sync()).toEqual({
      outcome: "synced",
      users: 6,
      added: 3,
      changed: 0,
      held: 0,
      suspectSetting: null,
    });
    expect(await standings()).toEqual([
      ["ada@example.test", "active", ["read", "audit", "admin"]],
      ["barbara@example.test", "active", ["read", "audit"]],
      ["edsger@example.test", "active", ["read"]],
      ["grace@example.test", "active", ["read", "audit"]],
      ["guest@partner.test", "unverified", []],
      ["left@example.test", "suspended", []],
    ]);
    const [ada, barbara] = await stored();
    expect(ada?.userId).toBe(people.admin.userId);
    const identities = await test.db
      .select()
      .from(authenticationIdentity)
      .where(eq(authenticationIdentity.subject, "31"));
    expect(identities).toEqual([{ tenantId: test.config.tenantId, subject: "31", userId: barbara?.userId }]);
    expect(observed).toEqual(["synced"]);
  });

  it("is told: outcome, age, counts, and who may do what since when", async () => {
    directory.set({ groups: [{ email: adminGroup, members: [people.admin.subject, people.reader.subject] }] });
    await sync();
    await test.clock.advance(90_000);
    expect(await status()).toEqual({
      last_sync: { finished_at: "2026-06-01T12:00:00.000Z", outcome: "synced", reason_code: null },
      snapshot_at: "2026-06-01T12:00:00.000Z",
      snapshot_age_seconds: 90,
      failures_in_a_row: 0,
      missing_groups: [auditorGroup],
      suspect_setting: null,
      sync_interval_seconds: 3600,
      counts: {
        people: { active: 3, suspended: 0, archived: 0, unverified: 0, absent: 0 },
        scopes: { read: 3, audit: 2, admin: 2 },
        absences_held: 0,
      },
    });
    const before = { email: people.reader.email, status: "active" };
    expect(await events()).toMatchObject([
      {
        action: "directory.sync",
        actor: { type: "system", id: "directory-sync" },
        target: { type: "directory", id: directoryDomain },
        outcome: "success",
        details: {
          users: 3,
          missing_groups: [auditorGroup],
          people: [
            {
              user_id: people.reader.userId,
              from: { ...before, scopes: ["read"] },
              to: { scopes: ["read", "audit", "admin"] },
            },
            { user_id: people.auditor.userId, to: { scopes: ["read"] } },
          ],
        },
      },
    ]);
    await sync();
    expect((await events()).length).toBe(1);
  });

  it("Y3: a group that is missing reduces its members to read; another error of the group changes nothing", async () => {
    await sync();
    directory.fail({ on: "members", group: adminGroup, how: { status: 403 } });
    await expect(sync()).rejects.toMatchObject({ code: "access_denied" });
    directory.fail({ on: "members", group: adminGroup, how: { status: 503 } });
    await expect(sync()).rejects.toMatchObject({ code: "directory_unavailable" });
    expect((await api("admin")).status).toBe(200);
    directory.fail({ on: "members", group: adminGroup, how: { status: 404 } });
    await sync();
    expect((await api("admin")).body.scopes).toEqual(["read"]);
  });

  it("Y5: who gets an address that another had is another person, and gets nothing of what that one had", async () => {
    await sync();
    directory.set({
      users: usualDirectory.users.map((user) => (user.id === people.admin.subject ? { ...user, id: "77" } : user)),
    });
    await sync();
    expect((await stored()).filter(({ primaryEmail }) => primaryEmail === people.admin.email)).toMatchObject([
      { userId: people.admin.userId, status: "absent", scopes: [] },
      { status: "active", scopes: ["read"] },
    ]);
    expect((await api("admin")).status).toBe(401);
  });

  const api = (name: "admin" | "reader") => test.api("GET", "/v1/whoami", { as: name });
});

describe("a sync that fails", () => {
  it.each([
    ["the first page fails", { on: "users", how: { status: 500 } }, "directory_unavailable"],
    ["page 2 fails", { on: "users", page: 2, how: { status: 403 } }, "access_denied"],
    ["page 2 is truncated", { on: "users", page: 2, how: "truncated" }, "answer_malformed"],
    ["page 2 ends in the middle", { on: "users", page: 2, how: "cut" }, "directory_unreachable"],
  ] as const)("Y1: %s: nobody changes, and it is told, in the status, too", async (_, fault, code) => {
    directory.set({ users: crowd(9) });
    await sync();
    const before = await stored();
    directory.set({ users: [{ id: "1", primaryEmail: "aaa@example.test" }, ...crowd(9)], groups: [] });
    directory.fail(fault);
    await test.clock.advance(1000);
    for (const _ of [1, 2]) await expect(sync()).rejects.toMatchObject({ code });
    expect(await stored()).toEqual(before);
    expect(await status()).toMatchObject({
      last_sync: { outcome: "failed", reason_code: code },
      failures_in_a_row: 2,
      snapshot_at: "2026-06-01T12:00:00.000Z",
    });
    expect(observed).toEqual(["synced", "failed", "failed"]);
    directory.fail();
    await sync();
    expect(await status()).toMatchObject({ last_sync: { outcome: "synced" }, failures_in_a_row: 0 });
  });

  it("Y1: a directory without any user is refused, audited once, and forgotten when it is well again", async () => {
    await sync();
    const before = await stored();
    await test.clock.advance(1000);
    directory.set({ users: [] });
    for (const _ of [1, 2, 3]) await expect(sync()).rejects.toThrow("no user at all");
    expect(observed).toEqual(["synced", "refused", "refused", "refused"]);
    expect(await stored()).toEqual(before);
    expect(await status()).toMatchObject({
      last_sync: { outcome: "refused", reason_code: "no_users" },
      failures_in_a_row: 3,
    });
    expect(await events()).toMatchObject([{ action: "directory.refuse", outcome: "failure", reason: "no_users" }, {}]);
    directory.set(usualDirectory);
    expect(await sync()).toMatchObject({ outcome: "synced" });
  });

  it("a core that stops cuts the reading and puts nothing down", async () => {
    directory.fail({ on: "users", how: "silent" });
    const stop = new AbortController();
    const cut = sync({ stop: stop.signal });
    stop.abort();
    await expect(cut).rejects.toMatchObject({ code: "directory_unreachable" });
    expect((await status()).last_sync).toBeNull();
    expect(observed).toEqual([]);
  });
});

describe("the guard", () => {
  it("Y2: holds a mass absence until three syncs agree, and applies suspensions and lost groups at once", async () => {
    directory.set({ users: crowd(17) });
    await sync();
    const left = [{ ...usualDirectory.users[0], suspended: true } as DirectoryUser, ...usualDirectory.users.slice(1)];
    directory.set({ users: left, groups: [{ email: adminGroup, members: ["20", people.auditor.subject] }] });
    expect(await sync()).toMatchObject({ outcome: "held", held: 17 });
    expect((await standings()).filter(([, standing]) => standing === "active").length).toBe(19);
    expect((await standings())[0]).toEqual(["ada@example.test", "suspended", []]);
    expect((await test.api("GET", "/v1/whoami", { as: "auditor" })).body.scopes).toContain("admin");
    const report = (await test.api("GET", "/v1/directory/status", { as: "auditor" })).body;
    expect(report).toMatchObject({
      last_sync: { outcome: "held", reason_code: "mass_absence" },
      counts: { absences_held: 17 },
    });
    expect(await sync()).toMatchObject({ outcome: "held" });
    expect(await sync()).toMatchObject({ outcome: "synced", changed: 17 });
    expect((await standings()).filter(([, standing]) => standing === "absent").length).toBe(17);
    expect(observed).toEqual(["synced", "held", "held", "synced"]);
    const { body } = await test.api<{ items: object[] }>("GET", "/v1/audit-events?action=directory.refuse", {
      as: "auditor",
    });
    expect(body.items).toMatchObject([
      { reason: "mass_absence", details: { held: 17, users: 3 } },
      { reason: "mass_absence", details: { held: 17, users: 3 } },
    ]);
  });

  it("holds a mass that is suddenly in another domain, and says which setting looks wrong, until three syncs agree", async () => {
    directory.set({ users: crowd(17) });
    await sync();
    const moved = crowd(17).map((user) => ({ ...user, primaryEmail: user.primaryEmail.replace("@", "@new.") }));
    directory.set({ users: moved, groups: usualDirectory.groups });
    for (const _ of [1, 2]) {
      await test.clock.advance(3_600_000);
      expect(await sync()).toMatchObject({ outcome: "held", held: 20, suspectSetting: "SVC_DIRECTORY_DOMAIN" });
      expect((await test.api("GET", "/v1/directory/status", { as: "reader" })).body).toMatchObject({
        last_sync: { outcome: "held", reason_code: "mass_unverified" },
        suspect_setting: "SVC_DIRECTORY_DOMAIN",
        counts: { people: { active: 20 }, scopes: { admin: 1 }, absences_held: 20 },
      });
    }
    expect((await events())[0]).toMatchObject({ action: "directory.refuse", reason: "mass_unverified" });
    await test.clock.advance(3_600_000);
    expect(await sync()).toMatchObject({ outcome: "synced", suspectSetting: "SVC_DIRECTORY_DOMAIN" });
    expect(new Set((await standings()).map(([, standing]) => standing))).toEqual(new Set(["unverified"]));
  });
});

describe("several cores", () => {
  it("one at a time syncs, and one that boots later syncs again; at an interval only the first does", async () => {
    const [reading, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
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
    await expect(slow).rejects.toThrow("no user at all");

    expect(await sync()).toMatchObject({ outcome: "synced" });
    await test.clock.advance(1_700_000);
    expect(await sync({ isFirst: false })).toBeUndefined();
    expect(await sync({ isFirst: true })).toMatchObject({ outcome: "synced" });
    await test.clock.advance(1_800_000);
    expect(await sync({ isFirst: false })).toMatchObject({ outcome: "synced" });
  });

  it("a snapshot that took longer than another core's does not undo that one", async () => {
    const exclusively = <Result>(work: () => Promise<Result>) => work();
    const report = await sync({
      exclusively,
      read: async () => {
        await sync({ exclusively });
        return {
          users: [{ id: "9", primaryEmail: "x@y", displayName: "", suspended: false, archived: false }],
          admins: null,
          auditors: null,
        };
      },
    });
    expect(report).toMatchObject({ outcome: "superseded" });
    expect((await standings()).map(([email]) => email)).not.toContain("x@y");
  });
});

describe("Y4: a database connection that is killed while a snapshot is written", () => {
  // After the people, and after all but the audit event.
  it.each(["authentication_identity", "audit_event"])(
    "Y4: at %s leaves nothing of it, and the next sync writes all",
    async (table) => {
      await sync();
      const before = await stored();
      directory.set({ users: crowd(5).slice(1) });
      // Writes to the table wait for a lock that this test holds, and die waiting.
      const { sql } = test.database.connect();
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
      expect(await status()).toMatchObject({ last_sync: { outcome: "synced" }, failures_in_a_row: 0 });
      expect((await events()).length).toBe(1);
      expect(observed).toEqual(["synced", "failed"]);
      await sync();
      expect((await standings()).length).toBe(8);
    },
  );
});
