import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { createScimCore, scimToken } from "#tests/support/scim.ts";

const test = await createScimCore();
const { patch, scim, createPerson } = test;

const filtered = (filter: string, path = "/Users") =>
  scim("GET", `${path}?filter=${encodeURIComponent(filter)}`);
const names = ({ body }: { body: { Resources: { userName: string }[] } }) =>
  body.Resources.map(({ userName }) => userName.split("@")[0]);

const people = ["ada", "alan", "barbara", "edsger", "grace"];
const ids: Record<string, string> = {};
for (const name of people)
  ids[name] = (
    await createPerson(name, { displayName: `The ${name}`, active: name !== "edsger" })
  ).id;

describe("a list", () => {
  it("has pages by startIndex and count, in a stable order", async () => {
    for (const [query, startIndex, found] of [
      ["startIndex=1&count=2", 1, people.slice(0, 2)],
      ["startIndex=3&count=2", 3, people.slice(2, 4)],
      ["startIndex=5&count=2", 5, people.slice(4)],
      ["startIndex=6&count=2", 6, []],
      ["count=0", 1, []],
      ["startIndex=-3&count=-1", 1, []],
      ["count=100000", 1, people],
    ] as const) {
      const page = await scim("GET", `/Users?${query}`);
      const counts = { totalResults: 5, startIndex, itemsPerPage: found.length };
      expect(page.body, query).toMatchObject(counts);
      expect(names(page)).toEqual(found);
    }
    expect((await scim("GET", "/Users?count=many")).body.scimType).toBe("invalidValue");
  });

  it.each([
    ['userName sw "a"', ["ada", "alan"]],
    ['userName co "AR"', ["barbara"]],
    ['userName ew "@example.test" and not (active eq true)', ["edsger"]],
    ['active eq "False" or userName eq "ADA@example.test"', ["ada", "edsger"]],
    ['(displayName eq "the grace")', ["grace"]],
    ["displayName pr and emails pr", []],
    ['urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ada@example.test"', ["ada"]],
    ['externalId ne "ada" and userName lt "b"', ["alan"]],
    ['meta.lastModified gt "2000-01-01T00:00:00Z" and userName ge "g"', ["grace"]],
    ['displayName eq "100%" or displayName co "_"', []],
    [
      'emails.value eq "x" or emails eq "x" or name.givenName eq null and userName eq "alan@example.test"',
      ["alan"],
    ],
  ])("filters by %s", { tags: "workerd" }, async (filter, expected) => {
    expect(names(await filtered(filter))).toEqual(expected);
  });

  it.each([
    "userName",
    "userName eq",
    'userName eq "ada',
    'userName is "ada"',
    'eq "ada"',
    'userName eq "ada" and',
    '(userName eq "ada"',
    'userName eq "ada")',
    'password eq "hunter2"',
    'name.hunter2 eq "x"',
    "userName gt 5",
    'active co "t"',
    'meta.created gt "yesterday"',
    'meta.created gt "+200000-01-01T00:00:00Z"',
    'meta.created gt "0000-01-01T00:00:00Z"',
    'emails[type eq "work" or emails[type eq "home"]]',
    `${"(".repeat(50)}active eq true${")".repeat(50)}`,
    'constructor eq "x"',
    `userName eq "${"x".repeat(5000)}"`,
  ])("rejects the filter %s", async (filter) => {
    const { status, body } = await filtered(filter);
    expect([status, body.scimType, body.status]).toEqual([400, "invalidFilter", "400"]);
    expect(JSON.stringify(body)).not.toContain("hunter2");
  });
});

describe("attributes", () => {
  it("are those that the request names", { tags: "workerd" }, async () => {
    const { body } = await scim("GET", `/Users/${ids.ada}?attributes=userName,meta.location`);
    expect(body).toEqual({
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
      id: ids.ada,
      userName: "ada@example.test",
      meta: { location: `/scim/v2/Users/${ids.ada}` },
    });
    const rest = await scim("GET", `/Users/${ids.ada}?excludedAttributes=META,displayName,id`);
    expect(Object.keys(rest.body)).toEqual(["schemas", "id", "externalId", "userName", "active"]);
  });

  it("that core does not know are ignored in a resource and rejected as a path", async () => {
    const { body } = await scim("PUT", `/Users/${ids.ada}`, {
      userName: "ada@example.test",
      externalId: "ada",
      favouriteColour: "blue",
      "urn:example:extension": { a: [1] },
    });
    expect(body).not.toHaveProperty("favouriteColour");
    const change = { op: "add", path: "favouriteColour", value: "blue" };
    expect((await patch(`/Users/${ids.ada}`, change)).body.scimType).toBe("invalidPath");
  });

  it("keep active through a PUT that leaves it out", { tags: "workerd" }, async () => {
    const { body } = await scim("PUT", `/Users/${ids.edsger}`, {
      userName: "edsger@example.test",
      externalId: "edsger",
    });
    expect(body.active).toBe(false);
  });
});

