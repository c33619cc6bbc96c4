import { chmodSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import { databaseCheck } from "#functions/ops/checks.ts";
import { connectDatabase } from "#functions/store/database/database.ts";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readTrustedFile } from "../config-files.ts";
import { checkEach } from "../reload-files.ts";
import { followVariables } from "./follow-variables.ts";

const dir = newFolder();
const path = join(dir, "url");
const refused = "has a password that the server refuses";
let server: EmbeddedPostgres;
let admin: ReturnType<typeof connectDatabase>;
beforeAll(async () => {
  server = await startEmbeddedPostgres({ tcp: true });
  admin = connectDatabase({ url: server.url(), connectionsMax: 1 });
  await admin.sql`create role svc login superuser`;
});
afterAll(async () => {
  await admin?.close();
  await server?.stop("immediate");
});

const setPassword = (password: string) => admin.sql.unsafe(`alter role svc password '${password}'`);
const urlWith = (password: string) => {
  const url = new URL(server.tcpUrl());
  url.username = "svc";
  url.password = password;
  return url.href;
};
const put = (contents: string) => {
  writeFileSync(`${path}.new`, contents);
  renameSync(`${path}.new`, path);
};

/** Follows the variables of a core, and opens a pool of four connections as it does. */
const open = async (env: Record<string, string>) => {
  const log = createTestLog();
  const { config } = parseCoreConfig({ ...coreEnvironment(server.tcpUrl()), ...env }, (name) =>
    readTrustedFile(name).toString("utf8"),
  );
  const { servers, followed } = await followVariables(config, log);
  const connect = () => {
    const pool = connectDatabase({ ...servers.requests, connectionsMax: 4 });
    onTestFinished(() => pool.close(0));
    return pool;
  };
  const pool = connect();
  const { locate } = servers.requests.servers;
  return {
    log,
    pool,
    connect,
    count: servers.requests.servers.count,
    check: () => checkEach(followed),
    fault: () => followed.at(-1)?.fault(),
    /** More calls at once than connections are open: statements, and transactions, which share none. */
    useAll: () =>
      Promise.all(
        Array.from({ length: 4 }, async () => {
          await pool.sql`select pg_sleep(0.02)`;
          await pool.sql.begin((tx) => tx`select pg_sleep(0.02)`);
        }),
      ),
    copy: async () => destroyClient(await openCopyClient(await locate())),
    pid: async (): Promise<number> => (await pool.sql`select pg_backend_pid() as pid`)[0]?.pid,
  };
};
const isOpen = async (pid: number) =>
  (await admin.sql`select from pg_stat_activity where pid = ${pid}`).length === 1;

it("takes a password that is changed at the server and then in the file: no call fails, and no connection ends", async () => {
  await setPassword("first");
  put(urlWith("first"));
  const core = await open({ SVC_DATABASE_URL_FILE: path });
  const pid = await core.pid();
  await setPassword("second");
  // One connection is open. Further ones are refused, and their calls wait for it.
  await core.useAll();
  expect(core.count()).toBe(1);
  await expect.poll(core.fault).toContain(refused);

  put("nonsense");
  await core.check();
  expect(core.fault()).toMatch(/^SVC_DATABASE_URL_FILE: must be a URL/);
  put(urlWith("wrong"));
  await core.check();
  expect(core.fault()).toBe(`SVC_DATABASE_URL: ${refused}`);
  await core.useAll();

  put(urlWith("second"));
  await core.check();
  expect(core.fault()).toBeUndefined();
  await expect
    .poll(async () => {
      await core.useAll();
      return core.count();
    })
    .toBeGreaterThan(1);
  await core.copy();
  expect(await isOpen(pid)).toBe(true);
  const warnings = core.log.lines.filter(({ level }) => level === "warn");
  const rejected = "files have changed and cannot be used; the old ones are kept";
  expect(warnings.map(({ message }) => message)).toEqual([
    "the unchanged value is no longer accepted",
    rejected,
    rejected,
  ]);
  expect(core.log.text()).not.toMatch(/second|wrong|nonsense/);
});

