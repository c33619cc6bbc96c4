import { sql } from "drizzle-orm";
import { beforeAll, expect, it } from "vitest";
import { everyNumber, type NumberColumn } from "#proto/management/reported-numbers.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { connectDatabase } from "../database/database.ts";
import type { HealthReport } from "./heartbeat-reports.ts";
import { createHeartbeatWriter } from "./heartbeats.ts";
import { createSeenRecorder } from "./statuses.ts";

const clock = createTestClock();
const database = await useTestDatabase();
const { db, sql: connection } = database.connect();
const zeros = Object.fromEntries(everyNumber.map(({ column }) => [column, 0])) as Record<
  NumberColumn,
  number
>;
const report: HealthReport = {
  ...zeros,
  boot_id: "boot",
  collector_version: "2.0.0",
  collector_commit: "c0ffee",
  agent_name: null,
  hostname: "host",
  platform: "linux/amd64",
  started_at: "2026-01-01T00:00:00.000Z",
  config_valid: true,
  config_errors: [],
  running_config_hash: null,
  desired_config_hash: null,
  last_known_good_config_hash: null,
  apply_desired_config: null,
  queue_at_risk: false,
  reported_conditions: [],
  ingest_ca_bundle: null,
  management_ca_bundle: null,
  ca_pinned: null,
  forwarder_connected: true,
  forwarder_last_ack_at: null,
  forwarder_last_error: null,
  renewal_status: "ok",
  renewal_last_attempt_at: null,
  renewal_next_attempt_at: null,
  renewal_last_error: null,
};
let hosts: { id: string; identity: string; fingerprint: string }[] = [];

beforeAll(async () => {
  // Applies to new sessions only, so not to this one.
  await connection`do $$ begin execute format('alter database %I set deadlock_timeout = 10', current_database()); end $$`;
  await seedFleet(db, { count: 5, now: new Date(clock.now()) });
  hosts = await db.execute<(typeof hosts)[number]>(sql`
    select i.id, i.identity, encode(c.fingerprint_sha256, 'hex') as fingerprint
    from collector_identity i join certificate c on c.identity_id = i.id order by 1`);
});

