import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startEmbeddedPostgres } from "../../scripts/postgres/embedded-postgres.ts";
import { readMigrations } from "../node/read-migrations.ts";
import { type ConnectedDatabase, connectDatabase } from "../store/database.ts";
import { migrate } from "../store/migrate.ts";
import { type ChatSqlNeeds, createChatSql } from "./create-chat-sql.ts";

// A server of its own: roles belong to the whole server, and privileges are taken from PUBLIC.
const server = await startEmbeddedPostgres({ tcp: true });
const admin = connectDatabase({ url: server.url(), connectionsMax: 1, deadlineMs: 60_000 });
const opened: ConnectedDatabase[] = [];
afterAll(async () => {
  await Promise.all([admin, ...opened].map(({ close }) => close(1)));
  await server.stop("immediate");
});

const thresholds = {
  heartbeatIntervalSeconds: 60,
  staleAfterSeconds: 180,
  enrollingSeconds: 900,
  certExpiringFraction: 0.25,
  versionMin: null,
};
const { signal } = new AbortController();

/** Connects to the test's database as a role; without one, as the superuser. */
const connect = (role = "postgres") => {
  const url = Object.assign(new URL(server.url(database)), { username: role }).href;
  const connection = connectDatabase({ url, connectionsMax: 2, deadlineMs: 60_000 });
  opened.push(connection);
  return { ...connection, url };
};
let database = "";
let count = 0;

/** A database of its own, migrated by `role`. */
const create = async (role = "postgres") => {
  count += 1;
  database = `fleet_${count}`;
  await admin.sql.unsafe(
    `create database ${database} owner ${role} template ${role === "postgres" ? "migrated" : "template1"}`,
  );
  const core = connect(role);
  await migrate(core.sql, await readMigrations());
  return core;
};

beforeAll(async () => {
  await admin.sql.unsafe("create database migrated");
  database = "migrated";
  const { sql, close } = connect();
  await migrate(sql, await readMigrations());
  await close();
});

