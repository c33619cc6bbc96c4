import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { startDirectoryApi } from "../../scripts/lab/directory-api.ts";
import { people, testTenantId } from "../../scripts/lab/people.ts";
import { createTestDatabase } from "../support/database.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";

const folder = await mkdtemp(join(tmpdir(), "svc-directory-"));
const database = await createTestDatabase();
const directory = await startDirectoryApi({ pageSize: 2 });
const { sql } = database.connect();
afterAll(async () => {
  await directory.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

const env = {
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_DATABASE_URL: database.url,
  SVC_TENANT_ID: testTenantId,
  SVC_AUTH_TOKEN_SECRET: "a-test-secret-of-more-than-32-bytes",
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: await directory.writeKeyFile(folder),
  SVC_DIRECTORY_API_URL: directory.url,
  SVC_TRUST_LOOPBACK_OPS: "true",
};

/** Locks of a table in this database, held or waited for; copies of the template have tables of the same oid. */
const locks = (table: string, granted: boolean) => sql`
  select 1 from pg_locks where relation = ${table}::regclass and granted = ${granted}
    and database = (select oid from pg_database where datname = current_database())`;

it("Y4: a core that is killed while it commits a sync leaves nothing of it; the next one boots, serves and syncs", async () => {
  await sql.begin(async (blocker) => {
    // People are written before the audit event, which waits here.
    await blocker`lock table audit_event in share row exclusive mode`;
    const killed = startProgram("functions/main.ts", [], env);
    await logged(killed, "ready");
    await expect.poll(async () => (await locks("audit_event", false)).length).toBeGreaterThan(0);
    killed.child.kill("SIGKILL");
    await once(killed.child, "exit");
  });
  // PostgreSQL detects only now that the client of that transaction has disconnected.
  await expect.poll(async () => (await locks("directory_sync", true)).length).toBe(0);
  expect(await sql`select 1 from person union all select 1 from authentication_identity`).toEqual(
    [],
  );

  const core = startProgram("functions/main.ts", [], env);
  const { port } = await logged(core, "ready");
  const isSync = ({ msg, job }: Record<string, unknown>) =>
    msg === "job done" && job === "directory sync";
  await expect
    .poll(() => core.records.find(isSync))
    .toMatchObject({
      outcome: "synced",
      users: 3,
      added: 3,
    });
  const written = await sql`
    select subject, primary_email, status, scopes::text from person join authentication_identity using (user_id) order by subject`;
  expect(written.map((row) => Object.values(row))).toEqual([
    [people.admin.subject, "ada@example.test", "active", "{read,audit,admin}"],
    [people.auditor.subject, "grace@example.test", "active", "{read,audit}"],
    [people.reader.subject, "edsger@example.test", "active", "{read}"],
  ]);
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(metrics).toContain('directory_sync_total{outcome="synced"} 1');
  expect(metrics).toContain("directory_sync_failures_total 0");
  expect(metrics).toMatch(/directory_snapshot_timestamp_seconds 1[\d.]+/);
  expect(await stopProgram(core)).toBe(0);
});