it("keeps a password that the server accepts until it accepts that of the file", async () => {
  await setPassword("first");
  put(urlWith("first"));
  const core = await open({ SVC_DATABASE_URL_FILE: path });
  await core.useAll();
  put(urlWith("second"));
  await core.check();
  expect(core.fault()).toBe(`SVC_DATABASE_URL: ${refused}`);
  // With a pool whose connections are all new.
  expect(await core.connect().sql`select 1 as one`).toEqual([{ one: 1 }]);
  await core.copy();
  await setPassword("second");
  await core.check();
  expect(core.fault()).toBeUndefined();
  expect(await core.connect().sql`select 1 as one`).toEqual([{ one: 1 }]);
  await core.copy();
});

it("reports a refused password where no connection is left", async () => {
  await setPassword("first");
  put(urlWith("other"));
  const core = await open({ SVC_DATABASE_URL_FILE: path });
  expect(await databaseCheck(core.pool.db).find()).toEqual({
    status: "not_ready",
    detail: `SVC_DATABASE_URL ${refused}.`,
  });
});

it("runs SVC_DATABASE_PASSWORD_COMMAND for new connections, once for all of a moment", async () => {
  const command = join(dir, "password");
  const runs = join(dir, "runs");
  const answer = (text: string) => writeFileSync(join(dir, "answer"), text);
  writeFileSync(command, `#!/bin/sh\necho run >> ${runs}\ncat ${join(dir, "answer")} || exit 3\n`);
  chmodSync(command, 0o755);
  await setPassword("a/token?of=15&minutes:%41");
  answer("a/token?of=15&minutes:%41\n");
  const core = await open({
    SVC_DATABASE_URL: urlWith(""),
    SVC_DATABASE_PASSWORD_COMMAND: command,
  });
  await core.useAll();
  await core.copy();
  expect(core.count()).toBeGreaterThan(1);
  const runsOf = () => readTrustedFile(runs).toString().split("\n").length - 1;
  expect(runsOf()).toBe(1);

  // A refused password is not kept.
  await setPassword("another");
  answer("another");
  const other = core.connect();
  await expect(other.sql`select 1`).rejects.toMatchObject({ code: "28P01" });
  await expect.poll(() => other.sql`select 1 as one`.catch(() => [])).toEqual([{ one: 1 }]);
  expect(runsOf()).toBe(2);
});

it.each([
  ["exit 3", "the command exited with 3"],
  ["echo two; echo lines", "the command did not print one line of text"],
])("reports why SVC_DATABASE_PASSWORD_COMMAND gives no password: %s", async (text, reason) => {
  const command = join(dir, "faulty");
  writeFileSync(command, `#!/bin/sh\n${text}\n`);
  chmodSync(command, 0o755);
  const core = await open({
    SVC_DATABASE_URL: urlWith(""),
    SVC_DATABASE_PASSWORD_COMMAND: command,
  });
  const detail = `needs the password of SVC_DATABASE_PASSWORD_COMMAND: ${reason}`;
  expect(await databaseCheck(core.pool.db).find()).toEqual({
    status: "not_ready",
    detail: `SVC_DATABASE_URL ${detail}.`,
  });
  await expect.poll(core.fault).toBe(`SVC_DATABASE_URL: ${detail}`);
});

it("rejects a SVC_DATABASE_PASSWORD_COMMAND that others may write", async () => {
  const command = join(dir, "open");
  writeFileSync(command, "#!/bin/sh\n");
  chmodSync(command, 0o777);
  await expect(open({ SVC_DATABASE_PASSWORD_COMMAND: command })).rejects.toThrow(
    "SVC_DATABASE_PASSWORD_COMMAND: the command may be written by group or world",
  );
});