const tools = ({ db, url }: Awaited<ReturnType<typeof create>>, over: Partial<ChatSqlNeeds> = {}) =>
  createChatSql({
    db,
    locate: async () => url,
    url: null,
    secret: "s".repeat(32),
    thresholds,
    readRules: async () => ({ now: new Date(), thresholds, versions: [], platforms: [], unsupportedVersions: [] }),
    ...over,
  });

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
      (select md5(string_agg(relacl::text, ',' order by oid)) from pg_class) as grants from pg_authid where rolname like 'svc\\_chat\\_%'
      order by oid desc limit 1`;
    const first = await tools(core);
    expect(first).toMatchObject({ offReason: null, warnings: [] });
    const before = await stored();
    const [second, third] = await Promise.all([tools(core), tools(core)]);
    expect([...(await stored())]).toEqual([...before]);
    for (const { sql } of [first, second, third])
      expect(await sql?.query("select count(*) from collectors", signal)).toMatchObject({ kind: "rows", rows: [[0]] });
  });

  it("takes nothing from the other roles, and gives to those that were created later", async () => {
    const core = await create();
    const plain = connect("plain");
    const statements = [
      "select pg_sleep(0)",
      "select count(*) from pg_class",
      "select count(*) from pg_settings",
      "create temp table t (a int)",
    ];
    const { grantNewRoles } = await tools(core);
    for (const statement of statements) await plain.sql.unsafe(statement);
    await admin.sql.unsafe("create role newcomer login");
    const newcomer = connect("newcomer");
    await expect(newcomer.sql.unsafe("select count(*) from pg_class")).rejects.toThrow("permission denied");
    expect(await Promise.all([grantNewRoles(), grantNewRoles()])).toContain(true);
    for (const statement of statements) await newcomer.sql.unsafe(statement);
    expect(await grantNewRoles()).toBe(false);
    await admin.sql.unsafe("drop role if exists nobody");
  });

  it("leaves what an administrator took from PUBLIC taken", async () => {
    const core = await create();
    await core.sql.unsafe("revoke execute on function pg_sleep(double precision) from public");
    await tools(core);
    await expect(connect("plain").sql.unsafe("select pg_sleep(0)")).rejects.toThrow("permission denied");
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

  it("is made by a core that may create roles but is no superuser, with a warning of what PUBLIC keeps", async () => {
    await admin.sql.unsafe("alter role core createrole");
    const core = await create("core");
    const { sql, warnings } = await tools(core);
    await admin.sql.unsafe("alter role core nocreaterole");
    expect(await sql?.query("select count(*) from collectors", signal)).toMatchObject({ kind: "rows" });
    expect(warnings).toEqual([expect.stringMatching(/keeps \d+ privileges that core may not revoke/)]);
  });

  it("is off when core could not create schema chat", async () => {
    const core = await create();
    await core.sql.unsafe("drop schema chat cascade");
    expect(await tools(core)).toMatchObject({ sql: null, offReason: expect.stringContaining("schema chat") });
  });

  it("is refused once somebody gives it more", async () => {
    const core = await create();
    await tools(core);
    const [found] = await core.sql<{ name: string }[]>`
      select 'svc_chat_' || oid as name from pg_database where datname = current_database()`;
    for (const [fault, give, take] of [
      ["is a superuser", "alter role ROLE superuser", "alter role ROLE nosuperuser"],
      ["may create roles", "alter role ROLE createrole", "alter role ROLE nocreaterole"],
      ["is a member of pg_read_all_data", "grant pg_read_all_data to ROLE", "revoke pg_read_all_data from ROLE"],
      ["may read or write person", "grant select on person to ROLE", "revoke all on person from ROLE"],
      ["may read or write person", "grant select (display_name) on person to ROLE", "revoke all on person from ROLE"],
      [
        "was granted a privilege on function pg_read_file(text)",
        "grant execute on function pg_read_file(text) to ROLE",
        "revoke all on function pg_read_file(text) from ROLE",
      ],
    ] as const) {
      await core.sql.unsafe(give.replace("ROLE", found?.name ?? ""));
      expect(await tools(core)).toMatchObject({ sql: null, offReason: expect.stringContaining(fault) });
      await core.sql.unsafe(take.replace("ROLE", found?.name ?? ""));
    }
    expect(await tools(core)).toMatchObject({ offReason: null });
  });
});

describe("the role of SVC_CHAT_DATABASE_URL", () => {
  const urlOf = (role: string) => Object.assign(new URL(server.url(database)), { username: role }).href;

  it("is used when it may read the views and nothing else", async () => {
    const core = await create();
    const { sql, offReason } = await tools(core, { url: urlOf("given") });
    expect(offReason).toBeNull();
    expect(await sql?.query("select count(*) from collectors", signal)).toMatchObject({ kind: "rows", rows: [[0]] });
    const [row] = await core.sql`select count(*)::int as roles from pg_roles
      where rolname = 'svc_chat_' || (select oid from pg_database where datname = current_database())`;
    expect(row?.roles).toBe(0);
  });

  it("is refused when it may do more", async () => {
    const core = await create();
    for (const [fault, role, give, take] of [
      ["is a superuser", "postgres", "select 1", "select 1"],
      ["may create databases", "powerful", "alter role powerful createdb", "alter role powerful nocreatedb"],
      ["may replicate", "powerful", "alter role powerful replication", "alter role powerful noreplication"],
      ["bypasses row-level security", "powerful", "alter role powerful bypassrls", "alter role powerful nobypassrls"],
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
      const { sql, offReason } = await tools(core, { url: urlOf(role) });
      expect(sql).toBeNull();
      expect(offReason).toContain(fault);
      await core.sql.unsafe(take);
    }
    expect(await tools(core, { url: urlOf("powerful") })).toMatchObject({ offReason: null });
  });

  it("is used although an earlier boot, with a role of its own, took it for one of the others", async () => {
    const core = await create();
    await tools(core);
    expect(await tools(core, { url: urlOf("given") })).toMatchObject({ offReason: null, warnings: [] });
    expect(await tools(core)).toMatchObject({ offReason: null });
  });

  it("is refused when the server does not admit it", async () => {
    const core = await create();
    const url = new URL(server.tcpUrl(database));
    url.username = "given";
    url.password = "wrong";
    expect(await tools(core, { url: url.href })).toMatchObject({
      sql: null,
      offReason: expect.stringContaining("does not admit"),
    });
  });
});
