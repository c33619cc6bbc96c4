import { eq } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { authenticationIdentity } from "#drizzle/schema/operator.ts";
import {
  adminGroup,
  auditorGroup,
  directoryDomain,
  usualDirectory,
} from "#scripts/lab/directory-people.ts";
import { people } from "#scripts/lab/people.ts";
import { crowd, setUpDirectorySync } from "#tests/support/access/set-up-directory-sync.ts";
import { holdAccess } from "../domain/directory/restored.ts";
import { correctTimes } from "./core-jobs.ts";

const fixture = await setUpDirectorySync();
const { directory, events, peopleInDatabase, status, stored, sync } = fixture;

describe("a sync", () => {
  it("writes people, their status and scopes, and the provider's subject under the tenant; ids stay", async () => {
    directory.set({
      users: [
        ...usualDirectory.users,
        {
          id: "31",
          primaryEmail: "Barbara@Example.test",
          fullName: "Barbara Liskov",
          aliases: ["ada@example.test"],
        },
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
    expect(await peopleInDatabase()).toEqual([
      ["ada@example.test", "active", ["read", "audit", "admin"]],
      ["barbara@example.test", "active", ["read", "audit"]],
      ["edsger@example.test", "active", ["read"]],
      ["grace@example.test", "active", ["read", "audit"]],
      ["guest@partner.test", "unverified", []],
      ["left@example.test", "suspended", []],
    ]);
    const [ada, barbara] = await stored();
    expect(ada?.userId).toBe(people.admin.userId);
    const identities = await fixture.test.db
      .select()
      .from(authenticationIdentity)
      .where(eq(authenticationIdentity.subject, "31"));
    expect(identities).toEqual([
      { tenantId: fixture.test.config.tenantId, subject: "31", userId: barbara?.userId },
    ]);
    expect(fixture.observed).toEqual(["synced"]);
  });

  it("reports outcome, age, counts and changed access", async () => {
    directory.set({
      groups: [{ email: adminGroup, members: [people.admin.subject, people.reader.subject] }],
    });
    await sync();
    await fixture.test.clock.advance(90_000);
    expect(await status()).toEqual({
      provider: "google",
      last_push_at: null,
      last_sync: { finished_at: "2026-06-01T12:00:00.000Z", outcome: "synced", reason_code: null },
      snapshot_at: "2026-06-01T12:00:00.000Z",
      snapshot_age_seconds: 90,
      failures_in_a_row: 0,
      missing_groups: [auditorGroup],
      suspect_setting: null,
      restored_at: null,
      access_held: { people: 0, memberships: 0 },
      sync_interval_seconds: 3600,
      counts: {
        people: { active: 3, held: 0, suspended: 0, archived: 0, unverified: 0, absent: 0 },
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

  it("names in its event those who get most access, also of more new people than it names", async () => {
    const users = [...crowd(210), { id: "99", primaryEmail: "zoe@example.test" }];
    directory.set({
      users,
      groups: [{ email: adminGroup, members: [people.admin.subject, "99"] }],
    });
    await sync();
    const [event] = await events();
    const zoe = {
      subject: "99",
      from: null,
      to: { email: "zoe@example.test", scopes: ["read", "audit", "admin"] },
    };
    expect(event?.details).toMatchObject({ added: 211, people: [zoe, {}, ...Array(198).fill({})] });
  });

  it("Y3: a missing group reduces its members to read; another error of the group changes nothing", async () => {
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

  it("Y5: a person who receives a reused address inherits nothing of its former owner", async () => {
    await sync();
    directory.set({
      users: usualDirectory.users.map((user) =>
        user.id === people.admin.subject ? { ...user, id: "77" } : user,
      ),
    });
    await sync();
    expect(
      (await stored()).filter(({ primaryEmail }) => primaryEmail === people.admin.email),
    ).toMatchObject([
      { userId: people.admin.userId, status: "absent", scopes: [] },
      { status: "active", scopes: ["read"] },
    ]);
    expect((await api("admin")).status).toBe(401);
  });

  it("K1: goes on within an interval of a sync while the clock was two days ahead, and does not report that as new", async () => {
    const { clock, core } = fixture.test;
    const before = clock.now();
    clock.set(before + 48 * 3_600_000);
    await sync();
    clock.set(before);
    await correctTimes(core);
    await clock.advance(1_801_000);
    expect(await status()).toMatchObject({ snapshot_age_seconds: 1801, last_push_at: null });
    expect(await sync({ isFirst: false })).toMatchObject({ outcome: "synced" });
  });

  const api = (name: "admin" | "reader") => fixture.test.api("GET", "/v1/whoami", { as: name });
});

describe("a sync that fails", () => {
  it.each([
    ["the first page fails", { on: "users", how: { status: 500 } }, "directory_unavailable"],
    ["page 2 fails", { on: "users", page: 2, how: { status: 403 } }, "access_denied"],
    ["page 2 is truncated", { on: "users", page: 2, how: "truncated" }, "answer_malformed"],
    ["page 2 ends in the middle", { on: "users", page: 2, how: "cut" }, "directory_unreachable"],
  ] as const)(
    "Y1: after %s no person changes, and log and status report the failure",
    async (_, fault, code) => {
      directory.set({ users: crowd(9) });
      await sync();
      const before = await stored();
      directory.set({
        users: [{ id: "1", primaryEmail: "aaa@example.test" }, ...crowd(9)],
        groups: [],
      });
      directory.fail(fault);
      await fixture.test.clock.advance(1000);
      for (const _ of [1, 2]) await expect(sync()).rejects.toMatchObject({ code });
      expect(await stored()).toEqual(before);
      expect(await status()).toMatchObject({
        last_sync: { outcome: "failed", reason_code: code },
        failures_in_a_row: 2,
        snapshot_at: "2026-06-01T12:00:00.000Z",
      });
      expect(fixture.observed).toEqual(["synced", "failed", "failed"]);
      directory.fail();
      await sync();
      expect(await status()).toMatchObject({
        last_sync: { outcome: "synced" },
        failures_in_a_row: 0,
      });
    },
  );

  it("Y1: rejects a directory without users, audits it once, and recovers with the next good snapshot", async () => {
    await sync();
    const before = await stored();
    await fixture.test.clock.advance(1000);
    directory.set({ users: [] });
    for (const _ of [1, 2, 3]) await expect(sync()).rejects.toThrow("no users");
    expect(fixture.observed).toEqual(["synced", "refused", "refused", "refused"]);
    expect(await stored()).toEqual(before);
    expect(await status()).toMatchObject({
      last_sync: { outcome: "refused", reason_code: "no_users" },
      failures_in_a_row: 3,
    });
    expect(await events()).toMatchObject([
      { action: "directory.refuse", outcome: "failure", reason: "no_users" },
      {},
    ]);
    directory.set(usualDirectory);
    expect(await sync()).toMatchObject({ outcome: "synced" });
  });

  it("a core that stops aborts its read and records nothing", async () => {
    directory.fail({ on: "users", how: "silent" });
    const stop = new AbortController();
    const cut = sync({ stop: stop.signal });
    stop.abort();
    await expect(cut).rejects.toMatchObject({ code: "directory_unreachable" });
    expect((await status()).last_sync).toBeNull();
    expect(fixture.observed).toEqual([]);
  });
});

it("Q12: nobody has access between a restore and the next snapshot, which alone decides then", async () => {
  directory.set(usualDirectory);
  await sync();
  const { core, reader, admin } = fixture.test;
  expect(await holdAccess(core)).toBeGreaterThan(0);
  expect(await reader.get("/v1/whoami")).toMatchObject({
    body: { code: "access_held" },
  });
  directory.set({
    ...usualDirectory,
    groups: [{ email: adminGroup, members: [people.reader.subject] }],
  });
  await sync();
  expect((await reader.read("/v1/whoami")).scopes).toEqual(["read", "audit", "admin"]);
  expect((await admin.read("/v1/whoami")).scopes).toEqual(["read"]);
});
