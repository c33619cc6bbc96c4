import { sql } from "drizzle-orm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { markUsed } from "#functions/domain/certificate/authenticate.ts";
import { readMigrations } from "#functions/node/read-migrations.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { fleetDifferences } from "#tests/support/fleet/fleet-differences.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import {
  updateActiveReplaced,
  updateCertificateRevoked,
  updateIdentityCertificatesRevoked,
} from "../certificate/certificates.ts";
import {
  lockIdentity,
  updateAuthFailure,
  updateIdentity,
  updateReportedLabels,
} from "../certificate/identities.ts";
import { endAssignment, insertAssignment } from "../config/configs.ts";
import type { Executor } from "../database/database.ts";
import { migrate } from "../database/migrate.ts";
import { createSeenRecorder } from "./statuses.ts";

const database = await useTestDatabase();
const { db } = database.connect();
const clock = createTestClock();
const recordSeen = createSeenRecorder({ db }, clock, {
  staleAfterSeconds: 180,
  enrollingSeconds: 900,
  returnSeconds: 96,
});
const count = 24;
await seedFleet(db, { count, now: new Date(clock.now()) });

const idOf = (kind: string, n: number) =>
  `01920000-0000-7000-${kind}-${n.toString(16).padStart(12, "0")}`;
const identityOf = (n: number) => idOf("8000", n);
const list = (hosts: readonly number[]) =>
  sql.join(
    hosts.map((n) => sql`${identityOf(n)}::uuid`),
    sql`, `,
  );
const at = (ms: number) => sql`${clock.iso(ms)}::timestamptz`;
const locked = (n: number, change: (tx: Executor) => Promise<unknown>) =>
  db.transaction(async (tx) => {
    await lockIdentity(tx, identityOf(n));
    await change(tx);
  });

interface Change {
  /** The hosts; most changes use the first one only. */
  hosts: number[];
  /** Varies the change. */
  value: number;
}