it("heartbeats: a group that deadlocks is written host by host, because the first report of a host locks its fleet row last", async () => {
  const [first, second, third, ...others] = hosts;
  await db.execute(sql`delete from collector_health where identity_id = ${first?.id}::uuid`);
  const core = database.connect();
  const write = createHeartbeatWriter({ db: core.db }, clock, {
    heartbeatIntervalSeconds: 60,
    staleAfterSeconds: 180,
    enrollingSeconds: 900,
    returnSeconds: 96,
  });
  const waiting = (count: number) =>
    expect
      .poll(
        () =>
          connection`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      .toHaveLength(count);
  const lock = (tx: typeof db, host?: { id: string }) =>
    tx.execute(
      sql`select from fleet_status where identity_id = ${host?.id}::uuid for no key update`,
    );

  const written: Promise<unknown>[] = [];
  let bulk: Promise<unknown> | undefined;
  await db.transaction(async (tx) => {
    await lock(tx, third);
    for (const host of [...others, first, second, third]) {
      if (host === undefined) throw new Error("too few hosts");
      const use = { fingerprintSha256: host.fingerprint, sentAt: clock.now(), expired: false };
      written.push(write({ identity: host.identity, use, report, labels: null, subnet: "" }));
    }
    await waiting(1);
    // In the order of ids, as a batch of envelopes or assignments does.
    bulk = db.transaction(async (other) => {
      await other.execute(sql`set local deadlock_timeout = '1min'`);
      await lock(other, first);
      await lock(other, second);
    });
    await waiting(2);
  });
  await bulk;
  expect(await Promise.all(written)).toMatchObject(Array(5).fill({ outcome: "admitted" }));
  const versions = await db.execute(sql`select distinct version from fleet`);
  expect(versions).toEqual([{ version: "2.0.0" }]);
});

/** A node of EXPLAIN's JSON. */
interface PlanNode {
  "Relation Name"?: string;
  "Node Type": string;
  "Index Cond"?: string;
  Plans?: PlanNode[];
}

it("heartbeats: the plans that a session keeps look up each row by its key, though they were made for a small fleet", async () => {
  const core = connectDatabase({ url: database.url, connectionsMax: 1, plansByIndex: true });
  const thresholds = {
    heartbeatIntervalSeconds: 60,
    staleAfterSeconds: 180,
    enrollingSeconds: 900,
    returnSeconds: 96,
  };
  const write = createHeartbeatWriter({ db: core.db }, clock, thresholds);
  const recordSeen = createSeenRecorder({ db: core.db }, clock, thresholds);
  await clock.advance(1000);
  const figures = {
    queueRecords: 0,
    queueBytes: 0,
    oldestRecordAgeSeconds: null,
    droppedRecordsTotal: 0,
    deadLetters: 0,
    process: { rss_bytes: null, cpu_ms: null },
  };
  for (const [index, host] of hosts.slice(0, 2).entries()) {
    const use = { fingerprintSha256: host.fingerprint, sentAt: clock.now(), expired: false };
    const version = `2.0.${index}`;
    await write({
      identity: host.identity,
      use,
      report: { ...report, collector_version: version },
      labels: null,
      subnet: "",
      digest: 7n,
    });
    await clock.advance(1000);
    // With losses, so that the report is stored again.
    for (const lost of [0, 1])
      await recordSeen({
        identityId: host.id,
        seenAt: clock.now(),
        digest: 7n,
        subnet: "",
        figures: { ...figures, droppedRecordsTotal: lost, lastAckAgeSeconds: null },
      });
  }
  const plans = await core.sql<
    { name: string; parameters: number; generic: number; statement: string }[]
  >`
    select name, statement, cardinality(parameter_types) as parameters, generic_plans::int as generic from pg_prepared_statements
    where statement like ${"%fleet_status%"} order by length(statement)`;
  const lookups: Record<string, string>[] = [];
  for (const { name, parameters, generic } of plans) {
    expect(generic).toBeGreaterThanOrEqual(2);
    const values = Array.from({ length: parameters }, () => "null").join(", ");
    const [explained] = await core.sql.unsafe(
      `explain (format json) execute "${name}" (${values})`,
    );
    const found: Record<string, string> = {};
    const visit = (node: PlanNode) => {
      const { "Relation Name": table, "Node Type": type, "Index Cond": condition } = node;
      // A disabled node adds so much to the cost that JIT compiles the plan.
      expect(node).toMatchObject({ Disabled: false });
      if (table !== undefined && type !== "ModifyTable") found[table] = `${type}: ${condition}`;
      node.Plans?.forEach(visit);
    };
    for (const { Plan } of explained?.["QUERY PLAN"] ?? []) visit(Plan);
    lookups.push(found);
  }
  const byKey = (key: string) =>
    expect.stringMatching(new RegExp(`^Index (?:Only )?Scan: \\(+${key} = `));
  const stored = {
    fleet_status: byKey("identity_id"),
    collector_identity: byKey("id"),
    core_outage: expect.stringMatching(/^(Index|Bitmap Heap) Scan/),
  };
  const decided = {
    // Of the row that a lookup by key has found.
    fleet_status: expect.stringMatching(/^Tid Scan/),
    certificate: byKey("fingerprint_sha256"),
    collector_identity: byKey("id"),
    proof_use: byKey("certificate_id"),
    collector_health: byKey("identity_id"),
    config_assignment: byKey("identity_id"),
    collector_config: byKey("id"),
  };
  const assigned = { config_assignment: byKey("identity_id"), collector_config: byKey("id") };
  expect(lookups).toHaveLength(4);
  // Of the function's own statement, the function says how it is planned.
  expect(lookups).toContainEqual(assigned);
  expect(lookups).toContainEqual(decided);
  expect(lookups).toContainEqual(stored);
  expect(lookups).toContainEqual({
    ...stored,
    ...assigned,
    collector_health: byKey("identity_id"),
  });
  await core.close();
});
