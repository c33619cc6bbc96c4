import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PersonStatus } from "#drizzle/schema/operator.ts";
import type { DirectorySnapshot, DirectoryUser } from "#functions/directory/snapshot.ts";
import { type DirectoryPolicy, decideDirectoryChanges, type KnownPerson } from "./rules.ts";

const policy = { domain: "example.test", allowMassRemoval: false };

const user = (id: string, changes: Partial<DirectoryUser> = {}) => ({
  id,
  primaryEmail: `${id}@example.test`,
  displayName: id,
  suspended: false,
  archived: false,
  ...changes,
});
const snapshotOf = (
  users: readonly DirectoryUser[],
  groups: { admins?: string[]; auditors?: string[] } = {},
) =>
  ({
    users,
    admins: new Set(groups.admins),
    auditors: new Set(groups.auditors),
  }) satisfies DirectorySnapshot;

/** Returns the people that core knows after a sync. */
const afterSync = (
  known: readonly KnownPerson[],
  snapshot: DirectorySnapshot,
  rules: Partial<DirectoryPolicy> = {},
) => {
  const { added, changed } = decideDirectoryChanges(snapshot, known, { ...policy, ...rules });
  const changes = new Map(changed.map(({ before, after: next }) => [before, next]));
  return [
    ...known.map((person) => changes.get(person) ?? person),
    ...added.map(({ subject, state }) => ({
      ...state,
      userId: `new-${subject}`,
      subject,
      missedSyncs: 0,
    })),
  ];
};
const bySubject = (people: readonly KnownPerson[], subject: string) =>
  people.find((person) => person.subject === subject);
/** Returns the status and the scopes of a person: `active: read audit`. */
const standingOf = (people: readonly KnownPerson[], subject: string) => {
  const { status, scopes = [] } = bySubject(people, subject) ?? {};
  return [`${status}:`, ...scopes].join(" ");
};
const statusOf = (one: DirectoryUser) => afterSync([], snapshotOf([one]))[0]?.status;
const range = (length: number, from = 0) =>
  Array.from({ length }, (_, index) => `p${from + index}`);
const users = (...of: Parameters<typeof range>) => range(...of).map((id) => user(id));
const active = (ids: readonly string[]) => afterSync([], snapshotOf(ids.map((id) => user(id))));

describe("status", () => {
  it.each<[string, Partial<DirectoryUser>, PersonStatus]>([
    ["in the domain", {}, "active"],
    ["in the domain, in another case", { primaryEmail: "Ada@EXAMPLE.test" }, "active"],
    ["suspended", { suspended: true }, "suspended"],
    ["archived", { archived: true }, "archived"],
    ["suspended and archived", { suspended: true, archived: true }, "suspended"],
    ["suspended in another domain", { suspended: true, primaryEmail: "a@else.test" }, "suspended"],
  ])("of a user who is %s", (_, changes, status) => {
    expect(statusOf(user("ada", changes))).toBe(status);
  });

  it.each([
    "ada@example.test.evil.test",
    "ada@evil-example.test",
    "ada@sub.example.test",
    "ada@example.test.",
    "ada@example.tеst", // a Cyrillic е
    "ada@exampl\u0435.test",
    "ada@evil.test@example.test",
    "@example.test",
    "example.test",
    "ada",
  ])("Y5: %s is a look-alike, and unverified", (primaryEmail) => {
    expect(statusOf(user("ada", { primaryEmail }))).toBe("unverified");
  });

  it("Y5: treats a character that only Unicode lowers to the domain's letter as another domain", () => {
    const kelvin = user("ada", { primaryEmail: "ada@\u212Aiosk.test" });
    expect(kelvin.primaryEmail.toLowerCase()).toBe("ada@kiosk.test");
    expect(afterSync([], snapshotOf([kelvin]), { domain: "kiosk.test" })[0]?.status).toBe(
      "unverified",
    );
  });
});

describe("scopes", () => {
  const groups = { admins: ["ada", "both"], auditors: ["grace", "both"] };
  it.each([
    ["ada", ["read", "audit", "admin"]],
    ["both", ["read", "audit", "admin"]],
    ["grace", ["read", "audit"]],
    ["edsger", ["read"]],
  ])("of %s are %j", (id, scopes) => {
    expect(afterSync([], snapshotOf([user(id)], groups))[0]?.scopes).toEqual(scopes);
  });

  it("grants no scope to a person who is not active", () => {
    const people = afterSync(
      [],
      snapshotOf(
        [user("ada", { suspended: true }), user("both", { primaryEmail: "b@else.test" })],
        groups,
      ),
    );
    expect(people.map(({ scopes }) => scopes)).toEqual([[], []]);
  });

  it("Y3: a missing group reduces its members to their other scopes", () => {
    const known = afterSync([], snapshotOf([user("ada"), user("grace")], groups));
    const admins = afterSync(known, {
      users: [user("ada"), user("grace")],
      admins: null,
      auditors: new Set(["grace"]),
    });
    expect(admins.map(({ scopes }) => scopes)).toEqual([["read"], ["read", "audit"]]);
    const none = afterSync(known, {
      users: [user("ada"), user("grace")],
      admins: null,
      auditors: null,
    });
    expect(none.map(({ scopes }) => scopes)).toEqual([["read"], ["read"]]);
  });
});