/** Every change that a row depends on, made as core makes it. */
const changes: Record<string, (change: Change) => Promise<unknown>> = {
  heartbeat: ({ hosts, value }) =>
    db.execute(sql`insert into collector_health (identity_id, certificate_id, last_heartbeat_at, boot_id, collector_version,
        collector_commit, hostname, platform, started_at, config_valid, config_errors, running_config_hash,
        desired_config_hash, last_known_good_config_hash, queue_records, queue_bytes, queue_bytes_max, dropped_records_total,
        dropped_since_previous, queue_at_risk, forwarder_connected, renewal_status,
        recovered_at)
      select i.id, (select c.id from certificate c where c.identity_id = i.id limit 1), ${at(value)}, 'boot', ${`1.${value % 3}.0`},
        '', case ${value % 3}::int when 0 then 'host' when 1 then upper(i.device_id) else 'rack-7.example' end, 'linux/amd64', ${at(0)}, ${value % 5 > 0}, '{}', k.config_hash, k.config_hash, null, 1, ${value}::bigint, ${value * 2}::bigint, ${value % 6}::bigint,
        ${value % 7 === 0}, ${value % 3 === 0}, true, ${value % 4 === 0 ? "failed" : "ok"},
        case when ${value % 5 === 1} then ${at(value)} end
      from collector_identity i, collector_config k
      where i.id in (${list(hosts)}) and k.id = ${idOf("b000", value % 3)}::uuid order by i.id
      on conflict (identity_id) do update set last_heartbeat_at = excluded.last_heartbeat_at,
        collector_version = excluded.collector_version, config_valid = excluded.config_valid,
        running_config_hash = excluded.running_config_hash, desired_config_hash = excluded.desired_config_hash,
        queue_bytes = excluded.queue_bytes, queue_bytes_max = excluded.queue_bytes_max, hostname = excluded.hostname,
        dropped_records_total = excluded.dropped_records_total, queue_at_risk = excluded.queue_at_risk,
        dropped_since_previous = excluded.dropped_since_previous, renewal_status = excluded.renewal_status,
        recovered_at = greatest(collector_health.recovered_at, excluded.recovered_at)`),
  // A heartbeat with the time and the queue alone changed, which takes a shorter update.
  repeatedHeartbeat: ({ hosts, value }) =>
    db.execute(sql`update collector_health set last_heartbeat_at = ${at(value)}, queue_bytes = ${value}::bigint,
        queue_bytes_max = ${value * 3}::bigint, dropped_records_total = dropped_records_total + 1, dead_letters = dead_letters + 2,
        version_since = coalesce(version_since, ${at(0)})
      where identity_id in (select identity_id from collector_health where identity_id in (${list(hosts)})
        order by identity_id for update)`),
  statuses: async ({ hosts, value }) => {
    const known = await db.execute<{
      id: string;
      lost: string;
    }>(sql`select identity_id as id, lost_records::text as lost
      from fleet_status where identity_id in (${list(hosts)}) and lost_records >= 0`);
    const figures = {
      queueRecords: 1,
      queueBytes: value,
      oldestRecordAgeSeconds: 1,
      deadLetters: 0,
      lastAckAgeSeconds: null,
      process: { rss_bytes: null, cpu_ms: null },
    };
    await Promise.all(
      known.map(({ id, lost }) =>
        recordSeen({
          identityId: id,
          seenAt: clock.now() + value,
          digest: 0n,
          subnet: "",
          figures: { ...figures, droppedRecordsTotal: Number(lost) + (value % 2) },
        }),
      ),
    );
  },
  envelopes: ({ hosts, value }) =>
    db.execute(sql`insert into ingest_host select identity, ${at(value)} from collector_identity where id in (${list(hosts)})
      order by identity on conflict (host_id) do update
      set last_envelope_at = greatest(ingest_host.last_envelope_at, excluded.last_envelope_at)`),
  renew: ({ hosts: [n = 1] }) =>
    locked(n, async (tx) => {
      const id = crypto.randomUUID();
      await tx.execute(sql`update certificate set status = 'replaced' where identity_id = ${identityOf(n)}::uuid
        and predecessor_id is not null and status = 'active' and first_used_at is null`);
      await tx.execute(sql`insert into certificate (id, identity_id, predecessor_id, status, serial_number, fingerprint_sha256,
          spki_sha256, certificate_pem, chain_pem, not_before, not_after, renew_after, issued_at)
        select ${id}::uuid, identity_id, id, 'active', '', ${id}::bytea, '', '', '', ${at(0)}, ${at(60_000)}, ${at(0)}, ${at(0)}
        from certificate where identity_id = ${identityOf(n)}::uuid order by first_used_at desc nulls last limit 1`);
    }),
  use: async ({ hosts: [n = 1] }) => {
    const unused = await db.execute<{ id: string }>(
      sql`select id from certificate where identity_id = ${identityOf(n)}::uuid and first_used_at is null`,
    );
    for (const { id } of unused)
      await markUsed({ db, clock }, [{ certificateId: id, identityId: identityOf(n) }]);
  },
  revokeCertificate: ({ hosts: [n = 1] }) =>
    locked(n, (tx) => updateCertificateRevoked(tx, idOf("9000", n), new Date(clock.now()))),
  replace: ({ hosts: [n = 1] }) =>
    locked(n, (tx) =>
      updateActiveReplaced(tx, identityOf(n), {
        by: crypto.randomUUID(),
        at: new Date(clock.now()),
      }),
    ),
  revoke: ({ hosts: [n = 1] }) =>
    locked(n, async (tx) => {
      await updateIdentity(tx, identityOf(n), { revokedAt: new Date(clock.now()) });
      await updateIdentityCertificatesRevoked(tx, identityOf(n), new Date(clock.now()));
    }),
  // Several hosts in the order of their ids, as a bulk assignment.
  assign: ({ hosts, value }) =>
    db.transaction(async (tx) => {
      for (const n of hosts.toSorted((a, b) => a - b)) {
        await lockIdentity(tx, identityOf(n));
        await endAssignment(tx, identityOf(n), new Date(clock.now()));
        if (value % 4 === 0) continue;
        const ids = {
          id: crypto.randomUUID(),
          identityId: identityOf(n),
          configId: idOf("b000", value % 3),
        };
        await insertAssignment(tx, {
          ...ids,
          assignedAt: new Date(clock.now()),
          assignedBy: identityOf(n),
          endedAt: null,
        });
      }
    }),
  version: ({ hosts: [n = 1], value }) =>
    locked(n, (tx) => updateIdentity(tx, identityOf(n), { collectorVersion: `2.${value}.0` })),
  labels: ({ hosts: [n = 1], value }) =>
    updateReportedLabels(db, {
      identityId: identityOf(n),
      labels: value % 4 === 0 ? null : { env: `e${value % 3}`, rack: "r1" },
    }),
  authFailure: ({ hosts: [n = 1], value }) => {
    const identity = `https://fleet.example.test/dc-${n % 9}/host-${n}`;
    const at = new Date(clock.now() + value);
    return updateAuthFailure(db, { identity, reason: "clock_skew", at, ifBefore: at });
  },
};

