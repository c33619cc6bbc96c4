import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { Secret } from "#kit/secret.ts";
import { startRoleServer, urlFor } from "#tests/support/database/role-server.ts";

const { server, createRoles, create, tools, stop } = await startRoleServer();
afterAll(stop);
const { signal } = new AbortController();
type Tools = Awaited<ReturnType<typeof tools>>;
const count = ({ sql }: Pick<Tools, "sql">) =>
  sql?.query("select count(*) from collectors", signal);
const none = { kind: "rows", rows: [[0]] };

beforeEach(() => createRoles("core", "plain", "given", "powerful"));

describe("the role that boot makes", () => {
  it("is shared by all cores of a database, and repeated boots change nothing", async () => {
    const core = await create();
    const stored =
      () => core.sql`select oid, rolpassword, rolconnlimit, (select array_agg(setconfig) from pg_db_role_setting) as settings,
      (select md5(string_agg(relacl::text, ',' order by oid)) from pg_class) as grants,
      (select array_agg(m order by m.oid) from pg_auth_members m)::text as members from pg_authid where rolname like 'svc\\_chat\\_%'
      order by oid desc limit 1`;
    const first = await tools(core);
    expect(first).toMatchObject({ offReason: null, warnings: [] });
    const before = await stored();
    const [second, third] = await Promise.all([tools(core), tools(core)]);
    expect([...(await stored())]).toEqual([...before]);
    for (const each of [first, second, third]) expect(await count(each)).toMatchObject(none);
  });

  it("serves cores with the old and the new secret during a rotation, whichever set its password last", async () => {
    const core = await create();
    // Over TCP, where the server asks for the password.
    const locate = async () => server.tcpUrl(core.database);
    const old = "o".repeat(32);
    const next = "n".repeat(32);
    const expectRows = async (...each: Tools[]) => {
      for (const one of each) expect(await count(one)).toMatchObject(none);
    };
    // Step 1, step 2 of another core, and a core of step 1 that restarts.
    const first = await tools(core, { locate, secret: old, secretPrevious: next });
    const second = await tools(core, { locate, secret: next, secretPrevious: old });
    await expectRows(first, second);
    const again = await tools(core, { locate, secret: old, secretPrevious: next });
    await expectRows(first, second, again);
    const third = await tools(core, { locate, secret: next });
    await expectRows(first, second, third);
    // After the rotation the old secret opens nothing.
    const late = await tools(core, { locate, secret: next });
    await tools(core, { locate, secret: "x".repeat(32) });
    expect(await count(late)).toMatchObject({ kind: "error", code: "database_unavailable" });
  });

  it("is not made by a core that may not create roles: the tools are off with a reason", async () => {
    const core = await create("core");
    const offReason =
      "core's database role may not create roles; docs/chat-sql.md has the statements for an administrator";
    const warnings = [`the SQL tools of the chat are off: ${offReason}`];
    expect(await tools(core)).toMatchObject({ sql: null, offReason, warnings });
  });

  it("is off when core could not create schema chat", async () => {
    const core = await create();
    await core.sql.unsafe("drop schema chat cascade");
    expect(await tools(core)).toMatchObject({
      sql: null,
      offReason: expect.stringContaining("schema chat"),
    });
  });

  it("is refused once somebody gives it more", async () => {
    const core = await create();
    await tools(core);
    const [found] = await core.sql`
      select 'svc_chat_' || oid as name from pg_database where datname = current_database()`;
    for (const [fault, give, take] of [
      ["is a superuser", "alter role ROLE superuser", "alter role ROLE nosuperuser"],
      ["may create roles", "alter role ROLE createrole", "alter role ROLE nocreaterole"],
      [
        "is a member of pg_read_all_data",
        "grant pg_read_all_data to ROLE",
        "revoke pg_read_all_data from ROLE",
      ],
      [
        "may read or write person",
        "grant select on person to ROLE",
        "revoke all on person from ROLE",
      ],
      [
        "may read or write person",
        "grant select (display_name) on person to ROLE",
        "revoke all on person from ROLE",
      ],
      [
        "was granted a privilege on function pg_read_file(text)",
        "grant execute on function pg_read_file(text) to ROLE",
        "revoke all on function pg_read_file(text) from ROLE",
      ],
    ] as const) {
      await core.sql.unsafe(give.replace("ROLE", found?.name ?? ""));
      expect(await tools(core)).toMatchObject({
        sql: null,
        offReason: expect.stringContaining(fault),
      });
      await core.sql.unsafe(take.replace("ROLE", found?.name ?? ""));
    }
    expect(await tools(core)).toMatchObject({ offReason: null });
  });
});

describe("the role of SVC_CHAT_DATABASE_URL", () => {
  it("is used when it may read the views and nothing else", async () => {
    const core = await create();
    const given = await tools(core, { url: new Secret(urlFor(core.url, "given")) });
    expect(given.offReason).toBeNull();
    expect(await count(given)).toMatchObject(none);
    const [row] = await core.sql`select count(*)::int as roles from pg_roles
      where rolname = 'svc_chat_' || (select oid from pg_database where datname = current_database())`;
    expect(row?.roles).toBe(0);
  });

  it("may change with its file; another role runs nothing unless it may read the views alone", async () => {
    const core = await create();
    const url = new Secret(urlFor(core.url, "given"));
    const { sql: given } = await tools(core, { url });
    const login = () => count({ sql: given });
    await core.sql`alter role powerful createdb`;
    url.replaceBy(new Secret(urlFor(core.url, "powerful")));
    expect(await login()).toMatchObject({ kind: "error", code: "database_unavailable" });
    await core.sql`alter role powerful nocreatedb`;
    expect(await login()).toMatchObject(none);
    url.replaceBy(new Secret(urlFor(core.url, "given")));
    expect(await login()).toMatchObject(none);
    await core.sql.unsafe("drop owned by powerful");
  });

  it("is refused when it may do more", async () => {
    const core = await create();
    const toolsOf = (role: string) => tools(core, { url: new Secret(urlFor(core.url, role)) });
    const refused = (fault: string) => ({ sql: null, offReason: expect.stringContaining(fault) });
    for (const [fault, give] of [
      ["may create databases", "alter role powerful createdb"],
      ["may replicate", "alter role powerful replication"],
      ["bypasses row-level security", "alter role powerful bypassrls"],
      ["may not log in", "alter role powerful nologin"],
      ["is a member of plain", "grant plain to powerful"],
      ["owns table stolen", "create table stolen (a int); alter table stolen owner to powerful"],
      ["may create in schema public", "grant create on schema public to powerful"],
      ["may write chat.heartbeats", "grant delete on chat.heartbeats to powerful"],
    ] as const) {
      await core.sql.unsafe(give);
      expect(await toolsOf("powerful")).toMatchObject(refused(fault));
      await core.sql.unsafe("drop owned by powerful; drop role powerful");
      await createRoles("powerful");
    }
    expect(await toolsOf("postgres")).toMatchObject(refused("is a superuser"));
    expect(await toolsOf("nobody")).toMatchObject(refused("does not exist"));
    expect(await toolsOf("powerful")).toMatchObject({ offReason: null });
  });

  it("is refused when the server does not admit it", async () => {
    const core = await create();
    const url = new URL(server.tcpUrl(core.database));
    url.username = "given";
    url.password = "wrong";
    expect(await tools(core, { url: new Secret(url.href) })).toMatchObject({
      sql: null,
      offReason: expect.stringContaining("does not admit"),
    });
  });
});