describe("the identity of a person", () => {
  it("Y5: a reused address with a new id is a new person, and the old one is absent", () => {
    const known = afterSync(
      [],
      snapshotOf([user("old", { primaryEmail: "ada@example.test" })], { admins: ["old"] }),
    );
    const people = afterSync(
      known,
      snapshotOf([user("new", { primaryEmail: "ada@example.test" })], { admins: ["old"] }),
    );
    expect(standingOf(people, "old")).toBe("absent:");
    expect(bySubject(people, "new")).toMatchObject({
      status: "active",
      scopes: ["read"],
      userId: "new-new",
    });
  });

  it("a person who is renamed, or returns, stays the same person", () => {
    const known = active(["ada"]);
    const renamed = afterSync(
      known,
      snapshotOf([user("ada", { primaryEmail: "Countess@example.test" })]),
    );
    expect(renamed).toMatchObject([
      { userId: "new-ada", primaryEmail: "countess@example.test", status: "active" },
    ]);
    const gone = afterSync(renamed, snapshotOf([user("grace")]));
    expect(bySubject(gone, "ada")?.status).toBe("absent");
    expect(bySubject(afterSync(gone, snapshotOf([user("ada")])), "ada")).toMatchObject({
      userId: "new-ada",
      status: "active",
    });
  });

  it("never matches a person without a directory id by address", () => {
    const [seeded] = active(["ada"]);
    const people = afterSync(
      [{ ...(seeded as KnownPerson), subject: null }],
      snapshotOf([user("ada")]),
    );
    expect(people.map(({ subject, status }) => [subject, status])).toEqual([
      [null, "absent"],
      ["ada", "active"],
    ]);
  });

  it("keeps control characters and broken Unicode out of names", () => {
    const [person] = afterSync(
      [],
      snapshotOf([user("ada", { displayName: " A\u0000d\u2028a\uD800 " })]),
    );
    expect(person?.displayName).toBe("A d a\uFFFD");
  });
});

describe("the guard", () => {
  it.each([
    { people: 10, missing: 9, held: 0 },
    { people: 11, missing: 5, held: 0 },
    { people: 11, missing: 6, held: 6 },
    { people: 20, missing: 10, held: 0 },
    { people: 20, missing: 11, held: 11 },
    { people: 20, missing: 19, held: 19 },
  ])(
    "Y2: of $people active people $missing missing: $held are held",
    ({ people, missing, held }) => {
      const known = active(range(people));
      const snapshot = snapshotOf(users(people - missing, missing));
      expect(decideDirectoryChanges(snapshot, known, policy).held).toBe(held);
      const next = afterSync(known, snapshot);
      expect(next.filter(({ status }) => status === "absent").length).toBe(
        held === 0 ? missing : 0,
      );
    },
  );

  it("Y2: applies a removal after three consecutive snapshots agree, and starts over when one disagrees", () => {
    const all = snapshotOf(users(20));
    const few = snapshotOf(users(5));
    const absent = (people: readonly KnownPerson[]) =>
      people.filter(({ status }) => status === "absent").length;
    const play = (...snapshots: DirectorySnapshot[]) =>
      absent(snapshots.reduce((known, snapshot) => afterSync(known, snapshot), active(range(20))));
    expect(play(few, few)).toBe(0);
    expect(play(few, few, few)).toBe(15);
    expect(play(few, few, all, few, few)).toBe(0);
    expect(play(few, few, all, few, few, few)).toBe(15);
  });

  it("holds people outside the domain like missing ones, and names the setting; counts both separately", () => {
    const known = afterSync([], snapshotOf(users(20), { admins: ["p0", "p1"] }));
    const foreign = (id: string, changes: Partial<DirectoryUser> = {}) =>
      user(id, { primaryEmail: `${id}@else.test`, ...changes });
    const most = snapshotOf(
      range(20).map((id, index) => (index < 11 ? foreign(id) : user(id))),
      { admins: ["p0", "p2"] },
    );
    const decision = decideDirectoryChanges(most, known, policy);
    expect(decision).toMatchObject({
      held: 11,
      heldFor: "mass_unverified",
      suspectSetting: "SVC_DIRECTORY_DOMAIN",
    });
    let people = afterSync(known, most);
    expect(standingOf(people, "p0")).toBe("active: read audit admin");
    expect(standingOf(people, "p1")).toBe("active: read");
    expect(bySubject(people, "p1")?.missedSyncs).toBe(1);
    expect(standingOf(people, "p2")).toBe("active: read");
    const suspended = snapshotOf(range(20).map((id) => foreign(id, { suspended: id === "p3" })));
    people = afterSync(people, suspended);
    expect(bySubject(people, "p3")?.status).toBe("suspended");
    expect(people.filter(({ status }) => status === "active").length).toBe(19);
    people = afterSync(people, suspended);
    expect(people.filter(({ status }) => status === "unverified").length).toBe(10);

    const half = snapshotOf(
      range(20).flatMap((id, index) => (index < 10 ? [foreign(id)] : index < 14 ? [user(id)] : [])),
    );
    expect(decideDirectoryChanges(half, known, policy)).toMatchObject({
      held: 0,
      heldFor: null,
      suspectSetting: null,
    });
    expect(decideDirectoryChanges(most, known, { ...policy, allowMassRemoval: true }).held).toBe(0);
  });

  it("names the domain's setting when a first snapshot has no person in the domain", () => {
    const people = users(3);
    const wrong = { ...policy, domain: "example.tset" };
    const suspect = (users: DirectoryUser[]) =>
      decideDirectoryChanges(snapshotOf(users), [], wrong).suspectSetting;
    expect(suspect(people)).toBe("SVC_DIRECTORY_DOMAIN");
    expect(suspect([...people, user("p4", { primaryEmail: "p4@example.tset" })])).toBeNull();
    expect(suspect([user("p0", { suspended: true })])).toBeNull();
  });

  it("Y2: removes only people whom all three snapshots miss", () => {
    const first = snapshotOf(users(10));
    const second = snapshotOf(users(10, 11));
    let known = active(range(21));
    for (const snapshot of [first, second, first]) known = afterSync(known, snapshot);
    // Only p10 is in neither.
    expect(known.filter(({ status }) => status === "absent").map(({ subject }) => subject)).toEqual(
      ["p10"],
    );
  });

  it("Y2: applies suspensions and lost groups at once while absences are held, and grants held people no scope", () => {
    const known = afterSync(
      [],
      snapshotOf(users(20), { admins: ["p0", "p19"], auditors: ["p18"] }),
    );
    const people = afterSync(
      known,
      snapshotOf([user("p0"), user("p1", { suspended: true })], { admins: ["p18"] }),
    );
    expect(standingOf(people, "p0")).toBe("active: read");
    expect(standingOf(people, "p1")).toBe("suspended:");
    expect(standingOf(people, "p19")).toBe("active: read");
    expect(bySubject(people, "p19")?.missedSyncs).toBe(1);
    expect(standingOf(people, "p18")).toBe("active: read audit");
  });

  it("applies every absence at once when so configured", () => {
    const people = afterSync(active(range(20)), snapshotOf([user("p0")]), {
      allowMassRemoval: true,
    });
    expect(people.filter(({ status }) => status === "absent").length).toBe(19);
  });
});

