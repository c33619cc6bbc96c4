import { eq, sql as text } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { enrollmentPolicy } from "../../drizzle/schema/index.ts";
import { createTestDatabase, type TestDatabase } from "../../tests/database.ts";
import { countDatabaseSockets, openDatabaseSocket } from "../node/database-socket.ts";
import { connectDatabase } from "./database.ts";
import { databaseProblem } from "./database-problem.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const failure = (promise: PromiseLike<unknown>): Promise<unknown> =>
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

  it("D5: an unavailable server is database_unavailable, and its pool recovers its connections", async () => {
    const unavailable = connectDatabase({
      url: "postgres://postgres@127.0.0.1:1/none",
      connectionsMax: 2,
      openSocket: openDatabaseSocket,
    });
    for (let attempt = 0; attempt < 5; attempt++)
      expect(databaseProblem(await failure(unavailable.db.execute(text`select 1`)))?.code).toBe("database_unavailable");
    await unavailable.close(0);
  });

  it("reports the connections of its pool", async () => {
    const sockets = countDatabaseSockets();
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 2, openSocket: sockets.open });
    expect(sockets.count()).toBe(0);
    await Promise.all([sql`select 1`, sql`select 2`]);
    expect(sockets.count()).toBe(2);
    await close();
    await expect.poll(sockets.count).toBe(0);
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
    expect(databaseProblem(await failure(db.execute(text`select ${json}::text::jsonb`)))?.code).toBe(
      "validation_failed",
    );
    const missing = await failure(db.execute(text`insert into ${enrollmentPolicy} (id) values (gen_random_uuid())`));
    expect(databaseProblem(missing)).toBeUndefined();
  });
});

describe("a transaction whose connection dies (postgres.js as patched by patches/)", () => {
  const cutAt = async (statement: string): Promise<void> => {
    const { sql } = database.connect();
    const cut = async () =>
      (await sql`select pg_terminate_backend(pid) from pg_stat_activity where query like ${`${statement}%`}`).length;
    await expect.poll(cut).toBe(1);
  };

  it("D1: rejects, does not end the process, and its only connection works again", async () => {
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 1, openSocket: openDatabaseSocket });
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
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 1, openSocket: openDatabaseSocket });
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
