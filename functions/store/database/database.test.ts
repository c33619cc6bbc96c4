import { eq, sql as text } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { enrollmentPolicy } from "#drizzle/schema/index.ts";
import {
  createDatabaseServers,
  openDatabaseSocket,
} from "#functions/node/database/database-servers.ts";
import { databaseCheck } from "#functions/ops/checks.ts";
import { systemClock } from "#kit/clock.ts";
import { socketOf, startDatabaseProxy } from "#tests/fakes/tcp-proxy.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { callDeadlineMs } from "./call-limits.ts";
import { connectDatabase, type DatabaseOptions } from "./database.ts";
import { databaseProblem } from "./problem.ts";
import { executePrepared } from "./statements.ts";

const database = await useTestDatabase();

const failure = (promise: PromiseLike<unknown>) =>
  Promise.resolve(promise).then(
    () => expect.fail("did not fail"),
    (err: unknown) => err,
  );

describe("connectDatabase", () => {
  it("writes and reads array columns exactly, without asking the server for its types", async () => {
    const { db } = database.connect();
    const awkward = ['a"b', "back\\slash", "{brace},comma", "", "NULL", " ", "ünïcode", "a\nb"];
    const id = crypto.randomUUID();
    await db.insert(enrollmentPolicy).values({
      id,
      name: "arrays",
      allowedIdentityPrefixes: awkward,
      certificateTtlSeconds: 60,
      allowedPlatforms: [],
      maxEnrollments: 1,
      maxEnrollmentsPerHour: 1,
      allowedSourceCidrs: [],
      reenrollment: "deny",
      createdAt: new Date(1_700_000_000_123),
      createdBy: id,
    });
    const [read] = await db.select().from(enrollmentPolicy).where(eq(enrollmentPolicy.id, id));
    expect(read?.allowedIdentityPrefixes).toEqual(awkward);
    expect(read?.allowedPlatforms).toEqual([]);
    expect(read?.createdAt.getTime()).toBe(1_700_000_000_123);
  });

  it("D10: reads bytes where bytea_output is escape", async () => {
    const bytes = Uint8Array.from({ length: 512 }, (_, index) => index);
    const [row] = await database.connect().sql.begin(async (tx) => {
      await tx`set local bytea_output = escape`;
      return tx<{ bytes: Uint8Array }[]>`select ${bytes}::bytea as bytes`;
    });
    expect(row?.bytes.toHex()).toBe(bytes.toHex());
  });

  it("D5: an unavailable server is database_unavailable, and its pool recovers its connections", async () => {
    const unavailable = connectDatabase({
      url: "postgres://postgres@127.0.0.1:1/none",
      connectionsMax: 2,
      openSocket: openDatabaseSocket,
    });
    for (let attempt = 0; attempt < 5; attempt++)
      expect(databaseProblem(await failure(unavailable.db.execute(text`select 1`)))?.code).toBe(
        "database_unavailable",
      );
    await unavailable.close(0);
  });

  it("reports the connections of its pool", async () => {
    const servers = createDatabaseServers(database.url);
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 2, servers });
    expect(servers.count()).toBe(0);
    await Promise.all([sql`select 1`, sql`select 2`]);
    expect(servers.count()).toBe(2);
    await close();
    await expect.poll(servers.count).toBe(0);
  });

  it("D5: a connection that ends during a query is database_unavailable, and the next query succeeds", async () => {
    const { db } = database.connect();
    const cut = await failure(db.execute(text`select pg_terminate_backend(pg_backend_pid())`));
    expect(databaseProblem(cut)?.code).toBe("database_unavailable");
    expect(await db.execute(text`select 1 as one`)).toEqual([{ one: 1 }]);
  });

  it("D6: NUL in text or JSON is validation_failed, a violated constraint is an internal error", async () => {
    const { db } = database.connect();
    const nul = String.fromCharCode(0);
    expect(databaseProblem(await failure(db.execute(text`select ${`a${nul}b`}::text`)))?.code).toBe(
      "validation_failed",
    );
    const json = JSON.stringify({ a: nul });
    expect(
      databaseProblem(await failure(db.execute(text`select ${json}::text::jsonb`)))?.code,
    ).toBe("validation_failed");
    const missing = await failure(
      db.execute(text`insert into ${enrollmentPolicy} (id) values (gen_random_uuid())`),
    );
    expect(databaseProblem(missing)).toBeUndefined();
  });
});

