import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import history from "#drizzle/migrations/history.json" with { type: "json" };
import { readMigrations, type SchemaHistory } from "#functions/node/read-migrations.ts";
import { migrate } from "#functions/store/database/migrate.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { readCatalog } from "#tests/support/database/schema-catalog.ts";
import { git } from "./previous.ts";

/**
 * Creates a database as each commit with another text of the baseline made it, with a host, migrates it, and compares its schema with a new
 * one. Returns how many are equal and have the host, and the faults.
 */
export const carryEarlierBaselines = async () => {
  const server = await startEmbeddedPostgres();
  const faults: string[] = [];
  let equal = 0;
  const inDatabase = async <Result>(name: string, run: (sql: SqlClient) => Promise<Result>) => {
    const { sql, close } = connectNodeDatabase({
      url: server.url(name),
      connectionsMax: 1,
    });
    try {
      return await run(sql);
    } finally {
      await close(1);
    }
  };
  const create = (name: string) =>
    inDatabase("postgres", (sql) => sql.unsafe(`create database ${name}`));
  try {
    const schema = await readMigrations();
    await create("fresh");
    const expected = await inDatabase("fresh", async (sql) => {
      await migrate(sql, schema);
      return readCatalog(sql);
    });
    const earlier: SchemaHistory["earlier_baselines"] = history.earlier_baselines;
    for (const [digest, commit] of Object.entries(earlier)) {
      const name = `of_${commit.slice(0, 12)}`;
      await create(name);
      await inDatabase(name, async (sql) => {
        await applyAsOf(sql, commit, digest);
        await insertHost(sql);
        await migrate(sql, schema);
        // Its callers are cores of 0.2.0. The migrator drops nothing.
        await sql`drop function if exists refuse_overtaken_cursor`;
        const catalog = await readCatalog(sql);
        const differing = Object.keys(expected).filter(
          (part) => !isDeepStrictEqual(plain(catalog[part]), plain(expected[part])),
        );
        const hosts = await sql`select identity, lost_records::int from fleet_host`;
        if (
          !isDeepStrictEqual(
            plain(hosts),
            plain([{ identity: "https://fleet.test/d/one", lost_records: -1 }]),
          )
        )
          differing.push(`the host ${plain(hosts)}`);
        if (differing.length === 0) equal++;
        else faults.push(`${name}: ${differing.join(", ")} not as in a new database`);
      }).catch((error: Error) => faults.push(`${name}: ${error.message}`));
    }
  } finally {
    await server.stop("immediate");
  }
  return { equal, faults };
};

/** Applies the baseline and the definitions of a commit, and records them as its migrator did. */
const applyAsOf = async (sql: SqlClient, commit: string, digest: string) => {
  await sql`set client_min_messages = warning`;
  for (const table of ["schema_migration", "schema_definition"])
    await sql`create table ${sql(table)} (
      name text primary key, sha256 text not null, applied_at timestamptz not null default now())`;
  const baseline = await git("show", `${commit}:drizzle/migrations/0000_baseline.sql`);
  if (sha256Of(baseline) !== digest)
    throw new Error("history.json names another text of the baseline");
  await sql.unsafe(baseline);
  await sql`insert into schema_migration ${sql({ name: "0000_baseline", sha256: digest })}`;
  const files = (await git("ls-tree", "--name-only", commit, "drizzle/sql/")).trim().split("\n");
  for (const path of files) {
    const text = await git("show", `${commit}:${path}`);
    await sql.unsafe(text);
    const name = path.replace(/^drizzle\/sql\/(.*)\.sql$/, "$1");
    await sql`insert into schema_definition ${sql({ name, sha256: sha256Of(text) })}`;
  }
};

/** Enrolls a host, as far as every baseline has its columns. */
const insertHost = async (sql: SqlClient) => {
  await sql.unsafe(`
    insert into enrollment_policy (id, name, allowed_identity_prefixes, certificate_ttl_seconds, allowed_platforms, max_enrollments,
      max_enrollments_per_hour, allowed_source_cidrs, reenrollment, created_at, created_by)
    values (gen_random_uuid(), 'lab', '{https://fleet.test/d/}', 3600, '{}', 0, 0, '{}', 'deny', now(), gen_random_uuid());
    insert into bootstrap_token (id, policy_id, token_sha256, token_prefix, allowed_source_cidrs, max_uses, expires_at, created_at, created_by)
    select gen_random_uuid(), id, '', '', '{}', 1, now(), now(), created_by from enrollment_policy;
    insert into collector_identity (id, identity, device_id, policy_id, token_id, platform, collector_version, enrolled_at)
    select gen_random_uuid(), 'https://fleet.test/d/one', 'one', policy_id, id, 'linux/amd64', '0.2.0', now() from bootstrap_token;
    insert into certificate (id, identity_id, status, serial_number, fingerprint_sha256, spki_sha256, certificate_pem, chain_pem, not_before,
      not_after, renew_after, issued_at)
    select gen_random_uuid(), id, 'active', '1', '', '', '', '', now(), now() + interval '1 day', now(), now() from collector_identity;
  `);
};

const sha256Of = (text: string) => hash("sha256", text);

/** Results of the driver carry their statement. */
const plain = (rows: readonly unknown[] | undefined) => JSON.stringify(rows);
