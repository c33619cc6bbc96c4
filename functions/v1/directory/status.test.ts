import { eq } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { directorySync, person } from "#drizzle/schema/operator.ts";
import { addGap } from "#functions/store/ingest/gaps.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({
  env: { SVC_DIRECTORY_SYNC_INTERVAL: "15m", SVC_OPS_BEARER_TOKEN: "let-me-see" },
});
const { reader, api, db, people, clock } = test;
beforeEach(async () => {
  await db.delete(directorySync);
  await db.update(person).set({ status: "active", missedSyncs: 0 });
});

const troubled = {
  syncs: 7,
  finishedAt: new Date(clock.now() - 1000),
  outcome: "failed" as const,
  reasonCode: "token_refused",
  syncedAt: new Date(clock.now() - 3_600_000),
  failures: 2,
  missingGroups: ["svc-auditor@example.test"],
};
const status = () => reader.read("/v1/directory/status");
const change = (name: PersonName, values: Partial<typeof person.$inferInsert>) =>
  db.update(person).set(values).where(eq(person.userId, people[name].userId));

describe("GET /v1/directory/status", () => {
  it("counts the known people before the first sync, for the scope read", async () => {
    expect(await status()).toEqual({
      provider: "google",
      last_sync: null,
      last_push_at: null,
      snapshot_at: null,
      snapshot_age_seconds: null,
      failures_in_a_row: 0,
      missing_groups: [],
      suspect_setting: null,
      restored_at: null,
      access_held: { people: 0, memberships: 0 },
      sync_interval_seconds: 900,
      counts: {
        people: { active: 3, held: 0, suspended: 0, archived: 0, unverified: 0, absent: 0 },
        scopes: { read: 3, audit: 2, admin: 1 },
        absences_held: 0,
      },
    });
  });

  it("reports the outcome of the newest sync and the age of the snapshot; scopes count active people", {
    tags: "workerd",
  }, async () => {
    await db.insert(directorySync).values(troubled);
    await change("admin", { status: "suspended" });
    await change("auditor", { missedSyncs: 1 });
    expect(await status()).toMatchObject({
      last_sync: {
        finished_at: troubled.finishedAt.toISOString(),
        outcome: "failed",
        reason_code: "token_refused",
      },
      snapshot_at: troubled.syncedAt.toISOString(),
      snapshot_age_seconds: 3600,
      failures_in_a_row: 2,
      missing_groups: ["svc-auditor@example.test"],
      counts: {
        people: { active: 2, suspended: 1 },
        scopes: { read: 2, audit: 1, admin: 0 },
        absences_held: 1,
      },
    });
  });
});

const suspect = async () => (await status()).suspect_setting;

it("a setting that looks wrong is named while most people are held outside the domain, and when nobody is left inside", async () => {
  const held = { outcome: "held" as const, reasonCode: "mass_absence" };
  await db.insert(directorySync).values({ ...troubled, ...held });
  expect(await suspect()).toBeNull();
  await db.update(directorySync).set({ reasonCode: "mass_unverified" });
  expect(await suspect()).toBe("SVC_DIRECTORY_DOMAIN");
  await db.update(directorySync).set({ reasonCode: null });
  for (const name of ["admin", "auditor"] as const) await change(name, { status: "unverified" });
  expect(await suspect()).toBeNull();
});

describe("/readyz", () => {
  const readiness = async () => {
    const { status: code, body } = await api<{
      checks: { name: string; status: string; detail: string }[];
    }>("GET", "/readyz", { as: { bearer: "let-me-see" } });
    const check = body.checks.find(({ name }) => name === "directory");
    return [code, check?.status, check?.detail];
  };

  it("warns of the directory's faults, and stays ready", async () => {
    expect(await readiness()).toEqual([200, "warning", "No snapshot of the directory yet."]);
    await db.insert(directorySync).values(troubled);
    await change("auditor", { missedSyncs: 1 });
    expect(await readiness()).toEqual([
      200,
      "warning",
      "2 syncs in a row wrote nothing, the last one failed: token_refused. " +
        "1 people are missing from it and stay active for now. It has no group svc-auditor@example.test. " +
        `The last snapshot of the directory was at ${rfc3339(troubled.syncedAt.getTime())}.`,
    ]);
    await db
      .update(directorySync)
      .set({ reasonCode: "mass_unverified", failures: 0, missingGroups: [] });
    expect((await readiness())[2]).toMatch(
      /^1 people are outside SVC_DIRECTORY_DOMAIN and stay active for now: check that setting\. /,
    );
  });

  it("Q12: reports the signs of a restore, and who waits after one", async () => {
    await addGap(db, "host", 5n, new Date(test.clock.now()));
    expect((await readiness())[2]).toContain(
      "The database lacks data of 1 hosts that core acknowledged: if it was restored, run svc-server hold-access.",
    );
    await db.update(person).set({ status: "held" });
    expect((await readiness())[2]).toContain(
      "The database was restored: 3 people and 0 memberships wait",
    );
  });
});
