import { sql } from "drizzle-orm";
import { settleHours } from "#functions/domain/completeness/settle-hours.ts";
import { judgeChanges } from "#functions/domain/fleet/judge-changes.ts";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { advanceRollouts } from "#functions/jobs/core-jobs.ts";
import { createCoreReporter } from "#functions/ops/report-core.ts";
import { createPartition } from "#functions/store/ingest/partitions.ts";
import { dayMs, hourMs, minuteMs, rfc3339 } from "#kit/clock.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { storeAccount } from "../accounts.ts";
import type { TestCore } from "../core.ts";
import { createRolloutLab, type DrivenHost, publishTestConfig } from "../rollout.ts";

const evening = Date.UTC(2026, 10, 26, 20);

/** A Friday before noon, after a night in which much went wrong: a long weekend is to come. */
export const morning = Date.UTC(2026, 10, 27, 11, 30);

/** The clock of the core of the night, and its retention. */
export const nightOptions = {
  now: evening,
  env: {
    SVC_INGEST_GRPC_ADDR: "0.0.0.0:8443",
    SVC_INGEST_SERVER_CERT_FILE: "/etc/svc/ingest.crt",
    SVC_INGEST_SERVER_KEY_FILE: "/etc/svc/ingest.key",
    SVC_INGEST_CLIENT_CA_FILE: "/etc/svc/ca.crt",
  },
};

/** What happened, for the answers. */
export type RecordedNight = Awaited<ReturnType<typeof recordNight>>;

/**
 * Records a night of 60 hosts in six racks, through the API, with the jobs of core:
 * - 02:00 a rollout makes half of the hosts take more memory, and pauses. 02:10 `web-7` rejects a config of its own.
 * - 02:20 rack `r3` loses power, for good. 03:05 core cannot receive for 15 minutes. 04:00 `web-10` runs twice, as a clone.
 * - 05:10 half of the hosts are upgraded, take more memory, and are set back at 08:10.
 * - 02:00 core rejects 40 records of `web-8`; 10:00 the full queue of `web-1` drops 310.
 * - In the morning the queue of `web-5` fills, core-2 cannot commit, and of 62 expected hosts two never enrolled.
 */
export const recordNight = async (test: TestCore) => {
  const { clock, core, db } = test;
  const keepHistory = createHistoryKeeper(core);
  await keepHistory();
  const lab = await createRolloutLab(test, {
    count: 60,
    name: "web",
    tick: () => advanceRollouts(core),
    policy: { certificate_ttl_seconds: 3 * 86_400 },
  });
  const { hosts, react } = lab.fleet;
  const hostOf = (number: number) => hosts[number - 1] as DrivenHost;
  const isInRack3 = (index: number) => index % 6 === 2;
  for (const [index, driven] of hosts.entries())
    driven.report = { labels: { rack: `r${1 + (index % 6)}` } };
  const at = (time: string) => Date.parse(`2026-11-27T${time}Z`);
  /** A minute before a time, hosts send telemetry and a heartbeat. */
  const beatUntil = async (time: number) => {
    await clock.advance(time - minuteMs - clock.now());
    for (const { host, isSilent } of hosts)
      if (!isSilent)
        await db.execute(sql`insert into ingest_host values (${host.identity}, ${timestamp(clock.now())})
          on conflict (host_id) do update set last_envelope_at = excluded.last_envelope_at`);
    await lab.fleet.beat();
  };

  await lab.settle();
  await beatUntil(at("01:00:00"));
  await keepHistory();
  await beatUntil(at("02:00:00"));
  react("takes_memory");
  const gate = { max_failed_percent: 100, states: ["not_applied"], worse_than_control: true };
  const waves = [
    { count: 30, soak_seconds: 240 },
    { percent: 100, soak_seconds: 240 },
  ];
  const { id } = await lab.start({ waves, gate });
  const { reason: paused } = await lab.runUntil(id, "paused", "completed");

  await beatUntil(at("02:10:00"));
  react("applies");
  const rejecting = hostOf(7);
  rejecting.reaction = "rejects";
  const identity_ids = [rejecting.host.identityId];
  const path = `/v1/collector/configs/${await publishTestConfig(test, 900)}/assignments`;
  await test.admin.post(path, { identity_ids });
  await beatUntil(at("02:20:00"));
  for (const [index, driven] of hosts.entries()) driven.isSilent = isInRack3(index);
  for (const time of ["02:39:00", "02:40:00", "02:41:00"]) await beatUntil(at(time));
  await keepHistory();
  const body = await test.health();

  await db.execute(sql`insert into core_outage (id, began_at, ended_at)
    values (gen_random_uuid(), ${timestamp(at("03:05:00"))}, ${timestamp(at("03:20:00"))})`);
  const clone = hostOf(10);
  for (const [boot, time] of [
    ["boot-1", "04:00:00"],
    ["boot-2", "04:01:00"],
    ["boot-1", "04:02:00"],
  ] as const) {
    clone.report = { ...clone.report, boot_id: boot };
    await beatUntil(at(time));
  }
  const setVersion = (version: string, memory: number) => {
    for (const [index, driven] of hosts.entries())
      if (index % 12 < 6) {
        const { collector } = heartbeatBody(clock.now());
        driven.report = { ...driven.report, collector: { ...(collector as object), version } };
        driven.rssBytes *= memory;
      }
  };
  const judgeAt = async (time: number) => {
    await beatUntil(time);
    await keepHistory();
    await judgeChanges(core);
  };
  await judgeAt(at("05:05:00"));
  setVersion("2.0.0", 1.25);
  await beatUntil(at("05:10:00"));
  for (const time of ["06:05:00", "08:05:00"]) await judgeAt(at(time));
  setVersion("1.2.3", 0.8);
  await beatUntil(at("08:10:00"));
  await storeHours(
    test,
    hosts.map(({ host }, index) => [host.identity, isInRack3(index)]),
  );
  hostOf(5).report = { ...hostOf(5).report, queue: fillingQueue };
  await beatUntil(morning - minuteMs);
  await beatUntil(morning);
  await keepHistory();
  await reportCores(test);
  const names = [...hosts.map((_, index) => `web-${index + 1}`), "db-1", "db-2"];
  const put = { hosts: names.map((name) => ({ name })) };
  await test.admin.put("/v1/collector/inventory", put);
  return {
    /** What core said of the rollout when it paused it. */
    paused,
    /** What the page said at 02:41. */
    at0241: body.summary,
  };
};