describe("for any snapshots", () => {
  const ids = range(14);
  const users = fc.uniqueArray(
    fc.record({
      id: fc.constantFrom(...ids),
      primaryEmail: fc.constantFrom("a@example.test", "B@example.test", "a@example.test.evil.test"),
      displayName: fc.string({ maxLength: 5 }),
      suspended: fc.boolean(),
      archived: fc.boolean(),
    }),
    { selector: ({ id }) => id },
  );
  const group = fc.option(
    fc.uniqueArray(fc.constantFrom(...ids)).map((members) => new Set(members)),
  );
  const snapshots = fc.array(fc.record({ users, admins: group, auditors: group }), {
    minLength: 1,
    maxLength: 6,
  });

  it("only people in the newest snapshot, unsuspended and in the domain, or held, are active; ids stay; a repeat changes nothing", () => {
    fc.assert(
      fc.property(snapshots, fc.boolean(), (sequence, allowMassRemoval) => {
        let known: KnownPerson[] = active(ids);
        for (const snapshot of sequence) {
          const before = known;
          known = afterSync(known, snapshot, { allowMassRemoval });
          for (const person of known) {
            const listed = snapshot.users.find(({ id }) => id === person.subject);
            const eligible =
              listed &&
              !listed.suspended &&
              !listed.archived &&
              /^.@example\.test$/.test(listed.primaryEmail);
            const old = before.find(({ userId }) => userId === person.userId);
            const isLost = !listed || (!listed.suspended && !listed.archived && !eligible);
            const isHeld =
              isLost && old?.status === "active" && person.missedSyncs > 0 && !allowMassRemoval;
            expect(person.status === "active").toBe(Boolean(eligible || isHeld));
            expect(person.missedSyncs).toBeLessThan(3);
            expect(person.scopes.includes("read")).toBe(person.status === "active");
            if (person.scopes.includes("admin"))
              expect(snapshot.admins?.has(person.subject ?? "")).toBe(true);
            if (isHeld) expect(old?.scopes).toEqual(expect.arrayContaining([...person.scopes]));
            if (old) expect(person.subject).toBe(old.subject);
          }
          expect(new Set(known.map(({ userId }) => userId)).size).toBe(known.length);
          const again = decideDirectoryChanges(snapshot, known, { ...policy, allowMassRemoval });
          expect(again.added).toEqual([]);
          if (again.held === 0 && known.every(({ missedSyncs }) => missedSyncs === 0))
            expect(again.changed).toEqual([]);
        }
      }),
      { numRuns: 300 },
    );
  });
});
