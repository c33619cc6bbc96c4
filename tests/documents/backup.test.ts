/* docs/backup.md as it is printed: dump and files, and the monthly check of them on another machine. */
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { people, seedPeople, testTenantId } from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { startProgram } from "../support/program.ts";
import { createBlockRunner } from "./support/documented-block.ts";

/** Tools and server of one version, as a distribution delivers them; the embedded one has no tools. */
const bin = globSync("/usr/lib/postgresql/*/bin").sort().at(-1);
const tables = [
  "audit_event",
  "certificate",
  "collector_identity",
  "directory_sync",
  "ingest_host",
];

/** The rows of these tables, whatever their order. */
const readRows = async (url: string) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const found: Record<string, string[]> = {};
    for (const table of tables) {
      const { rows } = await client.query(`select t::text as row from "${table}" as t order by 1`);
      found[table] = rows.map(({ row }) => row);
    }
    return found;
  } finally {
    await client.end();
  }
};

it.skipIf(bin === undefined)(
  "Q12: a dump and four files bring core back, with its audit chain, and a restore holds everybody's access",
  async () => {
    const dir = newFolder();
    const database = await openEmbeddedDatabase({ bin });
    onTestFinished(() => database.close());
    const etc = join(dir, "etc");
    const other = join(dir, "other");
    mkdirSync(other);
    const secretFile = "auth-token-secret";
    await createLabPki({ dir: etc });
    writeFileSync(join(etc, secretFile), `${"0".repeat(64)}\n`, { mode: 0o600 });
    writeFileSync(join(etc, "core.env"), "PORT=8080\n", { mode: 0o600 });
    const peopleFile = join(etc, "people.yaml");
    writeFileSync(peopleFile, "people: []\ngroups: {}\n", { mode: 0o600 });
    const environment = (databaseUrl: string, folder: string) => ({
      PATH: `${bin}:${join(dir, "bin")}:${process.env.PATH}`,
      PORT: "0",
      SVC_DATABASE_URL: databaseUrl,
      SVC_TENANT_ID: testTenantId,
      SVC_AUTH_TOKEN_SECRET_FILE: join(folder, secretFile),
      SVC_DIRECTORY_PROVIDER: "file",
      SVC_DIRECTORY_FILE: peopleFile,
      SVC_DIRECTORY_DOMAIN: "example.test",
      SVC_ENROLLMENT_CA_CERT_FILE: join(folder, "enrollment-ca.crt"),
      SVC_ENROLLMENT_CA_KEY_FILE: join(folder, "enrollment-ca.key"),
    });
    const env = environment(database.url, etc);
    // As a core that starts: the tenant, and where the database is.
    expect(await startProgram("functions/main.ts", ["confirm-access"], env).exited).toBe(0);
    await seedPeople(database.db, systemClock.now());
    await seedFleet(database.db, { count: 30, now: new Date(systemClock.now()) });
    const before = await readRows(database.url);
    expect(before.collector_identity).toHaveLength(30);

    const run = createBlockRunner(dir);
    const backUp = run("docs/backup.md", "umask", { replacements: { "/etc/svc": etc }, env });
    expect(backUp).toMatchObject({ status: 0, stderr: "" });
    for (const file of ["svc.dump", "svc-files.tar"])
      expect(statSync(join(dir, file)).mode & 0o077).toBe(0);

    await database.sql`create database restored template template0`;
    const restoredUrl = database.url.replace(/\/postgres$/, "/restored");
    const check = run("docs/backup.md", "tar --extract", {
      replacements: { "/etc/svc": other },
      env: environment(restoredUrl, other),
    });
    expect(check).toMatchObject({ status: 0 });
    const [audit, held] = check.stdout
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .slice(-2)
      .map((line) => JSON.parse(line));
    expect(audit).toMatchObject({ ok: true, fault: null });
    expect(held.people.map(({ email }: { email: string }) => email)).toContain(people.admin.email);
    for (const file of ["core.env", secretFile, "enrollment-ca.crt", "enrollment-ca.key"])
      expect(readFileSync(join(other, file))).toEqual(readFileSync(join(etc, file)));
    const after = await readRows(restoredUrl);
    // The hold itself is an event.
    expect({ ...after, audit_event: [] }).toEqual({ ...before, audit_event: [] });
    expect(after.audit_event).toEqual(expect.arrayContaining(before.audit_event ?? []));
    expect(after.audit_event?.length).toBe((before.audit_event?.length ?? 0) + 1);
  },
);
