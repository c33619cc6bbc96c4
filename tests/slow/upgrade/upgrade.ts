import { isDeepStrictEqual } from "node:util";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { systemClock } from "#kit/clock.ts";
import { startTcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { stopProgram } from "#tests/support/program.ts";
import { changedRecords, readSchemaRecords, recordFaults } from "./schema-records.ts";
import { startUpgradeLab } from "./upgrade-lab.ts";
import type { Revision } from "./upgraded-host.ts";

const keptTables = [
  "person",
  "authentication_identity",
  "enrollment_policy",
  "bootstrap_token",
  "certificate",
  "collector_config",
  "config_assignment",
  "audit_event",
] as const;

/** Returns the rows that an operator would miss, without the columns that a running core changes. */
const keptRows = async (sql: SqlClient) => {
  const rows = await Promise.all(
    keptTables.map(
      (table) => sql`
        select ${table} || coalesce(to_jsonb(t)->>'id', to_jsonb(t)->>'user_id') as key, to_jsonb(t) - 'synced_at' as row
        from ${sql(table)} t`,
    ),
  );
  return new Map(rows.flat().map(({ key, row }) => [key, row]));
};

/** Returns the rows of `before` that are gone, or have another value in a column that they had. */
const changedRows = (
  before: Map<string, Record<string, unknown>>,
  after: Map<string, Record<string, unknown>>,
) =>
  [...before].flatMap(([key, row]) => {
    const now = after.get(key);
    const isKept = Object.entries(row).every(
      ([column, value]) => now !== undefined && isDeepStrictEqual(now[column], value),
    );
    return isKept ? [] : [key];
  });

/** A port on which nothing listens: connections to it are refused. */
const nowhere = 9;
/** The revision of the working tree. */
export const present = { dir: ".", node: process.execPath };

/** Runs one upgrade described in main.ts. */
export const runUpgrade = async (
  previous: Revision,
  { seconds, progress }: { seconds: number; progress(line: string): void },
) => {
  await using cleanup = new AsyncDisposableStack();
  const lab = await startUpgradeLab(cleanup);
  const { sql, broken, expect } = lab;

  progress(
    "the previous core migrates an empty database; its collector enrolls, takes a config and forwards",
  );
  let old = await lab.startCore(previous);
  const recordsBefore = await readSchemaRecords(sql);
  const proxy = await startTcpProxy(old.ingestPort);
  cleanup.defer(() => proxy.close());
  const throughProxy = () => ({ coreUrl: old.coreUrl, ingestPort: proxy.port });
  const upgraded = await lab.enroll("upgraded", previous, throughProxy());
  const moved = await lab.send(["moved-1", "moved-2"], proxy.port);
  await lab.isServed(upgraded);
  const configHash = await lab.assign(upgraded, old);
  await lab.heartbeat(upgraded, { since: "-infinity", config: configHash });
  await systemClock.sleep(seconds * 1000);
  const kept = await keptRows(sql);

  progress("the present core migrates the database; both serve");
  const now = await lab.startCore(present);
  const recordsAfter = await readSchemaRecords(sql);
  const applied = changedRecords(recordsBefore, recordsAfter);
  broken.push(...(await recordFaults(recordsBefore, recordsAfter)));
  expect(applied.migrations.length > 0, "the database has no new migration");
  for (const row of changedRows(kept, await keptRows(sql)))
    broken.push(`the row ${row} was changed or lost`);
  const direct = await lab.send(["direct-1", "direct-2"], now.ingestPort);
  const storedBefore = await countOf(sql);
  const byPrevious = await lab.enroll("by-previous", previous, throughProxy());
  const byPresent = await lab.enroll("by-present", present, now);
  const served = {
    previous: [await lab.isServed(byPrevious)],
    present: [await lab.isServed(byPresent)],
  };
  const hashByPrevious = await lab.assign(byPrevious, old);
  await byPrevious.renew(previous);
  await lab.isReady(old, "the previous core on the new schema");
  await lab.isReady(now, "the present core");
  await systemClock.sleep(seconds * 1000);
  expect((await countOf(sql)) > storedBefore, "nothing was stored while both cores served");

  progress("the previous core restarts on the new schema, and leaves it as it is");
  const stopOld = async () => {
    const code = await stopProgram(old.program);
    expect(code === 0, `the previous core ended with ${code}`);
  };
  await stopOld();
  old = await lab.startCore(previous);
  proxy.target(old.ingestPort);
  await lab.isReady(old, "the previous core, restarted on the new schema");
  await lab.isReady(now, "the present core beside the restarted one");
  expect(
    isDeepStrictEqual(await readSchemaRecords(sql), recordsAfter),
    "the previous core applied something",
  );
  await lab.heartbeat(byPrevious, { since: await lab.now(), config: hashByPrevious });

  progress("the previous core stops; its hosts reconnect to the present one");
  proxy.target(now.ingestPort);
  await stopOld();
  await systemClock.sleep(seconds * 1000);

  progress("the collector is upgraded, with records in its queue");
  proxy.target(nowhere);
  proxy.reset();
  await systemClock.sleep(1_000);
  const stopped = await upgraded.stop();
  expect(stopped === 0, `the previous collector ended with ${stopped}`);
  const carried = await upgraded.queued(present);
  expect(carried > 0, "the queue was empty at the upgrade of the collector");
  upgraded.start(present);
  proxy.target(now.ingestPort);
  const since = await lab.now();
  await upgraded.renew(present);
  const configs = {
    beforeUpgrade: await lab.heartbeat(upgraded, { since, config: configHash }),
    byPreviousOnNewSchema: await lab.heartbeat(byPrevious, { since, config: hashByPrevious }),
  };
  for (const [name, drift] of Object.entries(configs))
    expect(drift === "in_sync", `${name}: the config is ${drift}`);

  const total = await lab.judgeAll([upgraded, byPrevious, byPresent], [moved, direct]);
  const certificates = await certificatesByStatus(sql);
  return {
    seconds,
    /** What the database says that the present core applied. */
    applied,
    ...total,
    /** Records in the queue that the present collector took over from the previous one. */
    carried,
    /** Hosts that enrolled, sent a heartbeat and forwarded, by the core that served them while both did. */
    served,
    /** Hosts that run the config assigned to them, by the core that assigned it. */
    configs,
    /** Certificates by status. */
    certificates,
    broken,
  };
};

const countOf = async (sql: SqlClient) =>
  Number(
    (
      await sql`
        select (select count(*) from ingest_envelope) + (select coalesce(sum(envelopes), 0) from ingest_block) as count`
    )[0]?.count,
  );

const certificatesByStatus = async (sql: SqlClient) => {
  const rows = await sql`
    select status, count(*)::int as count from certificate group by status order by status`;
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
};