const change = fc.record({
  kind: fc.constantFrom(...Object.keys(changes)),
  hosts: fc.uniqueArray(fc.integer({ min: 1, max: count }), { minLength: 1, maxLength: 8 }),
  value: fc.integer({ min: -5000, max: 5000 }),
});

describe("fleet_host and fleet_status", () => {
  it("equal the view fleet_facts after any changes by several concurrent connections", async () => {
    const property = fc.asyncProperty(
      fc.array(change, { minLength: 8, maxLength: 40 }),
      async (batch) => {
        await Promise.all(
          batch.map(({ kind, ...what }) =>
            changes[kind]?.({ ...what, value: Math.abs(what.value) }),
          ),
        );
        expect(await fleetDifferences(db)).toEqual([]);
      },
    );
    await fc.assert(property, { numRuns: runsOf(12), seed: 20_261_120, endOnFailure: true });
    const [{ rows } = { rows: 0 }] = await db.execute<{ rows: number }>(
      sql`select count(*)::int as rows from fleet_host`,
    );
    expect(rows).toBe(count);
  });

  it.each([
    "queue_bytes = queue_bytes + 1",
    "queue_bytes_max = queue_bytes_max + 1",
    "dropped_records_total = dropped_records_total + 1",
    "dead_letters = dead_letters + 1",
    "hostname = 'renamed.example'",
    "renewal_status = 'failed', renewal_failed_since = now()",
    "config_valid = false, config_invalid_since = null",
    "queue_at_risk = true, queue_at_risk_since = now()",
    "dropped_since_previous = true, queue_at_risk_since = null",
    "forwarder_connected = false",
    "collector_version = '9.9.9'",
    "version_since = now()",
    "version_since = null",
    "platform = 'plan9/mips'",
    "desired_config_hash = repeat('ab', 32)",
    "running_config_hash = repeat('cd', 32)",
    "running_config_hash = null",
    "last_known_good_config_hash = repeat('ef', 32)",
    "desired_config_hash = repeat('ab', 32), last_known_good_config_hash = running_config_hash, config_errors = '{desired config: rolled back: x}'",
    "desired_config_hash = repeat('ab', 32), last_known_good_config_hash = running_config_hash, config_errors = '{}'",
    "running_config_since = now()",
    "recovered_at = now()",
  ])("equal the view after a heartbeat that sets only %s and the time", async (assignment) => {
    const hosts = sql`select identity_id from collector_health where identity_id in (${list([3, 4, 5])})
      order by identity_id for update`;
    await db.execute(sql`update collector_health set version_since = now() - interval '1 hour', renewal_status = 'ok', config_valid = true,
        queue_at_risk = false, dropped_since_previous = false where identity_id in (${hosts})`);
    // The second one repeats what the first one set, apart from sums.
    for (const next of [1_000, 2_000])
      await db.execute(sql`update collector_health set ${sql.raw(assignment)}, last_heartbeat_at = now() + make_interval(secs => ${next})
        where identity_id in (${hosts})`);
    expect(await fleetDifferences(db)).toEqual([]);
  });

  it("keep a heartbeat that commits while another change waits for its row", async () => {
    const heartbeatAt = clock.now() + 3_600_000;
    const second = database.connect().db;
    let changed: Promise<unknown> = Promise.resolve();
    await db.transaction(async (tx) => {
      await tx.execute(
        sql`update collector_health set last_heartbeat_at = ${at(3_600_000)} where identity_id = ${identityOf(1)}::uuid`,
      );
      // drizzle sends a query only when `then` is called.
      changed = second
        .execute(
          sql`update collector_identity set platform = 'other' where id = ${identityOf(1)}::uuid`,
        )
        .then();
      const waiting = sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      while ((await second.execute(waiting)).length === 0) await Promise.resolve();
    });
    await changed;
    const [row] = await db.execute<{
      at: string;
    }>(sql`select last_heartbeat_at as at from fleet_status
      where identity_id = ${identityOf(1)}::uuid`);
    expect(new Date(row?.at ?? "").getTime()).toBe(heartbeatAt);
  });

  it("are recomputed when a definition has changed", async () => {
    await db.execute(
      sql`update fleet_host set platform = 'outdated' where identity_id = ${identityOf(2)}::uuid`,
    );
    await db.execute(
      sql`update fleet_status set platform = 'outdated' where identity_id = ${identityOf(3)}::uuid`,
    );
    const schema = await readMigrations();
    const definitions = schema.definitions.map((file) => ({ ...file, sha256: "changed" }));
    await migrate(database.connect().sql, { ...schema, definitions });
    expect(await fleetDifferences(db)).toEqual([]);
  });

  it("do not depend on the time zone of the session that writes", async () => {
    await db.transaction(async (tx) => {
      await tx.execute(sql`set local time zone 'America/New_York'`);
      await tx.execute(sql`select fleet_host_refresh(array_agg(id)) from collector_identity`);
    });
    expect(await fleetDifferences(db)).toEqual([]);
  });
});

