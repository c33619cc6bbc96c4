import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { webEnvironment } from "#scripts/lab/web-environment.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, type Program, startCore, startProgram, stopProgram } from "../support/program.ts";

/* docs/database.md#passwords: core and web as processes, with a password of PostgreSQL and an ops token that change in files. */

const dir = newFolder();
const at = (name: string) => join(dir, name);
const put = (name: string, contents: string) => {
  writeFileSync(at(`${name}.new`), contents);
  renameSync(at(`${name}.new`), at(name));
};
const refused = "has a password that the server refuses";

let server: EmbeddedPostgres;
let admin: ReturnType<typeof connectDatabase>;
let web: Program | undefined;
beforeAll(async () => {
  server = await startEmbeddedPostgres({ tcp: true });
  admin = connectDatabase({ url: server.url(), connectionsMax: 1 });
  await admin.sql`create role svc login superuser password 'pw-first'`;
  put("url", urlWith("pw-first"));
  put("ops", "tok_first");
});
afterAll(async () => {
  web?.child.kill("SIGKILL");
  await web?.exited;
  await admin?.close();
  await server?.stop("immediate");
});

const setPassword = (password: string) => admin.sql.unsafe(`alter role svc password '${password}'`);
/** Ends the sessions of the role, so that only new connections are left. */
const endSessions = () =>
  admin.sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'svc'`;
function urlWith(password: string) {
  const url = new URL(server.tcpUrl());
  url.username = "svc";
  url.password = password;
  return url.href;
}

it("core and web take a new password within seconds: no request fails, and a refused one is named", async () => {
  const environment = coreEnvironment("");
  const secret = environment.SVC_AUTH_TOKEN_SECRET;
  const core = await startCore({
    ...environment,
    SVC_DATABASE_URL_FILE: at("url"),
    SVC_OPS_BEARER_TOKEN_FILE: at("ops"),
    PORT: "0",
    SVC_HTTP_HOST: "127.0.0.1",
  });
  await seedPeople(admin.db, systemClock.now());
  const env = webEnvironment({
    SVC_DATABASE_URL_FILE: at("url"),
    SVC_API_URL: `${core.url}/v1`,
    SVC_AUTH_TOKEN_SECRET: secret,
  });
  const started = startProgram("ui/bff/main.ts", [], env);
  web = started;
  const webUrl = `http://127.0.0.1:${(await logged(started, "ready")).port}`;
  const bearer = { Authorization: `Bearer ${await bridgeTokenOf(secret, "admin")}` };
  const statusOf = async (url: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url, { headers });
    await response.body?.cancel();
    return response.status;
  };
  const check = async (name: string, token: string) => {
    const response = await fetch(`${core.url}/readyz`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    const { checks } = (await response.json()) as { checks: { name: string; detail: string }[] };
    return checks.find((each) => each.name === name)?.detail;
  };

  const statuses: string[] = [];
  let isRotating = true;
  const load = Array.from({ length: 12 }, async () => {
    while (isRotating) {
      statuses.push(`core ${await statusOf(`${core.url}/v1/whoami`, bearer)}`);
      statuses.push(`web ${await statusOf(`${webUrl}/readyz`)}`);
    }
  });
  const rotate = async () => {
    await expect.poll(() => statuses.length).toBeGreaterThan(20);
    await setPassword("pw-second");
    // Without the file, a new connection of core finds it out, or the file's next content.
    put("url", urlWith("pw-wrong"));
    await expect.poll(() => check("database_url_file", "tok_first")).toContain(refused);
    put("url", urlWith("pw-second"));
    await expect.poll(() => check("database_url_file", "tok_first")).toBe("The newest is in use.");
    put("ops", "tok_second");
    await expect.poll(() => check("database_url_file", "tok_second")).toBe("The newest is in use.");
  };
  await rotate().finally(() => (isRotating = false));
  await Promise.all(load);
  expect(new Set(statuses)).toEqual(new Set(["core 200", "web 200"]));

  // Without an open connection nothing works, and the log has each stack once.
  await setPassword("pw-third");
  await endSessions();
  await expect.poll(() => check("database", "tok_second")).toBe(`SVC_DATABASE_URL ${refused}.`);
  const failed = () => core.program.records.filter(({ msg }) => msg === "job failed; retrying");
  await expect.poll(() => failed().filter(({ failures }) => Number(failures) > 3)).not.toEqual([]);
  const causes = failed().flatMap(({ job, err }) => (err ? [JSON.stringify([job, err])] : []));
  expect(new Set(causes).size).toBe(causes.length);
  put("url", urlWith("pw-third"));
  for (const { child } of [core.program, started]) child.kill("SIGHUP");
  await expect.poll(() => statusOf(`${core.url}/v1/whoami`, bearer)).toBe(200);
  await expect.poll(() => statusOf(`${webUrl}/readyz`)).toBe(200);
  for (const { records } of [core.program, started])
    expect(JSON.stringify(records)).not.toMatch(/pw-|tok_/);
  expect(await stopProgram(started)).toBe(0);
}, 180_000);
