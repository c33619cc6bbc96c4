import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { testTenantId } from "#scripts/lab/people.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import {
  canStartPgBouncer,
  type PoolMode,
  type RunningPgBouncer,
  startPgBouncer,
} from "#tests/support/database/pgbouncer.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database.ts";
import { createCoreServers } from "./database-servers.ts";
import { prepareDatabase } from "./prepare-database.ts";

const canStart = await canStartPgBouncer();

const role = `pooled_${crypto.randomUUID().replaceAll("-", "")}`;
let database: TestDatabase;
let other: TestDatabase;
let poolers: Record<PoolMode, RunningPgBouncer>;
beforeAll(async () => {
  [database, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  const [session, transaction, statement] = await Promise.all(
    (["session", "transaction", "statement"] as const).map((mode) =>
      startPgBouncer(database.url, { mode, roles: [role] }),
    ),
  );
  poolers = { session, transaction, statement } as typeof poolers;
});
afterAll(async () => {
  await Promise.all(Object.values(poolers).map(({ stop }) => stop()));
  await Promise.all([database.drop(), other.drop()]);
});

/** Returns "prepared" or the faults of the configuration, and the warnings. */
const prepare = async (url: string, sessionUrl?: string) => {
  const log = createTestLog();
  const servers = createCoreServers(
    {
      databaseUrl: new Secret(url),
      databaseSessionUrl: sessionUrl === undefined ? null : new Secret(sessionUrl),
      databasePasswordCommand: null,
    },
    log,
  );
  const outcome = await prepareDatabase(servers, {
    tenantId: testTenantId,
    clock: systemClock,
    log,
  }).then(
    () => "prepared",
    (error: unknown) => {
      if (!(error instanceof ConfigError)) throw error;
      return error.faults.map(({ variable, message }) => `${variable} ${message}`).join();
    },
  );
  return {
    outcome,
    warnings: log.lines.filter(({ level }) => level === "warn").map(({ message }) => message),
  };
};
const through = (mode: PoolMode, to = database) => poolers[mode].url(to.url);

describe.skipIf(!canStart)("the poolers that core starts behind", () => {
  it("D9: uses PgBouncer in session mode as it is", async () => {
    expect(await prepare(through("session"))).toEqual({ outcome: "prepared", warnings: [] });
  });

  it("D9: requires SVC_DATABASE_SESSION_URL behind PgBouncer in transaction mode", async () => {
    const { outcome } = await prepare(through("transaction"));
    expect(outcome).toMatch(
      /^SVC_DATABASE_SESSION_URL is required: SVC_DATABASE_URL leads to .* transaction mode/,
    );
  });

  it("D9: refuses PgBouncer in statement mode, also beside a session URL", async () => {
    const refusal = /^SVC_DATABASE_URL leads to a pooler in statement mode/;
    expect((await prepare(through("statement"))).outcome).toMatch(refusal);
    expect((await prepare(through("statement"), database.url)).outcome).toMatch(refusal);
  });

  it("D9: refuses a session URL that keeps no session", async () => {
    for (const mode of ["transaction", "statement"] as const) {
      const { outcome } = await prepare(through("transaction"), through(mode));
      expect(outcome).toMatch(
        /^SVC_DATABASE_SESSION_URL leads to a pooler in transaction or statement mode/,
      );
    }
  });

  it("D9: refuses a session URL of another database", async () => {
    const { outcome } = await prepare(through("transaction"), other.url);
    expect(outcome).toBe(
      "SVC_DATABASE_SESSION_URL leads to another database than SVC_DATABASE_URL",
    );
  });

  it("D9: names the variable whose role or database the server or the pooler does not know", async () => {
    const nowhere = Object.assign(new URL(database.url), { pathname: "/nowhere" }).href;
    expect((await prepare(through("transaction"), nowhere)).outcome).toBe(
      "SVC_DATABASE_SESSION_URL names a database that does not exist",
    );
    const nobody = through("session").replace("//postgres@", "//nobody@");
    expect((await prepare(nobody)).outcome).toMatch(
      /^SVC_DATABASE_URL has a role or a password that the pooler/,
    );
    const unknown = through("session").replace(/[^/]*$/, "nowhere");
    expect((await prepare(unknown)).outcome).toMatch(/^SVC_DATABASE_URL names .*database/);
    expect((await prepare(`${through("session")}?search_path=public`)).outcome).toMatch(
      /^SVC_DATABASE_URL has a parameter that the pooler refuses/,
    );
  });

  it("D9: warns of a role without statement_timeout in transaction mode", async () => {
    const { sql } = database.connect();
    await sql.unsafe(`create role ${role} login`);
    const url = through("transaction").replace("//postgres@", `//${role}@`);
    const warning = expect.stringMatching(/statement_timeout.*docs\/database\.md/);
    expect(await prepare(url, database.url)).toEqual({ outcome: "prepared", warnings: [warning] });
    await sql.unsafe(`alter role ${role} set statement_timeout = '5s'`);
    // A server connection that is open keeps the old default.
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`;
    const { outcome, warnings } = await prepare(url, database.url);
    expect(outcome).toBe("prepared");
    expect(warnings).not.toContainEqual(warning);
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`;
    await sql.unsafe(`drop role ${role}`);
  });

  it("D10: refuses defaults of the role that statements outside of transactions rely on, in transaction mode alone", async () => {
    const { sql } = database.connect();
    const name = new URL(database.url).pathname.slice(1);
    const change = async (statements: string) => {
      await sql.unsafe(statements);
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid()`;
    };
    const alter = `alter database ${name} set`;
    await change(`${alter} search_path = a; ${alter} default_transaction_isolation = serializable;
      ${alter} array_nulls = off; ${alter} extra_float_digits = -9`);
    expect((await prepare(through("session"))).outcome).toBe("prepared");
    for (let fault = 0; fault < 4; fault++) {
      const { outcome } = await prepare(through("transaction"), database.url);
      expect(outcome).toMatch(/^SVC_DATABASE_URL leads to sessions with [^:]*: alter role /);
      await change(outcome.replace(/^.*?: /, ""));
    }
    expect((await prepare(through("transaction"), database.url)).outcome).toBe("prepared");
    await change(
      `alter database ${name} reset all; alter role postgres in database ${name} reset all`,
    );
  });
});
