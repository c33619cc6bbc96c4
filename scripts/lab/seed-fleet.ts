import { type SQL, sql } from "drizzle-orm";
import type { Database, Executor } from "#functions/store/database/database.ts";

/** Part of the name of every 97th seeded host: characters that patterns, CSV and SQL must escape. */
const oddDeviceId = "@odd%_\\";

/** The seeded hosts: numbers `first` to `count`. */
export interface SeededHosts {
  /** Default 1. */
  first?: number;
  count: number;
  now: Date;
}

/**
 * Writes collectors into the tables of an empty database, with a few statements; further calls add further hosts. The same arguments give
 * the same rows. They are spread over all states, versions, platforms, kinds of drift, ages and expiry dates, and over combinations of these.
 */
export const seedFleet = async (
  db: Database,
  { first = 1, count, now }: SeededHosts,
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const terms: Terms = {
    at,
    ago: (seconds) => sql`${at} - make_interval(secs => ${sql.raw(seconds)})`,
    hosts: sql`generate_series(${first}::int, ${count}::int) n`,
  };
  await db.transaction(async (tx) => {
    await tx.execute(sql`set local statement_timeout = 0`);
    await seedEnrolled(tx, terms);
    await seedReported(tx, terms);
  });
};

/** The terms of the statements: the time of the seed, the one so many seconds ago, and the hosts as `n`. */
interface Terms {
  at: SQL;
  ago(seconds: string): SQL;
  hosts: SQL;
}

const id = (kind: string, of = "n") =>
  sql.raw(`('01920000-0000-7000-${kind}-' || lpad(to_hex(${of}), 12, '0'))::uuid`);
const policy = sql.raw("'01920000-0000-7000-8000-ffffffffffff'::uuid");
const hash = (text: string) => sql.raw(`encode(sha256((${text})::text::bytea), 'hex')`);
/** Every fourth host that reports trouble with its queue speaks OpAMP, and has an unhealthy component instead. */
const isOpamp = sql.raw("n % 188 = 0");
const device = sql.raw(`case when n % 97 = 0 then '${oddDeviceId}' || n else 'host-' || n end`);

/** Writes what enrollment writes. */
const seedEnrolled = async (tx: Executor, { at, ago, hosts }: Terms): Promise<void> => {
  await tx.execute(sql`insert into enrollment_policy values (${policy}, 'seeded', null, '{}', 1814400, '{}', 0, 0, '{}',
      'deny', 0, ${at}, ${policy}) on conflict do nothing`);
  await tx.execute(sql`insert into bootstrap_token (id, policy_id, token_sha256, token_prefix, allowed_source_cidrs, max_uses,
      expires_at, created_at, created_by) values (${policy}, ${policy}, '', 'seeded', '{}', 0, ${at}, ${at}, ${policy})
      on conflict do nothing`);
  await tx.execute(sql`insert into collector_config (id, yaml, config_hash, size_bytes, created_at, created_by)
      select ${id("b000")}, '', ${hash("n")}, 0, ${at}, ${policy} from generate_series(0, 2) n
      on conflict do nothing`);
  await tx.execute(sql`insert into collector_identity (id, identity, device_id, policy_id, token_id, platform,
        collector_version, enrolled_at, revoked_at, last_auth_failure_at, last_auth_failure_reason, agent, reported_labels)
      select ${id("8000")}, 'https://fleet.example.test/dc-' || n % 9 || '/' || replace(${device}, '%', '%25'), ${device},
        ${policy}, ${policy}, (array['linux/amd64', 'linux/arm64', 'windows/amd64', 'darwin/arm64'])[1 + n % 10 % 4],
        (array['1.4.0', '1.10.2', '0.9.0', 'latest'])[1 + n % 17 % 4],
        case when n % 22 = 0 then ${ago("300")} else ${ago("2000000 + n % 1000")} end,
        case when n % 59 = 0 then ${at} end, case when n % 71 = 0 then ${ago("60")} end,
        case when n % 71 = 0 then 'clock_skew' end, case when ${isOpamp} then 'otelcol' else 'svc-collector' end,
        case when n % 11 <> 0 and n % 23 <> 0 then jsonb_build_object(
          'env', (array['prod', 'prod', 'prod', 'staging', 'dev'])[1 + n % 5], 'region', 'dc-' || n % 9,
          'team', (array['payments', 'search', 'web', 'data', 'core', 'edge', 'mobile'])[1 + n % 7]) end
      from ${hosts}`);
  await tx.execute(sql`insert into certificate (id, identity_id, status, serial_number, fingerprint_sha256, spki_sha256,
        certificate_pem, chain_pem, not_before, not_after, renew_after, issued_at, first_used_at, revoked_at)
      select ${id("9000")}, ${id("8000")}, case when n % 53 = 0 then 'revoked' else 'active' end, to_hex(n),
        decode(${hash("n")}, 'hex'), '', '', '', issued, issued + make_interval(secs => 1814400),
        issued + make_interval(secs => 907200), issued, issued, case when n % 53 = 0 then ${at} end
      from ${hosts}, lateral (select ${at} - make_interval(secs => 86400.0 * case
        when n % 41 = 0 then 21.5 when n % 37 = 0 then 17 else n % 100 * 0.1 end) as issued) i`);
  await tx.execute(sql`insert into certificate (id, identity_id, predecessor_id, status, serial_number, fingerprint_sha256,
        spki_sha256, certificate_pem, chain_pem, not_before, not_after, renew_after, issued_at)
      select ${id("a000")}, ${id("8000")}, ${id("9000")}, 'active', to_hex(-n), decode(${hash("-n")}, 'hex'), '', '', '',
        ${at}, ${at} + make_interval(secs => case when n % 3 = 0 then 1814400 else -n end), ${at}, ${at}
      from ${hosts} where n % 29 = 0`);
};

