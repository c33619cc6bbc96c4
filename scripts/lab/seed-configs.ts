import { sql } from "drizzle-orm";
import { collectorConfig } from "#drizzle/schema/config.ts";
import type { Database } from "#functions/store/database/database.ts";
import { configHash } from "#proto/collector-config/hash.ts";
import { people } from "./people.ts";

const dayMs = 86_400_000;

/** The text of the `n`th seeded config. */
const seededYaml = (
  n: number,
): string => `# ${n % 2 === 0 ? "web servers" : "databases"}, revision ${n}
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
${n % 2 === 0 ? "  - type: file\n    include: [/var/log/nginx/*.log]\n" : "  - type: host_metrics\n    interval_seconds: 30\n"}`;

/** Returns the id of the `n`th seeded row of a kind, four hexadecimal digits. */
export const seededId = (kind: string, n: number): string =>
  `01920000-0000-7000-${kind}-${n.toString(16).padStart(12, "0")}`;

/** Returns the id of the `n`th seeded config, from 0 on: the highest is the newest. */
export const seededConfigId = (n: number): string => seededId("b100", n);

/**
 * Publishes `count` configs, at least four, and assigns the newest four to the hosts of `seedFleet`, which many of them run, and some
 * report as invalid, or have not reported since. Every 101st host runs a config that was never published. The same arguments give the same rows.
 */
export const seedConfigs = async (
  db: Database,
  { count, now }: { count: number; now: Date },
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const newest = sql`((array[${sql.join(
    [1, 2, 3, 4].map((back) => sql`${seededConfigId(count - back)}::uuid`),
    sql`, `,
  )}])[1 + n % 4])`;
  const configs = await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const yaml = seededYaml(n);
      return {
        id: seededConfigId(n),
        name: `${n % 2 === 0 ? "web servers" : "databases"} r${n}`,
        yaml,
        configHash: (await configHash(yaml)) ?? "",
        sizeBytes: yaml.length,
        createdAt: new Date(now.getTime() - (count - n) * dayMs),
        createdBy: people.admin.userId,
      };
    }),
  );
  await db.transaction(async (tx) => {
    await tx.execute(sql`set local statement_timeout = 0`);
    await tx.insert(collectorConfig).values(configs);
    await tx.execute(
      sql`update config_assignment set ended_at = ${at} - interval '3 hours' where ended_at is null`,
    );
    await tx.execute(sql`insert into config_assignment (id, identity_id, config_id, assigned_at, assigned_by)
      select ('01920000-0000-7000-b200-' || lpad(to_hex(n), 12, '0'))::uuid, id, ${newest},
        ${at} - make_interval(secs => case when n % 23 = 0 then 0 else 7200 - n % 7200 end), ${people.admin.userId}::uuid
      from (select id, row_number() over (order by id) as n from collector_identity) hosts where n % 6 <> 5`);
    await tx.execute(sql`update collector_health h set running_config_hash = running, running_config_since = since
      from (
        select i.id, case when n % 101 = 0 then encode(sha256(('unstored ' || n % 2)::bytea), 'hex')
            when n % 9 = 0 then h.running_config_hash else c.config_hash end as running,
          least(${at}, a.assigned_at + make_interval(secs => n % 600)) as since
        from (select id, row_number() over (order by id) as n from collector_identity) i
        join collector_health h on h.identity_id = i.id
        left join config_assignment a on a.identity_id = i.id and a.ended_at is null
        left join collector_config c on c.id = a.config_id
      ) report where report.id = h.identity_id`);
  });
};