it("is written by functions that plan once a session, and compile no plan", async () => {
  const rows = await db.execute(sql`select proname as name from pg_proc
    where 'enable_seqscan=off' = any(proconfig) and not proconfig @> '{plan_cache_mode=force_generic_plan,jit=off}'`);
  expect(rows).toEqual([]);
});

const hash = (digits: string) => digits.repeat(32);
it.each([
  ["not applied yet, since it reports nothing", "", "ab", true, "drifted"],
  [
    "rolled back, as it reports",
    "desired config: rolled back: no heartbeat succeeded",
    "ab",
    true,
    "on_last_known_good",
  ],
  ["refused, as it reports", "desired config: unknown key", "ab", true, "on_last_known_good"],
  [
    "of another failure, by a heartbeat that reports an invalid config",
    "bad",
    "ab",
    false,
    "on_last_known_good",
  ],
  [
    "rolled back from an earlier config, and not on the new one yet",
    "desired config: rolled back: x",
    "ef",
    true,
    "drifted",
  ],
])(
  "the drift of a host that runs its last known good config is known from its report: %s",
  async (_name, error, reported, valid, drift) => {
    const errors = sql`array_remove(array[${error}]::text[], '')`;
    const [row] =
      await db.execute(sql`select fleet_drift(decode(${hash("ab")}, 'hex'), decode(${hash("cd")}, 'hex'),
      fleet_fallback(decode(${hash("ab")}, 'hex'), ${hash(reported)}, ${valid}::boolean, ${errors}, ${hash("cd")})) as drift`);
    expect(row?.drift).toBe(drift);
  },
);
