import { beforeEach, expect, it } from "vitest";
import { createScimCore } from "#tests/support/scim.ts";
import { applyDirectorySnapshot } from "../domain/directory/apply-snapshot.ts";
import { createRestoreCheck, holdAccess } from "../domain/directory/restored.ts";
import { confirmAccess, listHeldAccess } from "../domain/scim/confirm-access.ts";
import { readScimSnapshot } from "../domain/scim/push.ts";
import { findDirectorySync } from "../store/directory/directory.ts";

const test = await createScimCore();
const { patch, scim, createPerson, whoami, personOf, db, core } = test;
const { sql } = test.database.connect();

const setActive = (user: string, value: boolean) =>
  patch(`/Users/${user}`, { op: "replace", path: "active", value });
const addMember = (value: string) =>
  patch(`/Groups/${group}`, { op: "add", path: "members", value: [{ value }] });

/** Loads the database's own dump into it: the rows are the same, written by another transaction. */
const loadDump = async () => {
  const rows = await sql`select * from database_lineage`;
  await sql`delete from database_lineage`;
  await sql`insert into database_lineage ${sql(rows)}`;
};
const check = () => createRestoreCheck(core)();
const sync = async () =>
  applyDirectorySnapshot(core, await readScimSnapshot(db, "externalId"), {
    syncsBefore: (await findDirectorySync(db))?.syncs ?? 0,
  });

let round = 0;
let ada = "";
let grace = "";
let group = "";
/** The subjects of this round. */
let adaSub = "";
let graceSub = "";
const emailOf = (subject: string) => `${subject}@example.test`;
const confirm = (emails: string[] | null) => confirmAccess(core, { emails, operator: "root" });
/** Returns the holds of the audit log. */
const holds = () =>
  sql`select reason_code, details->'held' as held from audit_event where action = 'directory.hold'`;
const putGroup = async (...members: string[]) => {
  const body = { displayName: "svc-admin", members: members.map((value) => ({ value })) };
  return group ? scim("PUT", `/Groups/${group}`, body) : scim("POST", "/Groups", body);
};

beforeEach(async () => {
  round += 1;
  adaSub = `ada${round}`;
  graceSub = `grace${round}`;
  for (const name of ["svc-admin", "svc-auditor"]) {
    const { body } = await scim("GET", `/Groups?filter=displayName eq "${name}"`);
    for (const { id } of body.Resources) await scim("DELETE", `/Groups/${id}`);
  }
  ada = (await createPerson(adaSub)).id;
  grace = (await createPerson(graceSub)).id;
  group = "";
  group = (await putGroup(ada, grace)).body.id;
  await check();
});

it("Q12: nobody has access, the provider finds people inactive and groups empty, and a sync changes nothing", async () => {
  expect((await whoami(adaSub)).scopes).toContain("admin");
  await loadDump();
  expect(await check()).toBe("rows_copied");
  expect(await check()).toBe(null);
  await sync();
  for (const subject of [adaSub, graceSub])
    expect(await whoami(subject)).toEqual({ status: 401, scopes: [] });
  expect((await scim("GET", `/Users/${ada}`)).body.active).toBe(false);
  expect((await scim("GET", `/Groups/${group}`)).body.members).toBeUndefined();
  expect((await personOf(adaSub))?.status).toBe("held");
  const [hold] = await holds();
  expect(hold).toMatchObject({ reason_code: "rows_copied", held: expect.any(Number) });
});

it("Q12: each core that runs finds it once, whichever holds the access", async () => {
  const cores = [createRestoreCheck(core), createRestoreCheck(core)];
  const checkEach = async () => {
    const found = [];
    for (const checkOne of cores) found.push(await checkOne());
    return found;
  };
  expect(await checkEach()).toEqual([null, null]);
  await loadDump();
  expect(await checkEach()).toEqual(["rows_copied", "rows_copied"]);
  expect(await checkEach()).toEqual([null, null]);
  const before = (await holds()).length;
  await loadDump();
  for (const found of await Promise.all(cores.map((checkOne) => checkOne())))
    expect(found).toBe("rows_copied");
  expect(await holds()).toHaveLength(before + 1);
});

