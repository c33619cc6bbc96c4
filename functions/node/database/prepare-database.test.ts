import { describe, expect, it } from "vitest";
import { connectDatabase } from "#functions/store/database/database.ts";
import {
  describeBlockers,
  MigrationBlocked,
} from "#functions/store/database/migration-blockers.ts";
import { systemClock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { testTenantId } from "#scripts/lab/people.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { socketOf, startDatabaseProxy, startTcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { createTestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { createCoreServers, createDatabaseServers } from "./database-servers.ts";
import { prepareDatabase } from "./prepare-database.ts";

const database = await useTestDatabase();

const prepare = async (url: string, { clock = systemClock, log = createTestLog() } = {}) => {
  const config = { databaseSessionUrl: null, databasePasswordCommand: null };
  const servers = createCoreServers({ ...config, databaseUrl: new Secret(url) }, log);
  const options = { tenantId: testTenantId, clock, log };
  return prepareDatabase(servers, options).then(
    () => "prepared",
    (error: unknown) => {
      if (!(error instanceof ConfigError)) throw error;
      return error.message;
    },
  );
};
const urlOf = (change: (url: URL) => void) => {
  const url = new URL(database.url);
  change(url);
  return url.href;
};

describe("prepareDatabase", () => {
  it("D9: uses a server as it is", async () => {
    expect(await prepare(database.url)).toBe("prepared");
  });

  it("D9: names the setting when the role owns nothing, or the database does not exist", async () => {
    const { sql } = database.connect();
    const role = `role_${crypto.randomUUID().replaceAll("-", "")}`;
    await sql.unsafe(`create role ${role} login`);
    await sql`drop table schema_definition`;
    expect(await prepare(urlOf((url) => (url.username = role)))).toMatch(
      /SVC_DATABASE_URL.*names a role that may not/,
    );
    expect(await prepare(urlOf((url) => (url.pathname = "/nowhere")))).toMatch(
      /SVC_DATABASE_URL.*does not exist/,
    );
    expect(await prepare(urlOf((url) => (url.username = "nobody_here")))).toMatch(
      /SVC_DATABASE_URL.*does not admit/,
    );
    await sql.unsafe(`drop role ${role}`);
  });

  it("D7: names the setting and what to do, in one sentence, when another build migrated the database", async () => {
    const other = await createTestDatabase();
    const { sql } = other.connect();
    await sql`update schema_migration set sha256 = 'another' where name = '0000_baseline'`;
    expect(await prepare(other.url)).toBe(
      "configuration is invalid:\n  SVC_DATABASE_URL: this database has a text of 0000_baseline that no version upgrades: export what " +
        'is in it with pg_dump --format=custom --file=core.dump "$SVC_DATABASE_URL", and start this version on an empty database ' +
        "(docs/upgrade.md)",
    );
    await other.drop();
  });

  it("D7: migrates again once no other transaction uses a table that it changes, and names that one at the end of a minute", async () => {
    const other = await createTestDatabase();
    const { sql } = other.connect();
    await sql`delete from schema_migration where name like 'definitions_%'`;
    const log = createTestLog();
    const reading = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    let pid = 0;
    const reader = other.connect().sql.begin(async (tx) => {
      await tx`set local application_name = 'nightly report'`;
      await tx.unsafe("/* job */ select 'secret' from ingest_block limit 0");
      pid = (await tx`select pg_backend_pid() as pid`)[0]?.pid;
      reading.resolve();
      await ended.promise;
    });
    await reading.promise;
    // The minute has passed once an attempt has seen who it waited for.
    const isNamed = () =>
      log.lines.some(({ fields }) => JSON.stringify(fields).includes("nightly report"));
    const late = {
      ...systemClock,
      sleep: async () => undefined,
      monotonic: () => (isNamed() ? 61_000 : 0),
    };
    const refusal: Error = await prepare(other.url, { clock: late, log }).catch((error) => error);
    expect(refusal.message).toMatch(
      new RegExp(
        `^SVC_DATABASE_URL: another transaction uses a table that the migration changes, for a minute: process ${pid} \\(nightly report, ` +
          `open for \\d+ s, idle in transaction, its last statement a SELECT\\): end it with select pg_terminate_backend\\(${pid}\\), or start`,
      ),
    );
    expect(log.text()).not.toContain("secret");
    const again = createTestLog();
    const end = async () => {
      ended.resolve();
      await reader;
    };
    expect(await prepare(other.url, { clock: { ...systemClock, sleep: end }, log: again })).toBe(
      "prepared",
    );
    expect(again.lines.map(({ message }) => message)).toEqual([
      "another transaction uses a table that the migration changes; trying again",
      "database migrated",
    ]);
    await other.drop();
  });

  it("names a statement that ends every process that blocks a migration", () => {
    const blocker = { application: null, ageSeconds: null, state: null, statement: null };
    const blocked = new MigrationBlocked(
      [1, 2, 0].map((pid) => ({ ...blocker, pid })),
      {},
    );
    expect(describeBlockers(blocked)).toContain(
      "select pg_terminate_backend(1), pg_terminate_backend(2), or start",
    );
  });

  it.each([
    [
      "another encoding than UTF8",
      "encoding 'LATIN1' locale 'C'",
      "",
      /^create database .* encoding 'UTF8'$/,
    ],
    ["a missing schema public", "", "drop schema public", /^create schema public/],
    [
      "sessions that only read",
      "",
      "alter database NAME set default_transaction_read_only = on",
      /^alter role/,
    ],
  ])(
    "D10: refuses %s before the first migration, with the command that mends it",
    async (_, options, change, mend) => {
      const { sql } = database.connect();
      const name = `${new URL(database.url).pathname.slice(1)}_other`;
      await sql.unsafe(`create database ${name} template template0 ${options}`);
      const url = urlOf((to) => (to.pathname = `/${name}`));
      const other = connectDatabase({ url, writes: false });
      await other.sql.unsafe(change.replace("NAME", name));
      const [, command = ""] =
        /SVC_DATABASE_URL: leads to [^:]*: (.*)$/.exec(await prepare(url)) ?? [];
      expect(command).toMatch(mend);
      expect(await other.sql`select from pg_class where relname = 'schema_migration'`).toEqual([]);
      if (!command.startsWith("create database")) {
        await other.sql.unsafe(command);
        expect(await prepare(url)).toBe("prepared");
      }
      await other.close();
      await sql.unsafe(`drop database ${name} with (force)`);
    },
  );

  it("D9: refuses a pooler in transaction mode", async () => {
    const proxied = await startDatabaseProxy(database.url);
    // Every connection gets the same process, as from a pool of one server connection.
    const { sql } = database.connect();
    await sql`create function public.pg_backend_pid() returns int language sql as 'select 4711'`;
    const url = `${proxied.url}?options=${encodeURIComponent("-csearch_path=public,pg_catalog")}`;
    expect(await prepare(url)).toMatch(
      /SVC_DATABASE_SESSION_URL: is required.*pooler in transaction mode/,
    );
    await sql`drop function public.pg_backend_pid`;
    await proxied.proxy.close();
  });
});

it("D9: a URL of several servers uses the first that accepts writes, and another one once that fails", async () => {
  const standby = await createTestDatabase();
  const socket = socketOf(database.url);
  const proxies = [
    await startTcpProxy("/nowhere"),
    await startTcpProxy(socket),
    await startTcpProxy(socket),
  ] as const;
  const name = new URL(standby.url).pathname;
  const hosts = proxies.map((proxy) => `127.0.0.1:${proxy.port}`).join(",");
  const url = `postgres://postgres@${hosts}${name}?target_session_attrs=read-write`;
  const servers = createDatabaseServers(url);
  const { sql, close } = connectDatabase({ url, servers, connectionsMax: 2 });
  const write = () => sql`create table if not exists written (x int)`;
  await write();
  expect(await servers.locate()).toContain(`:${proxies[1].port}`);
  proxies[1].target("/nowhere");
  proxies[1].reset();
  await expect
    .poll(
      () =>
        write().then(
          () => true,
          () => false,
        ),
      { timeout: 5_000 },
    )
    .toBe(true);
  expect(await servers.locate()).toContain(`:${proxies[2].port}`);
  await close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await standby.drop();
});