/** Writes what heartbeats, telemetry and assignments write. */
const seedReported = async (tx: Executor, { at, ago, hosts }: Terms): Promise<void> => {
  await tx.execute(sql`insert into collector_health (identity_id, certificate_id, last_heartbeat_at, boot_id, collector_version,
        collector_commit, hostname, platform, started_at, config_valid, config_errors, running_config_hash,
        desired_config_hash, last_known_good_config_hash, queue_records, queue_bytes, queue_bytes_max, dropped_records_total,
        dropped_since_previous, queue_at_risk, forwarder_connected, forwarder_last_ack_at, forwarder_last_error, renewal_status,
        renewal_last_error, report_digest, digest_reported_at)
      select h.*, n, last_heartbeat_at from ${hosts}, lateral (select i.id, ${id("9000")}, case when n % 13 = 0 or n % 59 = 0 then ${ago("120 + n % 100000")} else ${ago("n % 60")} end as last_heartbeat_at, 'boot',
        case when n % 6 = 0 then '1.11.0' else i.collector_version end, 'c0ffee', '=host' || n, i.platform, ${ago("100000")},
        n % 43 <> 0, case when n % 24 = 7 then array['desired config: rolled back: no heartbeat and no ack succeeded in 2 minutes']
          else '{}' end, case when n % 19 <> 0 then ${hash("n % 3")} end, case when n % 4 <> 1 then ${hash("0")} end,
        ${hash("n % 2")}, case when ${isOpamp} then 0 else n % 1000 end, case when ${isOpamp} then 0 else n * 7919::bigint % 104857600 end,
        case when ${isOpamp} then 0 else 104857600 end, case when ${isOpamp} then 0 else n % 5 end, n % 83 = 0 and not ${isOpamp}, n % 47 = 0, n % 7 <> 0,
        case when n % 7 <> 0 then ${ago("n % 90")} end, case when n % 7 = 0 then 'connect ECONNREFUSED 192.0.2.1:8443' end,
        case when n % 61 = 0 then 'failed' else 'ok' end, case when n % 61 = 0 then '+refused, with reenroll' end
        from collector_identity i where i.id = ${id("8000")}) h where n % 11 <> 0`);
  await tx.execute(sql`insert into ingest_host select i.identity,
        case when n % 31 = 0 then ${ago("400 + n % 90")} else ${ago("n % 90 + 0.123")} end
      from ${hosts} join collector_identity i on i.id = ${id("8000")} where n % 7 <> 0`);
  await tx.execute(sql`insert into config_assignment (id, identity_id, config_id, assigned_at, assigned_by)
      select ${id("8000")}, ${id("8000")}, ${id("b000", "n % 3")}, ${at}, ${policy} from ${hosts} where n % 5 = 0`);
};