it("Q12: a person has access when a push states `active`, and a scope when a push states the membership", async () => {
  await holdAccess(core);
  await patch(`/Users/${grace}`, { op: "replace", path: "displayName", value: "Grace" });
  await scim("PUT", `/Users/${grace}`, {
    userName: emailOf(graceSub),
    externalId: graceSub,
  });
  await addMember(grace);
  expect((await whoami(graceSub)).status).toBe(401);
  await setActive(grace, true);
  expect((await whoami(graceSub)).scopes).toContain("admin");
  // A push about another member, or about the name of the group, confirms nobody else.
  await setActive(ada, true);
  await patch(`/Groups/${group}`, { op: "replace", path: "displayName", value: "SVC-admin" });
  expect((await whoami(adaSub)).scopes).toEqual(["read"]);
  expect((await listHeldAccess(core)).memberships).toEqual([
    { userName: emailOf(adaSub), group: "svc-admin" },
  ]);
});

it("Q12: what the provider takes away meanwhile stays away when an operator confirms the rest", async () => {
  await holdAccess(core);
  await setActive(ada, false);
  await patch(`/Groups/${group}`, { op: "remove", path: `members[value eq "${grace}"]` });
  await confirm(null);
  expect((await whoami(adaSub)).status).toBe(401);
  expect(await whoami(graceSub)).toEqual({ status: 200, scopes: ["read"] });
});

it("Q12: a replaced group has the stated members alone", async () => {
  await holdAccess(core);
  await putGroup(grace);
  await confirm([emailOf(adaSub), `${graceSub}@EXAMPLE.test`]);
  expect((await whoami(adaSub)).scopes).toEqual(["read"]);
  expect((await whoami(graceSub)).scopes).toContain("admin");
});

it("Q12: an operator confirms one person and no other, audited; an unknown address confirms nobody", async () => {
  await holdAccess(core);
  const email = emailOf(adaSub);
  expect(await confirm([email, "nobody@example.test"])).toEqual({
    people: [],
    unknown: ["nobody@example.test"],
  });
  expect((await whoami(adaSub)).status).toBe(401);
  await confirm([email]);
  expect((await whoami(adaSub)).scopes).toContain("admin");
  expect((await whoami(graceSub)).status).toBe(401);
  const [confirmed] = await sql`select actor_display, details from audit_event
      where action = 'directory.confirm' order by id desc limit 1`;
  expect(confirmed).toMatchObject({
    actor_display: "svc-server confirm-access (root)",
    details: { all: false, confirmed: 1, people: [expect.objectContaining({ email })] },
  });
});

it("Q12: a sync that read the people before the hold writes nothing", async () => {
  const before = (await findDirectorySync(db))?.syncs ?? 0;
  const snapshot = await readScimSnapshot(db, "externalId");
  await holdAccess(core);
  expect(await applyDirectorySnapshot(core, snapshot, { syncsBefore: before })).toMatchObject({
    outcome: "superseded",
  });
  expect((await whoami(adaSub)).status).toBe(401);
});

it("Q12: readiness and the status of the directory count who waits", async () => {
  await holdAccess(core);
  await setActive(ada, true);
  await addMember(ada);
  const bearer = await test.bridgeToken("admin", { sub: (await personOf(adaSub))?.userId });
  const { body } = await test.api("GET", "/v1/directory/status", { as: { bearer } });
  const [row] = await sql<
    { people: number }[]
  >`select count(*)::int as people from person where status = 'held'`;
  expect(body).toMatchObject({
    restored_at: expect.stringMatching(/Z$/),
    access_held: { people: row?.people, memberships: 1 },
    counts: { people: { held: row?.people } },
  });
  const held = await test.api("GET", "/v1/whoami", {
    as: { bearer: await test.bridgeToken("admin", { sub: (await personOf(graceSub))?.userId }) },
  });
  expect(held).toMatchObject({
    status: 401,
    body: { code: "access_held", detail: expect.stringContaining("confirm-access") },
  });
});
