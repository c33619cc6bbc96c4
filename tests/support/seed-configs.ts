import { type SQL, sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import type { Database } from "#functions/store/database/database.ts";
import { dayMs } from "#kit/clock.ts";
import { configHash } from "#proto/collector-config/tree.ts";
import { people } from "#scripts/lab/people.ts";
import { seededId } from "#scripts/lab/seed-rollouts.ts";

/** The configs are in turn of these kinds. */
const kinds = [
  { name: "web servers", source: "type: file\n    include: [/var/log/nginx/*.log]" },
  { name: "databases", source: "type: host_metrics\n    interval_seconds: 30" },
];
const kindOf = (n: number) => kinds[n % kinds.length] as (typeof kinds)[number];

/** The text of the `n`th seeded config. */
const seededYaml = (n: number): string => `# ${kindOf(n).name}, revision ${n}
forwarder:
  endpoint: ingest.example.com:8443
  mtls:
    cert_file: current/tls.crt
    key_file: current/tls.key
    ca_file: ca.pem
  batch:
    max_envelopes: ${100 + n}
buffer:
  dir: data
  max_disk_usage_mb: ${n % 3 === 0 ? 200 : 100}
sources:
  - type: otlp
    grpc: {}
  - ${kindOf(n).source}
`;

/** Returns the id of the `n`th seeded config, from 0 on: the highest is the newest. */
export const seededConfigId = (n: number): string => seededId("b100", n);

/** Of the hosts in the order of their ids, counted from 1 as `n`: */
const hosts = {
  /** Every 6th has no assignment. */
  assigned: sql`n % 6 <> 5`,
  /** Every 23rd was assigned its config just now. */
  assignedNow: sql`n % 23 = 0`,
  /** Every 9th still reports the config that it had. */
  reportsOld: sql`n % 9 = 0`,
  /** Every 101st reports one that was never published. */
  reportsUnpublished: sql`n % 101 = 0`,
};
const numberedHosts = sql`(select id, row_number() over (order by id) as n from collector_identity)`;

const assignedConfigs = 4;

/** Returns the id of one of the newest configs, in turn by the number of a host. */
const newestOf = (count: number, n: SQL): SQL => {
  const newest = Array.from(
    { length: assignedConfigs },
    (_, back) => sql`${seededConfigId(count - 1 - back)}::uuid`,
  );
  return sql`(array[${sql.join(newest, sql`, `)}])[1 + ${n} % ${assignedConfigs}]`;
};

const seededConfig = async (n: number, createdAt: Date) => {
  const yaml = seededYaml(n);
  const hash = await configHash(yaml);
  if (hash === null) throw new Error(`the seeded config ${n} is not valid`);
  return {
    id: seededConfigId(n),
    name: `${kindOf(n).name} r${n}`,
    yaml,
    configHash: hash,
    sizeBytes: yaml.length,
    createdAt,
    createdBy: people.admin.userId,
  };
};

/**
 * Publishes `count` configs, at least four, and assigns the newest four to the hosts of `seedFleet`. `hosts` says which of them differ. The
 * same arguments give the same rows.
 */
export const seedConfigs = async (
  db: Database,
  { count, now }: { count: number; now: Date },
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const configs = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      seededConfig(n, new Date(now.getTime() - (count - n) * dayMs)),
    ),
  );
  await db.transaction(async (tx) => {
    await tx.execute(sql`set local statement_timeout = 0`);
    await tx.insert(collectorConfig).values(configs);
    await tx.execute(sql`
      update config_assignment set ended_at = ${at} - interval '3 hours'
      where ended_at is null`);
    await tx.execute(sql`
      insert into config_assignment (id, identity_id, config_id, assigned_at, assigned_by)
      select ('01920000-0000-7000-b200-' || lpad(to_hex(n), 12, '0'))::uuid,
        id,
        ${newestOf(count, sql`n`)},
        ${at} - make_interval(secs => case when ${hosts.assignedNow} then 0 else 7200 - n % 7200 end),
        ${people.admin.userId}::uuid
      from ${numberedHosts} hosts
      where ${hosts.assigned}`);
    await tx.execute(sql`
      update collector_health h set running_config_hash = running, running_config_since = since
      from (
        select i.id,
          case
            when ${hosts.reportsUnpublished}
              then encode(sha256(('unstored ' || n % 2)::bytea), 'hex')
            when ${hosts.reportsOld} then h.running_config_hash
            else c.config_hash
          end as running,
          least(${at}, a.assigned_at + make_interval(secs => n % 600)) as since
        from ${numberedHosts} i
        join collector_health h on h.identity_id = i.id
        left join config_assignment a on a.identity_id = i.id and a.ended_at is null
        left join collector_config c on c.id = a.config_id
      ) report
      where report.id = h.identity_id`);
  });
};