describe("a rejection", () => {
  const create = (body: unknown) => scim("POST", "/Users", body);
  const change = (...operations: object[]) => patch(`/Users/${ids.alan}`, ...operations);
  const createX = (fields: object) => create({ userName: "x", externalId: "x", ...fields });
  const changeOne = (op: string, path: string, value?: string) => change({ op, path, value });
  it.each<[string, () => ReturnType<typeof create>, number, string | undefined]>([
    ["no userName", () => createX({ userName: undefined }), 400, "invalidValue"],
    ["no externalId", () => createX({ externalId: undefined }), 400, "invalidValue"],
    ["a taken userName", () => createX({ userName: "ADA@example.test" }), 409, "uniqueness"],
    ["a taken externalId", () => createX({ externalId: "ada" }), 409, "uniqueness"],
    ["a list", () => create([]), 400, "invalidValue"],
    ["active of another type", () => createX({ active: "yes" }), 400, "invalidValue"],
    ["a control character", () => createX({ userName: "x\u0000" }), 400, "invalidValue"],
    ["half a surrogate pair", () => createX({ userName: "x\ud800" }), 400, "invalidValue"],
    [
      "a taken userName in a PATCH",
      () => changeOne("replace", "userName", "ada@example.test"),
      409,
      "uniqueness",
    ],
    ["the id in a PATCH", () => changeOne("replace", "id", "x"), 400, "mutability"],
    ["a removed userName", () => changeOne("remove", "userName"), 400, "invalidValue"],
    ["a removed externalId", () => changeOne("remove", "externalId"), 400, "invalidValue"],
    ["a remove without a path", () => change({ op: "remove" }), 400, "noTarget"],
    [
      "a replace that matches nothing",
      () => changeOne("replace", 'emails[type eq "x"].value', "a"),
      400,
      "noTarget",
    ],
    ["a malformed path", () => changeOne("add", "emails[type eq", "a"), 400, "invalidPath"],
    ["an unknown operation", () => changeOne("move", "userName", "a"), 400, "invalidSyntax"],
    ["no operations", () => change(), 400, "invalidSyntax"],
    [
      "no PatchOp",
      () =>
        scim("PATCH", `/Users/${ids.alan}`, {
          schemas: [],
          Operations: [{ op: "add", path: "active", value: true }],
        }),
      400,
      "invalidSyntax",
    ],
    [
      "an unknown user",
      () => scim("DELETE", "/Users/0199aaaa-0000-7000-8000-000000000000"),
      404,
      undefined,
    ],
    [
      "a user that is no UUID",
      () => scim("PUT", "/Users/ada", { userName: "ada", externalId: "a" }),
      404,
      undefined,
    ],
    [
      "an unknown group",
      () => patch("/Groups/x", { op: "add", path: "displayName", value: "x" }),
      404,
      undefined,
    ],
    [
      "a member who is no user",
      () => scim("POST", "/Groups", { displayName: "g", members: [{ value: "x" }] }),
      400,
      "invalidValue",
    ],
    [
      "a nested group",
      () => scim("POST", "/Groups", { displayName: "g", members: [{ value: "x", type: "Group" }] }),
      400,
      "invalidValue",
    ],
    ["an unknown path", () => scim("GET", "/Me"), 404, undefined],
    ["another method", () => scim("DELETE", "/Users"), 405, undefined],
  ])("of %s has SCIM's form", async (_, run, status, scimType) => {
    const answer = await run();
    expect([answer.status, answer.body.scimType]).toEqual([status, scimType]);
    expect(answer.body).toMatchObject({
      schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
      status: String(status),
      detail: expect.any(String),
    });
    expect(answer.headers.get("content-type")).toContain("application/scim+json");
  });

  it("leaves nothing of a PATCH whose last operation is rejected", async () => {
    await change(
      { op: "replace", path: "displayName", value: "new" },
      { op: "add", path: "nothing", value: "x" },
    );
    expect((await scim("GET", `/Users/${ids.alan}`)).body.displayName).toBe("The alan");
  });

  it("of a body has SCIM's form for other media types, broken JSON and a large one", async () => {
    const send = async (type: string, content: string) => {
      const answer = await test.api<{ scimType?: string }>("POST", "/scim/v2/Users", {
        as: { bearer: scimToken },
        raw: { type, content },
      });
      return [answer.status, answer.body.scimType];
    };
    expect(await send("text/plain", "{}")).toEqual([415, undefined]);
    expect(await send("application/scim+json", "{")).toEqual([400, "invalidSyntax"]);
    expect(await send("application/json", " ".repeat(1024 * 1024 + 1))).toEqual([413, undefined]);
    const many = `{"x":[${"{},".repeat(70_000)}{}]}`;
    expect(await send("application/json", many)).toEqual([413, undefined]);
    const deep = `{"x":${"[".repeat(40)}${"]".repeat(40)}}`;
    expect(await send("application/json", deep)).toEqual([400, "invalidSyntax"]);
  });
});

