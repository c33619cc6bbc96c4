import { readFile } from "node:fs/promises";
import { sql } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { rfc3339 } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { SystemReport } from "#proto/system/report.ts";
import { useTestCore } from "#tests/support/core.ts";
import { systemThresholds } from "../domain/system/report-system.ts";
import type { CheckResult } from "../ops/readiness.ts";
import { createCoreReporter } from "../ops/report-core.ts";
import { findCoreReports } from "../store/system/system.ts";

const dayMs = 86_400_000;
const test = await useTestCore();
const { clock, core, db } = test;

/** A core that reports when it is told to. */
const createCore = (machine: string, aheadMs = 250) => {
  const says: { check: CheckResult; expiresAt: number; isStopping: boolean; streams: number } = {
    check: { status: "ready", detail: "PostgreSQL 18" },
    expiresAt: clock.now() + 90 * dayMs,
    isStopping: false,
    streams: 7,
  };
  const { report } = createCoreReporter(core, {
    machine,
    version: "1.2.3",
    checks: {
      core: [{ name: "database", find: () => says.check }],
      ingest: ["database", "committer"].map((name) => ({ name, find: () => says.check })),
    },
    credentials: () => [
      {
        name: "ingest_server",
        endsAt: rfc3339(says.expiresAt),
        parts: [],
        changedAt: null,
      },
    ],
    streams: () => says.streams,
    clockAheadMs: () => aheadMs,
    isStopping: () => says.isStopping,
  });
  return { says, report };
};

const get = () => test.auditor.read<SystemReport>("/v1/system");
const partOf = (report: SystemReport, name: string, of: string | null) =>
  report.parts.find((part) => part.name === name && part.of === of);
const reportAll = async (...cores: (ReturnType<typeof createCore> | undefined)[]) => {
  for (const one of cores) await one?.report();
};

beforeEach(async () => {
  await db.execute(sql`delete from core_report`);
  await db.execute(sql`delete from export_position`);
});