const timestamp = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;

/** Has been filling for an hour at 10 KiB a second, and has room for another two. */
const fillingQueue = {
  records: 9_000,
  bytes: 36_864_000,
  max_bytes: 110_592_000,
  oldest_record_age_seconds: 3_600,
  dropped_records_total: 0,
  at_risk: false,
};

/** Stores the volume and the accounts of hosts since 21:00, and settles these hours. */
const storeHours = async (
  test: TestCore,
  hosts: readonly (readonly [identity: string, isDark: boolean])[],
) => {
  const { clock, core, db } = test;
  const first = evening + hourMs;
  const dark = Date.UTC(2026, 10, 27, 2);
  const last = Date.UTC(2026, 10, 27, 10);
  const today = morning - (morning % dayMs);
  await createPartition(db, today - dayMs);
  for (const [index, [identity, isDark]] of hosts.entries())
    for (let hour = first; hour <= last; hour += hourMs) {
      if (isDark && hour >= dark) break;
      const bytes = (index === 1 ? 200 : 1) * 1024 * 1024;
      await db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
        values (${identity}, 'log_line', ${timestamp(hour)}, 1000, ${bytes}::bigint)`);
      const rejected = index === 7 && hour === dark ? { rejected: 40, stored: 960 } : {};
      await storeAccount(
        db,
        identity,
        hour,
        index === 0 && hour === last ? { queueFull: 310 } : rejected,
      );
    }
  await db.execute(sql`insert into export_position
    (name, position, position_at, owner, lease_until, epoch, exported, rejected_items, lost, updated_at)
    values ('backend', 100, ${timestamp(morning)}, gen_random_uuid(), 'infinity', 1, 0, 0, 0, ${timestamp(morning)})`);
  await db.execute(sql`insert into completeness_progress (hour, received_before)
    values (${timestamp(evening)}, ${timestamp(first)})`);
  const before = clock.now();
  clock.set(morning);
  const settling = { owner: "01920000-0000-7000-8000-000000000001", retentionDays: 400 };
  for (let hour = first; hour <= last; hour += hourMs) await settleHours(core, settling);
  clock.set(before);
};

/** Has one core report that it is well, and another that it cannot commit. */
const reportCores = async ({ core }: TestCore) => {
  const full = {
    status: "not_ready",
    detail: "the last commit failed: no space left on device",
  } as const;
  for (const machine of ["core-1", "core-2"])
    await createCoreReporter(core, {
      machine,
      version: "1.2.3",
      clockAheadMs: () => 40,
      streams: () => 25,
      isStopping: () => false,
      checks: {
        core: [{ name: "database", find: () => ({ status: "ready", detail: "PostgreSQL 18" }) }],
        ingest: [
          {
            name: "committer",
            find: () => (machine === "core-2" ? full : { status: "ready", detail: "commits" }),
          },
        ],
      },
      credentials: () => [
        {
          name: "ingest_server",
          endsAt: rfc3339(morning + 90 * dayMs),
          parts: [],
          changedAt: null,
        },
      ],
    }).report();
};
