import { expect, it } from "vitest";
import { useTestDatabase } from "#tests/support/database.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { encodeBlockRow } from "./block-rows.ts";
import { openCommitClient } from "./commit-batch.ts";
import { runCopyTransaction } from "./copy-transaction.ts";

const database = await useTestDatabase();

const rows = (hostId: string, count: number, kind = "log_line") =>
  Array.from({ length: count }, (_, index) => {
    const run = testRun([{ sequence: BigInt(index + 1), kind, payload: new Uint8Array(index) }]);
    const stored = { encoding: "none", data: [run.bytes], digest: new Uint8Array(32) } as const;
    return encodeBlockRow({ hostId, queueId: new Uint8Array(16), receivedAt: 0, run, ...stored });
  });
const stored = async () =>
  await database.connect()
    .sql`select host_id, count(*)::int as rows from ingest_block group by host_id order by 1`;

it("copies rows in several COPYs, and runs the statements after them only in its turn", async () => {
  const client = await openCommitClient(database.url);
  const pid = Number((await client.query("select pg_backend_pid() as pid")).rows[0].pid);
  const turn = Promise.withResolvers<void>();
  let ended = false;
  const running = runCopyTransaction(client, {
    before: ["begin"],
    rows: [...rows("a", 199), ...rows("b", 700), ...rows("c", 200), ...rows("d", 1)],
    turn: turn.promise,
    after: ["insert into ingest_host values ('a', now())", "commit"],
  }).then(() => {
    ended = true;
  });
  const { sql } = database.connect();
  // The last COPY has received its one row, and waits for its end.
  const copying =
    "select from pg_stat_activity where state = 'active' and wait_event = 'ClientRead'";
  await expect.poll(async () => (await sql.unsafe(`${copying} and pid = ${pid}`)).length).toBe(1);
  expect(ended).toBe(false);
  expect(await stored()).toEqual([]);
  turn.resolve();
  await running;
  expect(await stored()).toEqual([
    { host_id: "a", rows: 199 },
    { host_id: "b", rows: 700 },
    { host_id: "c", rows: 200 },
    { host_id: "d", rows: 1 },
  ]);
  await client.end();
});

it("rejects with the error of any COPY or statement, stores nothing, and leaves the connection usable", async () => {
  const client = await openCommitClient(database.url);
  const bad = rows("bad", 300, "\0");
  const good = rows("good", 300);
  const run = (copied: (typeof good)[], after: string[]) =>
    runCopyTransaction(client, { before: ["begin"], rows: copied.flat(), turn: undefined, after });
  const before = await stored();
  for (const copied of [[bad], [bad, good], [good, bad], [good, bad, good]]) {
    await expect(run(copied, ["commit"])).rejects.toMatchObject({ code: "22021" });
    await client.query("rollback");
  }
  await expect(run([good], ["select 1 / 0", "commit"])).rejects.toMatchObject({ code: "22012" });
  await client.query("rollback");
  await expect(run([good], ["rollback"])).rejects.toThrow("did not commit");
  expect(await stored()).toEqual(before);
  await run([good], ["commit"]);
  expect(await stored()).toContainEqual({ host_id: "good", rows: 300 });
  await client.end();
});
