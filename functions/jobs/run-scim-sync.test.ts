import { ne } from "drizzle-orm";
import { expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import type { Clock } from "#kit/clock.ts";
import { createScimCore } from "#tests/support/scim.ts";
import type { DirectoryConfig } from "../config/directory-config.ts";
import { findDirectorySync } from "../store/directory/directory.ts";
import { runDirectorySync } from "./run-directory-sync.ts";

const test = await createScimCore();
const { patch, scim, createPerson, whoami, db, clock, people } = test;

/** Runs the job of a core that has just started, with changed settings, until it has run once. */
const runOnce = async (changes: Partial<DirectoryConfig> = {}) => {
  const outcomes: string[] = [];
  const stop = new AbortController();
  const config = { ...test.config, directory: { ...test.config.directory, ...changes } };
  let hasRun = false;
  const sleep: Clock["sleep"] = (ms, signal) => {
    hasRun = true;
    return clock.sleep(ms, signal);
  };
  const running = runDirectorySync(
    {
      core: { ...test.core, config, clock: { ...clock, sleep } },
      readKeyFile: () => "",
      readTrustedFile: () => "",
      exclusively: (work) => work(),
      observe: { ended: (outcome) => outcomes.push(outcome), snapshot: () => undefined },
    },
    stop.signal,
  );
  await expect.poll(() => hasRun).toBe(true);
  stop.abort();
  await running;
  return outcomes;
};
const status = () => test.admin.read("/v1/directory/status");

it("a core to which nobody was pushed keeps the people of the former provider, and says so", async () => {
  expect(await runOnce()).toEqual([]);
  expect(await findDirectorySync(db)).toBeUndefined();
  expect(await status()).toMatchObject({ provider: "scim", last_push_at: null, last_sync: null });
  expect((await whoami(people.admin.subject)).scopes).toContain("admin");
});

it("a push is the snapshot's time, and a start removes the people of the former provider", async () => {
  await createPerson("ada");
  await scim("POST", "/Groups", { displayName: "svc-admin" });
  await clock.advance(86_400_000);
  expect(await status()).toMatchObject({
    last_push_at: expect.stringContaining("T12:00"),
    last_sync: { outcome: "synced", reason_code: null },
    failures_in_a_row: 0,
    missing_groups: ["svc-auditor"],
  });
  expect((await whoami(people.admin.subject)).status).toBe(200);
  expect(await runOnce()).toEqual(["synced"]);
  expect((await whoami(people.admin.subject)).status).toBe(401);
  expect((await whoami("ada")).status).toBe(200);
});

it("Y2: a changed domain is held, and a push takes effect at once meanwhile", async () => {
  const ids = await Promise.all(Array.from({ length: 12 }, (_, at) => createPerson(`person${at}`)));
  expect(await runOnce({ domain: "example.tset" })).toEqual(["held"]);
  const held = await findDirectorySync(db);
  expect(held).toMatchObject({ outcome: "held", reasonCode: "mass_unverified" });
  expect((await whoami("person3")).status).toBe(200);
  for (const { id } of ids.slice(0, 10))
    await patch(`/Users/${id}`, { op: "replace", path: "active", value: false });
  expect((await whoami("person3")).status).toBe(401);
  expect((await whoami("person11")).status).toBe(200);
  expect(await findDirectorySync(db)).toMatchObject({
    outcome: "held",
    reasonCode: "mass_unverified",
  });
  expect(await runOnce()).toEqual(["synced"]);
  const active = await db.select().from(person).where(ne(person.status, "active"));
  expect(active.filter(({ missedSyncs }) => missedSyncs > 0)).toEqual([]);
  expect((await whoami("person11")).status).toBe(200);
});
