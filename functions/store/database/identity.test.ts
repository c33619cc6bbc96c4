import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { restoreBaseBackup, takeBaseBackup } from "#tests/support/database/base-backup.ts";
import { connectDatabase } from "./database.ts";
import { readDatabaseIdentity } from "./identity.ts";

it("Q12: a recovery from the archive has another timeline at once, a copy another database, and a role without rights still its oid", async () => {
  const postgres = await startEmbeddedPostgres({ durable: false });
  onTestFinished(() => postgres.stop("immediate"));
  const read = async (url: string) => {
    const { db, close } = connectDatabase({
      url,
      connectionsMax: 1,
      openSocket: openDatabaseSocket,
    });
    return readDatabaseIdentity(db).finally(() => close(1));
  };
  const run = async (statement: string) => {
    const { sql, close } = connectDatabase({
      url: postgres.url(),
      connectionsMax: 1,
      openSocket: openDatabaseSocket,
    });
    await sql.unsafe(statement).finally(() => close(1));
  };
  const before = await read(postgres.url());
  expect(before).toEqual({
    systemIdentifier: expect.stringMatching(/^\d{19}$/),
    databaseOid: expect.stringMatching(/^\d+$/),
    timeline: 1,
    startedAt: expect.stringMatching(/^\d+\.\d+$/),
  });
  await run("create database copy template postgres");
  const copy = await read(postgres.url("copy"));
  expect(copy).toEqual({
    ...before,
    databaseOid: expect.not.stringMatching(`^${before.databaseOid}$`),
  });

  const backup = join(tmpdir(), `identity-${crypto.randomUUID()}`);
  await takeBaseBackup(postgres, backup, {
    "recovery.signal": "",
    // No archive: recovery ends with the WAL of the backup.
    "postgresql.auto.conf": "restore_command = 'false'\n",
  });
  await postgres.restart({
    whileStopped: (dataDir) => restoreBaseBackup(backup, dataDir),
  });
  const { db, close } = connectDatabase({
    url: postgres.url(),
    connectionsMax: 1,
    openSocket: openDatabaseSocket,
  });
  onTestFinished(() => close(1));
  await expect
    .poll(() => readDatabaseIdentity(db).catch(() => null))
    .toMatchObject({
      ...before,
      timeline: 2,
      startedAt: expect.not.stringMatching(`^${before.startedAt}$`),
    });

  await run(
    "create role unprivileged login; revoke execute on function pg_control_system() from public",
  );
  const url = Object.assign(new URL(postgres.url()), { username: "unprivileged" }).href;
  expect(await read(url)).toMatchObject({
    systemIdentifier: null,
    databaseOid: before.databaseOid,
    timeline: null,
  });
});