describe("a group", () => {
  it("has a name of its own in any case", async () => {
    expect((await scim("POST", "/Groups", { displayName: "Everyone" })).status).toBe(201);
    const again = await scim("POST", "/Groups", { displayName: "everyONE" });
    expect(again.body).toMatchObject({ status: "409", scimType: "uniqueness" });
  });

  it("loses a user who is deleted", { tags: "workerd" }, async () => {
    const { id } = await createPerson("short-lived");
    const group = await scim("POST", "/Groups", {
      displayName: "brief",
      members: [{ value: id }, { value: id }],
    });
    expect(group.body.members).toHaveLength(1);
    await scim("DELETE", `/Users/${id}`);
    expect((await scim("GET", `/Groups/${group.body.id}`)).body.members).toBeUndefined();
  });

  it("is returned without members, and core does not read them, when the request leaves them out", {
    tags: "workerd",
  }, async () => {
    const member = { value: ids.grace };
    const { id } = (await scim("POST", "/Groups", { displayName: "lean", members: [member] })).body;
    const paths = [
      `/Groups/${id}?`,
      `/Groups?filter=${encodeURIComponent('displayName eq "lean"')}&`,
    ];
    const read = async (parameters: string) => {
      const answers = await Promise.all(paths.map((path) => scim("GET", path + parameters)));
      return answers.map(({ status, body }) =>
        status === 200 ? (body.Resources?.[0] ?? body) : status,
      );
    };
    const whole = { id, members: [expect.objectContaining(member)] };
    for (const parameters of ["", "excludedAttributes=displayName", "attributes=MEMBERS"])
      expect(await read(parameters)).toMatchObject([whole, whole]);

    await test.db.execute(sql`alter table scim_member rename to hidden`);
    try {
      expect(await read("")).toEqual([500, 500]);
      for (const parameters of [
        "excludedAttributes=members",
        "excludedAttributes=externalId,Members",
        "excludedAttributes=urn:ietf:params:scim:schemas:core:2.0:Group:members",
        "attributes=id,displayName",
        "attributes=displayName,members&excludedAttributes=members",
      ]) {
        const groups = await read(parameters);
        expect(groups).toMatchObject([{ displayName: "lean" }, { displayName: "lean" }]);
        for (const group of groups) expect(group).not.toHaveProperty("members");
      }
    } finally {
      await test.db.execute(sql`alter table hidden rename to scim_member`);
    }
  });

  it("grants nothing by a name that only looks like a role group", async () => {
    await createPerson("mallory");
    const { id } = (await filtered('userName sw "mallory"')).body.Resources[0];
    for (const displayName of ["svc-admİn", "svc-admin ​", "ſvc-admin", "svc-admins"])
      await scim("POST", "/Groups", { displayName, members: [{ value: id }] });
    expect((await test.whoami("mallory")).scopes).toEqual(["read"]);
  });
});

it("discovery describes what core supports", { tags: "workerd" }, async () => {
  const { body } = await scim("GET", "/ServiceProviderConfig");
  expect(body).toMatchObject({
    patch: { supported: true },
    bulk: { supported: false },
    filter: { maxResults: 200 },
  });
  expect((await scim("GET", "/ResourceTypes")).body).toMatchObject({ totalResults: 2 });
  expect((await scim("GET", "/ResourceTypes/Group")).body).toMatchObject({ endpoint: "/Groups" });
  expect((await scim("GET", "/Schemas")).body).toMatchObject({ totalResults: 2 });
  const schema = await scim("GET", "/Schemas/urn:ietf:params:scim:schemas:core:2.0:User");
  expect(schema.body.attributes.map(({ name }: { name: string }) => name)).toContain("userName");
  expect((await scim("GET", "/Schemas/urn:none")).status).toBe(404);
});