describe("deadlines", () => {
  const proxied = async (options: Partial<DatabaseOptions> = {}) => {
    const { proxy, url } = await startDatabaseProxy(database.url);
    const servers = createDatabaseServers(url);
    const client = connectDatabase({ url, servers, connectionsMax: 2, ...options });
    const close = async () => {
      await client.close(0);
      await proxy.close();
    };
    return { proxy, servers, close, sql: client.sql };
  };
  const codeOf = async (call: PromiseLike<unknown>) => databaseProblem(await failure(call))?.code;

  it("D3: ends statements and transactions that a silent server does not answer, and works again once it does", async () => {
    const { proxy, sql, close } = await proxied({ deadlineMs: 1_000 });
    await Promise.all([sql`select 1`, sql`select 2`]);
    proxy.swallowOpen();
    const startedAt = performance.now();
    const transaction = sql.begin((tx) => tx`select 1`);
    expect(await Promise.all([codeOf(sql`select 1`), codeOf(transaction)])).toEqual(
      Array(2).fill("database_unavailable"),
    );
    expect(performance.now() - startedAt).toBeLessThan(callDeadlineMs.api);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await close();
  });

  it("D8: closes idle connections too when one gets no answer, so that no further call waits for a dead one", async () => {
    const { proxy, servers, sql, close } = await proxied({ deadlineMs: 1_000, connectionsMax: 4 });
    await Promise.all(Array.from({ length: 4 }, () => sql`select pg_sleep(0.05)`));
    expect(servers.count()).toBe(4);
    proxy.swallowOpen();
    expect(await codeOf(sql`select 1`)).toBe("database_unavailable");
    await expect.poll(servers.count).toBe(0);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await close();
  });

  it("D3: ends a transaction that exceeds its deadline between statements", async () => {
    const { sql, close } = await proxied({ deadlineMs: 300 });
    const { promise: never } = Promise.withResolvers<void>();
    expect(await codeOf(sql.begin(() => never))).toBe("database_unavailable");
    await close();
  });

  it("D3: reads an answer that came within a long turn of the event loop before it counts the deadline", async () => {
    const { sql, close } = connectDatabase({ url: database.url, deadlineMs: 1_500 });
    await sql`select 1`;
    const answer = sql`select 1 as n, pg_sleep(0.1)`.execute();
    await systemClock.sleep(50);
    // After this turn the timers are due before anything is read.
    setImmediate(() => {
      const endsAt = performance.now() + 2_000;
      while (performance.now() < endsAt);
    });
    expect((await answer)[0]?.n).toBe(1);
    await close();
  });

  it("D3: bounds the calls that wait for a connection, in time and number", async () => {
    const { proxy, sql, close } = await proxied({ deadlineMs: 600, connectionsMax: 1 });
    await sql`select 1`;
    proxy.swallow(true);
    const outcomes = await Promise.all(
      Array.from({ length: 1_300 }, async () => {
        const startedAt = performance.now();
        const error = (await failure(sql.begin((tx) => tx`select 1`))) as { code: string };
        return { code: error.code, ms: performance.now() - startedAt };
      }),
    );
    const count = (code: string) => outcomes.filter((outcome) => outcome.code === code).length;
    expect(count("TOO_MANY_WAITING")).toBeGreaterThan(200);
    expect(count("DEADLINE_EXCEEDED")).toBeGreaterThan(900);
    expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(5_000);
    await close();
  });

  it("D3: closes at once while the server does not answer", async () => {
    const { proxy, sql, close } = await proxied();
    await sql`select 1`;
    proxy.swallow(true);
    const waiting = codeOf(sql`select 1`);
    const startedAt = performance.now();
    await close();
    expect(await waiting).toBe("database_unavailable");
    expect(performance.now() - startedAt).toBeLessThan(callDeadlineMs.api / 2);
  });

  it("D1: opens connections soon after a server that was down for a while is back", async () => {
    const { proxy, sql, close } = await proxied();
    proxy.target("/nowhere");
    for (let attempt = 0; attempt < 20; attempt++)
      expect(await codeOf(sql`select 1`)).toBe("database_unavailable");
    proxy.target(socketOf(database.url));
    const startedAt = performance.now();
    await expect
      .poll(() => sql`select 1 as one`.catch(() => null), { interval: 10 })
      .not.toBeNull();
    // Without a limit the pauses would have doubled to hours.
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    await close();
  });

  it("D9: counts a transaction as committed by the server's COMMIT alone", async () => {
    const { proxy, sql, close } = await proxied();
    await sql`select 1`;
    // The answer of a server, or of a pooler, on which the transaction was aborted.
    const commit = Buffer.from("C\0\0\0\x0bCOMMIT\0");
    const rollback = Buffer.from("C\0\0\0\x0dROLLBACK\0");
    proxy.rewrite((bytes) => {
      const at = bytes.indexOf(commit);
      return at < 0
        ? bytes
        : Buffer.concat([bytes.subarray(0, at), rollback, bytes.subarray(at + commit.length)]);
    });
    const error = await failure(sql.begin((tx) => tx`select 1`));
    expect(error).toMatchObject({ code: "NOT_COMMITTED" });
    expect(databaseProblem(error)?.code).toBe("database_unavailable");
    proxy.rewrite(null);
    await sql.begin((tx) => tx`select 1`);
    await close();
  });

  it("D9: sets the timeouts of a transaction in it, and leaves nothing in the session, for a pooler", async () => {
    const { sql, db, close } = connectDatabase({
      url: database.url,
      connectionsMax: 1,
      pooled: true,
    });
    const timeouts = `select setting from pg_settings where name in ('statement_timeout', 'lock_timeout') order by name`;
    const within = await sql.begin((tx) => tx.unsafe(timeouts));
    expect(within.map(({ setting }) => setting)).toEqual(["4000", "4500"]);
    await executePrepared(db, text`select ${1}::int as one`);
    expect((await sql.unsafe(timeouts)).map(({ setting }) => setting)).toEqual(["0", "0"]);
    expect(await sql.unsafe("select name from pg_prepared_statements")).toEqual([]);
    await close();
  });

  it("keeps a statement prepared in its session, once for all of its values", async () => {
    const { sql, db, close } = connectDatabase({ url: database.url, connectionsMax: 1 });
    for (const value of [1, 2])
      expect(await executePrepared(db, text`select ${value}::int as prepared_once`)).toEqual([
        { prepared_once: value },
      ]);
    const kept = await sql.unsafe(
      "select statement from pg_prepared_statements where statement like '%prepared_once%'",
    );
    expect(kept).toEqual([{ statement: "select $1::int as prepared_once" }]);
    await close();
  });

  it("D9: sends no setting in the startup message, and has its settings all the same", async () => {
    const { sql, close } = await proxied();
    expect(
      await sql`select name, setting, source from pg_settings where name in
      ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'max_parallel_workers_per_gather') order by name`,
    ).toEqual([
      { name: "idle_in_transaction_session_timeout", setting: "10000", source: "session" },
      { name: "lock_timeout", setting: "4000", source: "session" },
      { name: "max_parallel_workers_per_gather", setting: "0", source: "session" },
      { name: "statement_timeout", setting: "4500", source: "session" },
    ]);
    await close();
  });

  it("D2: leaves a server that became read-only with all pools, and stays away until it accepts writes", async () => {
    const own = await useTestDatabase();
    const name = new URL(own.url).pathname.slice(1);
    const servers = createDatabaseServers(own.url);
    const [one, other] = [1, 2].map(() =>
      connectDatabase({ url: own.url, servers, connectionsMax: 2 }),
    );
    if (!one || !other) return expect.fail();
    const { sql: outside } = database.connect();
    const write = (sql: typeof outside) => sql`create table if not exists written (x int)`;
    await Promise.all([write(one.sql), other.sql`select 1`]);
    await outside.unsafe(`alter database ${name} set default_transaction_read_only = on`);
    await one.sql`set default_transaction_read_only = on`.catch(() => undefined);
    await expect.poll(servers.count).toBe(0);
    for (const { db, sql } of [one, other]) {
      expect(databaseProblem(await failure(write(sql)))?.code).toBe("database_unavailable");
      expect(await databaseCheck(db).find()).toEqual({
        status: "not_ready",
        detail:
          "The server accepts no writes: it is a standby, or default_transaction_read_only is on.",
      });
    }
    await outside.unsafe(`alter database ${name} reset default_transaction_read_only`);
    await expect
      .poll(() =>
        write(one.sql).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    // 25006 alone, from a server that does not report its settings.
    const refused = failure(
      one.sql.begin("read only", (tx) => write(tx as unknown as typeof outside)),
    );
    expect(await refused).toMatchObject({ code: "25006" });
    await expect.poll(servers.count).toBe(0);
    await Promise.all([one.close(), other.close()]);
  });
});

describe("a transaction whose connection dies", () => {
  const cutAt = async (statement: string) => {
    const { sql } = database.connect();
    const cut = async () =>
      (
        await sql`select pg_terminate_backend(pid) from pg_stat_activity where query like ${`${statement}%`}`
      ).length;
    await expect.poll(cut).toBe(1);
  };

  it("D1: rejects, does not end the process, and its only connection works again", async () => {
    const { sql, close } = connectDatabase({
      url: database.url,
      connectionsMax: 1,
      openSocket: openDatabaseSocket,
    });
    for (let round = 0; round < 3; round++) {
      const dying = failure(
        sql.begin(async (transaction) => {
          await transaction`select pg_sleep(20) as victim`;
        }),
      );
      await cutAt("select pg_sleep(20) as victim");
      expect(databaseProblem(await dying)?.code).toBe("database_unavailable");
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    }
    await close(0);
  });

  it("D1: its remaining statements never run inside the next transaction of that connection", async () => {
    const { sql, close } = connectDatabase({
      url: database.url,
      connectionsMax: 1,
      openSocket: openDatabaseSocket,
    });
    await sql`create table written (by_whom text)`;
    const died = Promise.withResolvers<void>();
    const dying = failure(
      sql.begin(async (transaction) => {
        await transaction`select 'idle victim'`;
        await died.promise;
        await transaction`insert into written values ('the dead one')`;
      }),
    );
    await cutAt("select 'idle victim'");
    expect(databaseProblem(await dying)?.code).toBe("database_unavailable");
    await sql.begin(async (transaction) => {
      await transaction`insert into written values ('the next one')`;
      died.resolve();
      await transaction`select pg_sleep(0.05)`;
    });
    expect(await sql`select by_whom from written`).toEqual([{ by_whom: "the next one" }]);
    await close(0);
  });
});
