import { readFileSync } from "node:fs";
import { afterAll, expect, it } from "vitest";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { connectDatabase } from "#functions/store/database/database.ts";
import { signInAnew } from "#scripts/lab/walk-sign-in.ts";
import { useTestWeb } from "#tests/support/web.ts";

/** The statements of docs/deploy.md that operators run. */
const documented =
  /database-role\.test\.ts -->\s+```sql\n(.*?)```/s.exec(
    readFileSync(new URL("../../../docs/deploy.md", import.meta.url), "utf8"),
  )?.[1] ?? "";

const role = `svc_web_${crypto.randomUUID().replaceAll("-", "")}`;
let connection: ReturnType<typeof connectDatabase> | undefined;
const web = await useTestWeb({
  db: (core) => {
    connection = connectDatabase({
      url: core.databaseUrl,
      connectionsMax: 1,
      openSocket: openDatabaseSocket,
    });
    return connection.db;
  },
});
const admin = web.core.database.connect();
await admin.sql.unsafe(documented.replaceAll("svc_web", role));
await connection?.sql.unsafe(`set session authorization ${role}`);
afterAll(async () => {
  await connection?.close();
  await admin.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
});

it("suffices to sign in and to be ready", async () => {
  const agent = await signInAnew(web.origin, "admin");
  expect((await agent.visit(`${web.origin}/readyz`)).status).toBe(200);
});

it("reads no other table and writes none", async () => {
  const tables = await admin.sql<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = 'public' order by 1`;
  const readable: string[] = [];
  for (const { name } of tables) {
    const read = connection?.sql.unsafe(`select 1 from ${name} limit 1`);
    await read?.then(
      () => readable.push(name),
      () => undefined,
    );
  }
  expect(tables.length).toBeGreaterThan(20);
  expect(readable).toEqual(["authentication_identity", "person"]);
  for (const statement of [
    "update person set status = 'active'",
    "delete from authentication_identity",
    "insert into person select * from person",
    "create table mine (x int)",
  ])
    await expect(connection?.sql.unsafe(statement)).rejects.toThrow(/permission denied/);
});
