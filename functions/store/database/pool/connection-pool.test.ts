import { getHeapSpaceStatistics } from "node:v8";
import { afterEach, expect, it, vi } from "vitest";
import { createDatabaseServers } from "#functions/node/database/database-servers.ts";
import { systemClock } from "#kit/clock.ts";
import { socketOf, startDatabaseProxy } from "#tests/fakes/tcp-proxy.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { connectionSettings } from "../connection-settings.ts";
import { connectDatabase, type PoolSettings } from "../database.ts";
import { listen } from "../listen.ts";
import { createConnectionPool } from "./connection-pool.ts";

const database = await useTestDatabase();

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const connect = ({ url = database.url, ...options }: PoolSettings & { url?: string } = {}) => {
  const servers = createDatabaseServers(url);
  const client = connectDatabase({ servers, connectionsMax: 1, ...options });
  ends.push(() => client.close(0));
  return client.sql;
};

const outcome = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    (rows) => rows,
    (error: { code?: string }) => error.code,
  );

it("gives no call the answer of another one, when a statement that shares its connection cannot be sent", async () => {
  const sql = connect();
  const slow = () => sql`select ${1}::int as n from pg_sleep(0.02)`;
  const text = (value?: string) => sql`select ${value}::text as text`;
  // Once each: prepared statements do not wait for each other.
  await Promise.all([slow(), text("")]);
  const outcomes = await Promise.all(
    [slow(), text(), text("mine"), slow(), text("other")].map(outcome),
  );
  expect(outcomes.filter((code) => code === "UNDEFINED_VALUE")).toHaveLength(1);
  expect(outcomes.filter((code) => code === "CONNECTION_CLOSED")).toHaveLength(4);
  expect(await text("next")).toEqual([{ text: "next" }]);
});

it("leaves the rows of earlier statements to the young generation's collections", async () => {
  const sql = connect();
  const oldBytes = () =>
    getHeapSpaceStatistics().find((of) => of.space_name === "old_space")?.space_used_size ?? 0;
  const read = async (statements: number) => {
    for (let nth = 0; nth < statements; nth++)
      await sql`select repeat(md5(n::text), 40) as text from generate_series(1, 1000) n`;
  };
  await read(5);
  const before = oldBytes();
  await read(50);
  // They are 65 MB. Other tests of this process have left some that may become old now.
  expect(oldBytes() - before).toBeLessThan(20 * 2 ** 20);
});

it("rejects a statement of a transaction that has ended", async () => {
  const sql = connect();
  await sql`create table late (x int)`;
  let insert = () => Promise.reject(new Error("not begun"));
  await sql.begin(async (tx) => {
    insert = () => tx`insert into late values (1)`;
    await tx`select 1`;
  });
  expect(await outcome(insert())).toBe("TRANSACTION_ENDED");
  expect(await sql`select from late`).toEqual([]);
});

it("starts a transaction before statements that came after it", async () => {
  const sql = connect({ deadlineMs: 1_000 });
  await sql`select 1`;
  let stops = false;
  const readers = [0, 1].map(async () => {
    while (!stops) await sql`select pg_sleep(0.01)`;
  });
  await systemClock.sleep(30);
  const transaction = await outcome(sql.begin(async (tx) => (await tx`select 1 as one`)[0]));
  stops = true;
  await Promise.all(readers);
  expect(transaction).toEqual({ one: 1 });
});

it("replaces a connection that has been used for its lifetime, after the call that it runs", async () => {
  const pool = createConnectionPool({
    connecting: () => connectionSettings({ url: database.url }),
    connectionsMax: 1,
    waitingMax: 10,
    deadlineMs: 5_000,
    setup: "",
    isExclusive: false,
    backoffMs: () => 0,
    lifetimeMs: () => 0,
    onFault(cause) {
      throw cause;
    },
    onRefusal: () => undefined,
    refusesServer: () => false,
    endsWriting: () => false,
  });
  ends.push(() => pool.end(1_000));
  const process = async () =>
    (await pool.query((client) => client`select pg_backend_pid() as pid`))[0]?.pid;
  const [first, together] = await Promise.all([process(), process()]);
  const later = await process();
  expect(first).toBe(together);
  expect(later).not.toBe(first);
});

it("D8: keeps idle connections that answered while a call was late, of all pools, and closes silent ones", async () => {
  const servers = createDatabaseServers(database.url);
  const [slow, other] = [1, 2].map(() =>
    connectDatabase({ url: database.url, servers, connectionsMax: 2, deadlineMs: 1_000 }),
  );
  if (!slow || !other) return expect.fail();
  ends.push(() => Promise.all([slow.close(0), other.close(0)]));
  const serverProcess = async () => (await other.sql`select pg_backend_pid() as pid`)[0]?.pid;
  const answerAll = () => Promise.all([serverProcess(), serverProcess(), slow.sql`select 1`]);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    const answers = answerAll();
    // postgres.js connects by a timer.
    await vi.advanceTimersByTimeAsync(1);
    const [pid] = await answers;
    const late = outcome(slow.sql.begin(() => new Promise(() => undefined)));
    expect(servers.count()).toBe(3);
    vi.advanceTimersByTime(600);
    expect(await serverProcess()).toBe(pid);
    vi.advanceTimersByTime(400);
    expect(await late).toBe("DEADLINE_EXCEEDED");
    expect(servers.count()).toBe(1);
    expect(await serverProcess()).toBe(pid);
  } finally {
    vi.useRealTimers();
  }
});

it("D1: listens again on a new connection after its server was away, and reports that it missed notifications", async () => {
  const { proxy, url } = await startDatabaseProxy(database.url);
  ends.push(() => proxy.close());
  let changes = 0;
  const subscription = listen(
    { servers: createDatabaseServers(url) },
    { news: () => (changes += 1) },
  );
  ends.push(() => subscription.close());
  await subscription.listening;
  expect(changes).toBe(1);
  proxy.target("/nowhere");
  proxy.reset();
  await expect.poll(() => proxy.count()).toBe(0);
  proxy.target(socketOf(database.url));
  await expect.poll(() => changes).toBe(2);
  await connect()`notify news`;
  await expect.poll(() => changes).toBe(3);
});
