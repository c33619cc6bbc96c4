import { execFileSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { createBlockRunner } from "../documents/support/documented-block.ts";
import { useTestDatabase } from "../support/database.ts";
import { newFolder } from "../support/new-folder.ts";
import { startProgram } from "../support/program.ts";
import { openEnvelopeStore } from "../support/stored-envelopes.ts";

/* `svc-server envelopes` of the bundle and as docs/telemetry.md prints it, on a database with blocks and a row of an earlier version. */

const database = await useTestDatabase();
const { sql } = database.connect();
let at = Date.parse("2026-11-20T03:00:00Z");
const store = await openEnvelopeStore(database, () => at);
const dir = newFolder();
const documented = createBlockRunner(dir);
afterAll(() => store.close());

const env = {
  ...coreEnvironment(database.url),
  // Of no use to a command: a fault of these must not stop it.
  SVC_WATCH_RECEIVERS_FILE: "/nowhere/receivers.yaml",
  SVC_CHAT_DATABASE_URL: "no URL",
  USER: "ada",
};
const run = async (...args: string[]) => {
  const program = startProgram("functions/main.ts", ["envelopes", ...args], env);
  const exitCode = await program.exited;
  return { exitCode, printed: program.records, err: program.stderr };
};
const lines = async (table: string) =>
  (
    await sql<
      { line: string }[]
    >`select convert_from(payload, 'UTF8') as line from ${sql(table)} order by received_at, sequence`
  ).map(({ line }) => line);

await store.lines("host-a", ["a1", "a2"]);
await store.lines("host-b", ["b1"]);
await sql`insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
  values ('host-a', '\\x01', 1, 'log_line', '2026-11-20T02:00:00Z', 'files', '{"a":"b"}', 'row')`;
at += 3_600_000;
await store.lines("host-a", ["later"]);

it("copies a range of blocks and rows into a table, audited, and drops it", async () => {
  const range = ["--from", "2026-11-20T00:00:00Z", "--to", "2026-11-20T04:00:00Z"];
  expect(await run(...range, "--host", "host-a", "--table", "incident")).toEqual({
    exitCode: 0,
    printed: [{ table: "incident", envelopes: 3, damaged_blocks: 0 }],
    err: "",
  });
  expect(await lines("incident")).toEqual(["row", "a1", "a2"]);
  const [row] =
    await sql`select host_id, sequence::text, kind, source, attributes, (extract(epoch from observed_at) * 1e6)::bigint::text as observed
      from incident where sequence = 1 and payload = 'a1'`;
  expect(row).toMatchObject({
    host_id: "host-a",
    sequence: "1",
    kind: "log_line",
    source: "files",
    attributes: { "file.path": "/var/log/app.log" },
    observed: "1795000000000005",
  });
  expect((await run(...range, "--table", "everything")).printed).toEqual([
    { table: "everything", envelopes: 4, damaged_blocks: 0 },
  ]);
  const events =
    await sql`select actor_display, target_id, reason, details from audit_event where action = 'telemetry.copy' order by id`;
  const copy = { actor_display: "svc-server envelopes (ada)", target_id: "incident" };
  const details = {
    from: "2026-11-20T00:00:00.000Z",
    to: "2026-11-20T04:00:00.000Z",
    host: "host-a",
  };
  // The first one is in the log also if the program is killed.
  expect(events.slice(0, 2)).toEqual([
    { ...copy, details, reason: "has begun: another event follows at its end" },
    { ...copy, details: { ...details, envelopes: 3 }, reason: null },
  ]);
  expect(await run("--drop", "--table", "incident")).toMatchObject({
    exitCode: 0,
    printed: [{ dropped: "incident" }],
  });
  expect(await sql`select to_regclass('incident') as incident`).toEqual([{ incident: null }]);
});

it("neither fills nor drops a table that it has not created", async () => {
  await sql`create table mine (important text)`;
  const range = ["--from", "30d"];
  expect(await run(...range, "--table", "mine")).toMatchObject({
    exitCode: 1,
    printed: [],
    err: expect.stringContaining("exists already"),
  });
  for (const table of ["mine", "audit_event", "unknown"])
    expect(await run("--drop", "--table", table)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining("it stays"),
    });
  expect(await sql`select * from mine`).toEqual([]);
  for (const args of [
    ["--table", "no_range"],
    [...range, "--table", "ingest_block_20990101"],
    [...range, "--table", 'x"; drop table mine; --'],
    [...range, "--table", "t", "--drop"],
    ["--from", "yesterday", "--table", "t"],
    [...range, "--everything", "--table", "t"],
  ])
    expect({ args, ...(await run(...args)) }).toMatchObject({ args, exitCode: 2, printed: [] });
});

it("leaves a damaged block out, names it and ends with 1", async () => {
  await sql`update ingest_block set digest = sha256(digest) where host_id = 'host-b'`;
  const { exitCode, printed, err } = await run(
    "--from",
    "2026-11-20T00:00:00Z",
    "--to",
    "2026-11-21T00:00:00Z",
    "--table",
    "damaged",
  );
  expect({ exitCode, printed }).toEqual({
    exitCode: 1,
    printed: [{ table: "damaged", envelopes: 4, damaged_blocks: 1 }],
  });
  expect(err).toMatch(
    /^a stored block is damaged: 1 envelopes, 1 to 1 of queue 0707.*, host host-b, received at 2026-11-20T03:00/,
  );
  expect(await lines("damaged")).toEqual(["row", "a1", "a2", "later"]);
});

it("is copied and dropped by the commands of docs/telemetry.md", async () => {
  const copied = documented("docs/telemetry.md", "svc-server envelopes --from", { env });
  expect(copied).toMatchObject({ status: 0, stderr: "" });
  expect(JSON.parse(copied.stdout)).toEqual({ table: "incident", envelopes: 3, damaged_blocks: 0 });
  expect(await lines("incident")).toEqual(["row", "a1", "a2"]);
  expect(documented("docs/telemetry.md", "svc-server envelopes --drop", { env })).toMatchObject({
    status: 0,
  });
  expect(await sql`select to_regclass('incident') as incident`).toEqual([{ incident: null }]);
});

const commandExists = (name: string) => {
  try {
    execFileSync(name, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

it.skipIf(!["psql", "zstd", "protoc"].every(commandExists))(
  "docs/telemetry.md: a block is read without core (needs psql, zstd and protoc)",
  async () => {
    await store.lines(
      "host-a",
      Array.from({ length: 100 }, (_, n) => `a line of a long block, which is compressed: ${n}`),
    );
    symlinkSync(new URL("../../proto", import.meta.url).pathname, join(dir, "proto"));
    const { status, stdout, stderr } = documented("docs/telemetry.md", "psql", { env });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout.match(/payload: "a line of a long block/g)).toHaveLength(100);
    const [block] =
      await sql`select encode(digest, 'hex') as digest from ingest_block where encoding = 2`;
    expect(`01${/^(\w+) {2}block.zst$/m.exec(stdout)?.[1]}`).toBe(block?.digest);
  },
);
