import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { startRoleServer } from "#tests/support/role-server.ts";

const { server, admin, create, tools, stop } = await startRoleServer();
afterAll(stop);
const { signal } = new AbortController();

beforeEach(async () => {
  for (const role of ["core", "plain", "later", "given", "powerful"])
    await admin.sql.unsafe(`do $$ begin
      if not exists (select from pg_roles where rolname = '${role}') then create role ${role} login; end if; end $$`);
});

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
    for (const { sql } of [first, second, third])
      expect(await sql?.query("select count(*) from collectors", signal)).toMatchObject({
        kind: "rows",
        rows: [[0]],
      });
  });

  it("serves cores with the old and the new secret during a rotation, whichever set its password last", async () => {
    const core = await create();
    // Over TCP, where the server asks for the password.
    const locate = async () => server.tcpUrl(core.database);
    const old = "o".repeat(32);
    const next = "n".repeat(32);
    const count = async ({ sql }: Awaited<ReturnType<typeof tools>>) =>
      (await sql?.query("select count(*) from collectors", signal))?.kind;
    // Step 1, step 2 of another core, and a core of step 1 that restarts.
    const first = await tools(core, { locate, secret: old, secretPrevious: next });
    const second = await tools(core, { locate, secret: next, secretPrevious: old });
    expect(await Promise.all([first, second].map(count))).toEqual(["rows", "rows"]);
    const again = await tools(core, { locate, secret: old, secretPrevious: next });
    expect(await Promise.all([first, second, again].map(count))).toEqual(["rows", "rows", "rows"]);
    const third = await tools(core, { locate, secret: next });
    expect(await Promise.all([first, second, third].map(count))).toEqual(["rows", "rows", "rows"]);
    // After the rotation the old secret opens nothing.
    const late = await tools(core, { locate, secret: next });
    await tools(core, { locate, secret: "x".repeat(32) });
    expect(await late.sql?.query("select 1 as one from collectors", signal)).toMatchObject({
      kind: "error",
      code: "database_unavailable",
    });
  });

  it("is not made by a core that may not create roles: the tools are off with a reason", async () => {
    const core = await create("core");
    const { sql, offReason, warnings } = await tools(core);
    expect(sql).toBeNull();
    expect(offReason).toBe(
      "core's database role may not create roles; docs/chat-sql.md has the statements for an administrator",
    );
    expect(warnings).toEqual([`the SQL tools of the chat are off: ${offReason}`]);
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
  type Core = Awaited<ReturnType<typeof create>>;
  const urlOf = (core: Core, role: string) =>
    Object.assign(new URL(core.url), { username: role }).href;

  it("is used when it may read the views and nothing else", async () => {
    const core = await create();
    const { sql, offReason } = await tools(core, { url: urlOf(core, "given") });
    expect(offReason).toBeNull();
    expect(await sql?.query("select count(*) from collectors", signal)).toMatchObject({
      kind: "rows",
      rows: [[0]],
    });
    const [row] = await core.sql`select count(*)::int as roles from pg_roles
      where rolname = 'svc_chat_' || (select oid from pg_database where datname = current_database())`;
    expect(row?.roles).toBe(0);
  });

  it("is refused when it may do more", async () => {
    const core = await create();
    for (const [fault, role, give, take] of [
      ["is a superuser", "postgres", "select 1", "select 1"],
      [
        "may create databases",
        "powerful",
        "alter role powerful createdb",
        "alter role powerful nocreatedb",
      ],
      [
        "may replicate",
        "powerful",
        "alter role powerful replication",
        "alter role powerful noreplication",
      ],
      [
        "bypasses row-level security",
        "powerful",
        "alter role powerful bypassrls",
        "alter role powerful nobypassrls",
      ],
      ["may not log in", "powerful", "alter role powerful nologin", "alter role powerful login"],
      ["is a member of plain", "powerful", "grant plain to powerful", "revoke plain from powerful"],
      [
        "owns table stolen",
        "powerful",
        "create table stolen (a int); alter table stolen owner to powerful",
        "drop table stolen",
      ],
      [
        "may create in schema public",
        "powerful",
        "grant create on schema public to powerful",
        "revoke create on schema public from powerful",
      ],
      [
        "may write chat.heartbeats",
        "powerful",
        "grant delete on chat.heartbeats to powerful",
        "revoke delete on chat.heartbeats from powerful",
      ],
      ["does not exist", "nobody", "select 1", "select 1"],
    ] as const) {
      await core.sql.unsafe(give);
      const { sql, offReason } = await tools(core, { url: urlOf(core, role) });
      expect(sql).toBeNull();
      expect(offReason).toContain(fault);
      await core.sql.unsafe(take);
    }
    expect(await tools(core, { url: urlOf(core, "powerful") })).toMatchObject({ offReason: null });
  });

  it("is refused when the server does not admit it", async () => {
    const core = await create();
    const url = new URL(server.tcpUrl(core.database));
    url.username = "given";
    url.password = "wrong";
    expect(await tools(core, { url: url.href })).toMatchObject({
      sql: null,
      offReason: expect.stringContaining("does not admit"),
    });
  });
});
