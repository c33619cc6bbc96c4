import { readFileSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { Secret } from "#kit/secret.ts";
import {
  type RoleConnection,
  startRoleServer,
  urlFor,
} from "#tests/support/database/role-server.ts";

const { admin, createRoles, connect, create, tools, stop } = await startRoleServer();
afterAll(stop);

beforeEach(() => createRoles("core", "plain", "given"));

/** Statements that every role may run by default, the first ones of pg_dump among them. */
const usual = [
  "select pg_catalog.set_config('search_path', '', false)",
  "select pg_is_in_recovery()",
  "select oid, rolname from pg_catalog.pg_roles",
  "select a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid",
  "select pg_sleep(0)",
  "select count(*) from pg_settings",
  "select subname from pg_subscription",
  "select count(*) from information_schema.tables",
  "create temp table t (a int) on commit drop",
  "do $$ begin end $$",
];
const works = async ({ sql }: RoleConnection) => {
  for (const statement of usual) await sql.unsafe(statement);
};
const isBare = async ({ sql }: RoleConnection) => {
  for (const statement of usual)
    await expect(sql.unsafe(statement)).rejects.toThrow("permission denied");
};

const groupOf = async ({ sql }: RoleConnection) => {
  const [row] = await sql`
    select 'svc_public_' || oid as name from pg_database where datname = current_database()`;
  return row?.name ?? "";
};

/** Returns the number of roles with the name of a group: 1, or 0. */
const groupsOf = async ({ sql }: RoleConnection, name: string): Promise<number> =>
  (await sql`select from pg_roles where rolname = ${name}`).length;
/** The tools with the role that an administrator made. */
const toolsOfGiven = (core: RoleConnection) =>
  tools(core, { url: new Secret(urlFor(core.url, "given")) });

/** Returns the privileges of PUBLIC in a database, in a stable order. */
const publicOf = async ({ sql }: RoleConnection) => {
  const rows = await sql`
    select held || ' ' || a.privilege_type || ' ' || a.is_grantable as held from (
      select oid::regprocedure::text as held, coalesce(proacl, acldefault('f', proowner)) as acl from pg_proc
      union all select oid::regclass::text, relacl from pg_class where relacl is not null
      union all select attrelid::regclass || '.' || attname, attacl from pg_attribute where attacl is not null
      union all select lanname, coalesce(lanacl, acldefault('l', lanowner)) from pg_language
      union all select 'database', coalesce(datacl, acldefault('d', datdba)) from pg_database where datname = current_database()
      union all select 'schema ' || nspname, nspacl from pg_namespace where nspacl is not null
    ) o, aclexplode(acl) a where a.grantee = 0 order by 1`;
  return Array.from(rows, ({ held }) => held);
};

/** The statements of docs/chat-sql.md that give PUBLIC back what core took. */
const undo =
  /public-role\.test\.ts -->\s+```sql\n(.*?)```/s.exec(
    readFileSync(new URL("../../docs/chat-sql.md", import.meta.url), "utf8"),
  )?.[1] ?? "";

const newcomer = async (attributes = "") => {
  const name = `newcomer_${crypto.randomUUID().replaceAll("-", "")}`;
  await admin.sql.unsafe(`create role ${name} login ${attributes}`);
  return name;
};

describe("what core takes from PUBLIC", () => {
  it("remains with every other role, and with roles created later once they are admitted", async () => {
    const core = await create();
    const plain = connect("plain");
    const { admitRoles } = await tools(core);
    await works(plain);
    for (const attributes of ["", "noinherit"]) {
      const name = await newcomer(attributes);
      const connection = connect(name);
      await isBare(connection);
      expect(await admitRoles()).toEqual([]);
      await works(connection);
    }
  });

  it("is given to a new role at once by the documented statement", async () => {
    const core = await create();
    await tools(core);
    const name = await newcomer();
    await admin.sql.unsafe(`grant ${await groupOf(core)} to ${name}`);
    await works(connect(name));
  });

  it("does not keep a role from being dropped, nor a database", async () => {
    const core = await create();
    const { admitRoles } = await tools(core);
    const name = await newcomer();
    await admitRoles();
    await works(connect(name));
    await admin.sql.unsafe(`drop role ${name}`);
    const group = await groupOf(core);
    await admin.sql.unsafe(`drop database ${core.database} with (force)`);
    await admin.sql.unsafe(`drop role ${group}`);
  });

  it("is never given to the role of the tools", async () => {
    const core = await create();
    const { sql, admitRoles } = await tools(core);
    await admitRoles();
    const group = await groupOf(core);
    const members = async () => {
      const rows =
        await core.sql`select r.rolname from pg_auth_members m join pg_roles r on r.oid = m.member
        where m.roleid = ${group}::regrole and r.rolname in ('given', ${group.replace("public", "chat")})`;
      return rows.map(({ rolname }) => rolname);
    };
    expect(await members()).toEqual(["given"]);
    const adopted = await toolsOfGiven(core);
    expect(adopted.offReason).toBeNull();
    expect(await adopted.admitRoles()).toEqual([]);
    expect(await members()).toEqual([]);
    await isBare(connect("given"));
    expect(sql).not.toBeNull();
  });

  it("is returned to PUBLIC by the documented statements, and taken again by the next boot", async () => {
    const core = await create();
    const before = await publicOf(core);
    await tools(core);
    const after = await publicOf(core);
    expect(before.length - after.length).toBeGreaterThan(700);
    await core.sql.unsafe(undo);
    expect(await publicOf(core)).toEqual(before);
    expect(await groupsOf(core, await groupOf(core))).toBe(0);
    await works(connect(await newcomer()));
    await tools(core);
    expect(await publicOf(core)).toEqual(after);
  });

  it("does not include what an administrator took from PUBLIC, before core or from the group", async () => {
    const core = await create();
    await core.sql.unsafe("revoke execute on function pg_sleep(double precision) from public");
    await tools(core);
    await core.sql.unsafe(
      `revoke execute on function pg_is_in_recovery() from ${await groupOf(core)}`,
    );
    await (await tools(core)).admitRoles();
    const plain = connect("plain");
    for (const taken of ["select pg_sleep(0)", "select pg_is_in_recovery()"])
      await expect(plain.sql.unsafe(taken)).rejects.toThrow("permission denied");
    await plain.sql.unsafe("select count(*) from pg_class");
  });

  it("is the same after boots and admissions of several cores at once", async () => {
    const core = await create();
    const other = connect();
    const created = await Promise.all([tools(core), tools(other), tools(core)]);
    expect(created.map(({ offReason }) => offReason)).toEqual([null, null, null]);
    const names = [await newcomer(), await newcomer()];
    await Promise.all(created.map(({ admitRoles }) => admitRoles()));
    for (const name of names) await works(connect(name));
    const stored =
      () => core.sql`select (select md5(string_agg(relacl::text, ',' order by oid)) from pg_class) as tables,
      (select md5(string_agg(proacl::text, ',' order by oid)) from pg_proc) as functions,
      (select md5(string_agg(m::text, ',' order by oid)) from pg_auth_members m) as members`;
    const before = [...(await stored())];
    for (const { admitRoles } of [...created, await tools(core), await tools(other)])
      await admitRoles();
    expect([...(await stored())]).toEqual(before);
  });

  it("is separate in two databases of a server, each with a role of its own for the tools", async () => {
    const first = await create();
    const second = await create();
    const [one, two] = await Promise.all([tools(first), tools(second)]);
    const name = await newcomer();
    await one.admitRoles();
    await works(connect(name, first.database));
    await isBare(connect(name, second.database));
    await two.admitRoles();
    await works(connect(name, second.database));
    expect(await toolsOfGiven(second)).toMatchObject({ offReason: null });
    expect(await tools(first)).toMatchObject({ offReason: null, warnings: [] });
    await second.sql.unsafe(undo);
    await isBare(connect(await newcomer(), first.database));
    await works(connect(name, first.database));
  });

  it("is given to the group of a copied or restored database", async () => {
    const original = await create();
    await tools(original);
    await original.close(1);
    await admin.sql.unsafe(`create database copy template ${original.database}`);
    const copy = connect("postgres", "copy");
    const name = await newcomer();
    // A copy has no privileges on the database itself: PUBLIC may create temporary tables again.
    await expect(connect(name, "copy").sql.unsafe("select count(*) from pg_class")).rejects.toThrow(
      "permission denied",
    );
    await (await tools(copy)).admitRoles();
    await works(connect(name, "copy"));
    const former = await groupOf(connect("postgres", original.database));
    expect(await toolsOfGiven(copy)).toMatchObject({
      offReason: expect.stringContaining(`is a member of ${former}`),
    });
    // The group has privileges in the copy too, and so remains.
    const source = connect("postgres", original.database);
    await source.sql.unsafe(undo);
    expect(await groupsOf(source, former)).toBe(1);
    await works(connect(await newcomer(), original.database));
  });
});

describe("a core that is no superuser", () => {
  it("takes nothing from PUBLIC", async () => {
    await admin.sql.unsafe("alter role core createrole");
    const core = await create("core");
    const before = await publicOf(core);
    const { offReason, warnings, admitRoles } = await tools(core);
    await admin.sql.unsafe("alter role core nocreaterole");
    expect(offReason).toBeNull();
    expect(warnings).toEqual([
      expect.stringMatching(/keeps \d+ privileges that core may not revoke/),
    ]);
    expect(await admitRoles()).toEqual([]);
    expect(await publicOf(core)).toEqual(before);
    expect(await groupsOf(core, await groupOf(core))).toBe(0);
  });

  it("admits roles as the owner of a database of which a superuser's core took it, or names those that it may not admit", async () => {
    const core = await create("core");
    await tools({ ...core, db: connect().db });
    const { admitRoles } = await toolsOfGiven(core);
    const name = await newcomer();
    expect(await admitRoles()).toEqual([]);
    await works(connect(name));
    await admin.sql.unsafe(`drop role ${name}`);
    await admin.sql.unsafe(`revoke admin option for ${await groupOf(core)} from core cascade`);
    const stranger = await newcomer();
    expect(await admitRoles()).toContain(stranger);
    await isBare(connect(stranger));
  });
});
