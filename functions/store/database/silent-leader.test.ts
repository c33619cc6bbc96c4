import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDatabaseServers } from "#functions/node/database/database-servers.ts";
import { systemClock } from "#kit/clock.ts";
import { startDatabaseProxy, type TcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { createDirectoryLock } from "../directory/lock.ts";
import { connectDatabase } from "./database.ts";
import { tryLock } from "./try-lock.ts";

/* The network to a core that has a lock of a job fails without a word: the server sees a client that stays connected. */
const limits = { timeout: 60_000 };
const database = await useTestDatabase();
let proxy: TcpProxy;
let url: string;
beforeAll(async () => {
  ({ proxy, url } = await startDatabaseProxy(database.url));
});
afterAll(() => proxy.close());

/** Polls until `attempt` resolves with true; returns the milliseconds. */
const elapsedUntil = async (attempt: () => Promise<boolean | undefined>) => {
  const startedAt = performance.now();
  await expect.poll(attempt, { interval: 200, timeout: 50_000 }).toBe(true);
  return performance.now() - startedAt;
};

describe("a core that becomes unreachable while it runs a job", () => {
  it("D8: loses the locks of its jobs to another core within 30 s", limits, async () => {
    const leader = connectDatabase({ url, servers: createDatabaseServers(url), connectionsMax: 1 });
    const inTransaction = Promise.withResolvers<void>();
    const underLock = Promise.withResolvers<void>();
    const never = new Promise<true>(() => undefined);
    const appending = leader.db
      .transaction(async (tx) => {
        expect(await tryLock(tx, "auditChain")).toBe(true);
        inTransaction.resolve();
        await never;
      })
      .catch(() => undefined);
    const lock = createDirectoryLock({
      url,
      servers: createDatabaseServers(url),
      clock: systemClock,
    });
    void lock(() => {
      underLock.resolve();
      return never;
    });
    await Promise.all([inTransaction.promise, underLock.promise]);

    const { db } = database.connect();
    const other = createDirectoryLock({
      url: database.url,
      servers: createDatabaseServers(database.url),
      clock: systemClock,
    });
    const takeAppender = () => db.transaction((tx) => tryLock(tx, "auditChain"));
    const takeDirectory = () => other(async () => true);
    expect(await Promise.all([takeAppender(), takeDirectory()])).toEqual([false, undefined]);
    proxy.swallow(true);
    const elapsed = await Promise.all([elapsedUntil(takeAppender), elapsedUntil(takeDirectory)]);
    expect(Math.max(...elapsed)).toBeLessThan(30_000);
    await leader.close(0);
    await appending;
  });

  it("keeps the directory's lock for as long as its work takes", limits, async () => {
    const { sql } = database.connect();
    const lockOf = () =>
      createDirectoryLock({
        url: database.url,
        servers: createDatabaseServers(database.url),
        clock: systemClock,
        leaseMs: 600,
      });
    const work = Promise.withResolvers<string>();
    const started = Promise.withResolvers<void>();
    const held = lockOf()(() => {
      started.resolve();
      return work.promise;
    });
    await started.promise;
    const isOlderThanLease = async () => {
      const [row] = await sql`
        select bool_or(clock_timestamp() - backend_start > interval '2 seconds') as old from pg_stat_activity
        where application_name = 'svc-server directory lock' and datname = current_database()`;
      return row?.old;
    };
    await expect.poll(isOlderThanLease).toBe(true);
    expect(await lockOf()(async () => true)).toBeUndefined();
    work.resolve("done");
    expect(await held).toBe("done");
  });
});