describe("the state of the system", () => {
  it.each([
    [40, 2_147_483.647],
    [-40, -2_147_483.647],
  ])(
    "has a core whose clock is %d days ahead, as far as the column can say",
    { tags: "workerd" },
    async (days, seconds) => {
      await createCore("a", days * dayMs).report();
      expect((await get()).cores).toMatchObject([{ clock_ahead_seconds: seconds }]);
    },
  );

  it("warns of a core that has more than its share of the streams", async () => {
    const cores = ["a", "b", "c"].map((name) => createCore(name));
    const [a] = cores;
    if (a) a.says.streams = 600;
    await reportAll(...cores);
    const report = await get();
    expect(partOf(report, "streams", "a")).toMatchObject({
      state: "warning",
      detail: expect.stringMatching(/^It has 600 of the 614 streams of 3 cores/),
    });
    expect(partOf(report, "streams", "b")).toBeUndefined();
  });

  it("has the checks of every core, with the time since when each has its status", async () => {
    const a = createCore("a");
    const b = createCore("b");
    const began = clock.iso();
    await reportAll(a, b);
    await clock.advance(10_000);
    a.says.check = { status: "not_ready", detail: "fsync is off" };
    await reportAll(a, b);
    const since = clock.iso();
    await clock.advance(10_000);
    await a.report();
    const report = await get();
    expect(report).toMatchObject({
      state: "not_ready",
      cores: [{ machine: "a", state: "running", streams: 7, version: "1.2.3" }, { machine: "b" }],
    });
    const failed = { state: "not_ready", detail: "fsync is off", since };
    for (const name of ["database", "committer"])
      expect(partOf(report, name, "a")).toMatchObject(failed);
    expect(partOf(report, "database", "b")).toMatchObject({ state: "ready", since: began });
    // Both endpoints check the database.
    expect(report.parts.filter(({ name, of }) => name === "database" && of === "a")).toHaveLength(
      1,
    );
    // Those that need attention come first.
    expect(report.parts.slice(0, 2).map(({ state }) => state)).toEqual(["not_ready", "not_ready"]);
  });

  it("has the hosts whose newest heartbeat each core received, and no silent ones", async () => {
    await test.seedFleet(60);
    await db.execute(
      sql`update fleet_status set core = case when identity like '%7' then 'a' else 'b' end`,
    );
    for (const machine of ["a", "b", "c"]) await createCore(machine).report();
    const { cores } = await get();
    for (const { machine, hosts } of cores) {
      const { items } = await test.health(
        `core=${machine}&heartbeat_within_seconds=180&limit=1000`,
      );
      expect(items, machine).toHaveLength(hosts);
    }
    expect(cores.map(({ hosts }) => hosts > 0)).toEqual([true, true, false]);
  });

  it("tells a core that is silent from one that was told to stop, and from one that was started anew", async () => {
    const [hung, stopped, killed] = ["hung", "stopped", "killed"].map(createCore);
    await reportAll(hung, stopped, killed);
    const last = clock.iso();
    await clock.advance(20_000);
    if (stopped) stopped.says.isStopping = true;
    await stopped?.report();
    await createCore("killed").report();
    await clock.advance(10_001);
    const report = await get();
    expect(report.cores.map(({ machine, state }) => [machine, state])).toEqual([
      ["hung", "silent"],
      ["killed", "stopped"],
      ["killed", "running"],
      ["stopped", "stopped"],
    ]);
    expect(partOf(report, "process", "hung")).toMatchObject({ state: "not_ready", since: last });
    expect(report.parts.some(({ of }) => of === "stopped")).toBe(false);
    await clock.advance(dayMs);
    await createCore("new").report();
    expect((await get()).cores.map(({ machine }) => machine)).toEqual(["new"]);
  });

  it("keeps since when a check has a fault while a core starts again on its machine", async () => {
    const check: CheckResult = { status: "not_ready", detail: "The server accepts no writes." };
    const since = clock.iso();
    for (let starts = 0; starts < 2; starts += 1) {
      const one = createCore("a");
      one.says.check = check;
      await one.report();
      await clock.advance(dayMs / 24);
    }
    const { checks } = (await findCoreReports(db)).at(-1) ?? { checks: [] };
    expect(new Set(checks.map((each) => each.since))).toEqual(new Set([since]));
  });

  it("warns of certificates, and of exports that are behind, stopped or rejected, by the limits of the alerts", async () => {
    const one = createCore("a");
    for (const [days, state] of [
      [8, "ready"],
      [6, "warning"],
      [0.5, "not_ready"],
      [-1, "not_ready"],
    ] as const) {
      one.says.expiresAt = clock.now() + days * dayMs;
      await one.report();
      expect(partOf(await get(), "ingest_server", "a"), String(days)).toMatchObject({ state });
    }
    await db.execute(sql`insert into export_position
      (name, position, position_at, owner, lease_until, epoch, exported, rejected_items, lost, updated_at, last_error) values
      ('off', 1000000, now(), null, now(), 0, 0, 0, 0, now(), null),
      ('refused', 1000000, now(), gen_random_uuid(), now() + interval '1 hour', 0, 0, 0, 0, now(), '401'),
      ('well', 1000000, now(), gen_random_uuid(), now() + interval '1 hour', 0, 0, 0, 0, now(), null)`);
    const report = await get();
    for (const [name, state, detail] of [
      ["off", "not_ready", "It is not running."],
      ["refused", "warning", "401"],
      ["well", "ready", ""],
    ] as const)
      expect(partOf(report, "delivery", name), name).toMatchObject({
        state,
        detail: expect.stringContaining(detail),
      });
  });

  it("warns when web refuses one person after the other, and not of one who tries again", async () => {
    const signIn = async (person: string, reason: string | null) => {
      await clock.advance(1);
      await db.execute(sql`insert into audit_event (id, occurred_at, actor_type, actor_id, actor_display, action, target_type, target_id,
        outcome, reason_code, details) select ${uuidv7(core)}, ${clock.iso()}, 'system', 'web', 'web', 'operator.sign_in', 'person', '',
        case when ${reason}::text is null then 'success' else 'failure' end, ${reason}::text, jsonb_build_object('subject', ${person}::text)`);
    };
    const partNow = async () => partOf(await get(), "sign_ins", null);
    expect((await partNow())?.detail).toBe("Nobody has signed in for a day.");
    await signIn("ada", null);
    const at = clock.iso();
    await signIn("bob", "not_in_directory");
    const since = clock.iso();
    for (const person of ["bob", "bob", "carl"]) await signIn(person, "not_in_directory");
    expect((await partNow())?.state).toBe("ready");
    await signIn("dora", "held");
    expect(await partNow()).toMatchObject({
      state: "warning",
      detail: `3 people in a row were refused, the last for held. The last sign-in was at ${at}.`,
      since,
    });
    await signIn("ada", null);
    expect((await partNow())?.state).toBe("ready");
  });

  it("has the database's sizes and retention, and the outages of a week", async () => {
    for (const days of [8, 1])
      await db.execute(sql`insert into core_outage (id, began_at, ended_at)
        select gen_random_uuid(), began, began + interval '1 minute' from (select ${clock.iso(-days * dayMs)}::timestamptz as began) o`);
    const { database, outages, parts } = await get();
    expect(database.bytes).toBeGreaterThan(1_000_000);
    expect(database.telemetry_bytes).toBeGreaterThan(0);
    expect(database).toMatchObject({ slow_statements: 0, standbys: [] });
    expect(outages).toHaveLength(1);
    const began_at = clock.iso(-60_000);
    await db.execute(sql`insert into core_session (id, started_at, received_until)
      values (gen_random_uuid(), ${began_at}, ${began_at})`);
    expect((await get()).outages.slice(1)).toEqual([{ began_at, ended_at: null }]);
    expect(parts).toContainEqual(expect.objectContaining({ name: "retention", state: "ready" }));
  });
});

it("has the limits of the alerts", async () => {
  const alerts = await readFile(
    new URL("../../docs/deploy/monitoring/alerts.yaml", import.meta.url),
    "utf8",
  );
  const { exportLagSeconds, ingestServerDays, certificateDays, certificateLastDays } =
    systemThresholds;
  expect(alerts).toContain(`core_export_lag_seconds) > ${exportLagSeconds}`);
  for (const [sign, days] of [
    ["=", ingestServerDays],
    ["!=", certificateDays],
  ] as const)
    expect(alerts).toContain(`{certificate${sign}"ingest_server"}) - time() < ${days} * 86400`);
  expect(alerts).toContain(
    `core_certificate_expiry_timestamp_seconds) - time() < ${certificateLastDays * 86_400}`,
  );
});
